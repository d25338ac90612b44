package kube

import (
	"context"
	"errors"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// TestPages: every page is in a list of its own, and is requested only if the caller has not stopped before it.
func TestPages(t *testing.T) {
	expired := errors.New("the token has expired")
	for name, c := range map[string]struct {
		fails, last string // the page that cannot be read, and the one after which the caller stops
		want        []string
		err         error
		requests    int
	}{
		"all":      {"", "", []string{"a", "b", "c"}, nil, 3},
		"stopped":  {"", "b", []string{"a", "b"}, nil, 2},
		"an error": {"b", "", []string{"a"}, expired, 2},
	} {
		requests := 0
		api := interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{
			List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
				requests++
				o := (&client.ListOptions{}).ApplyOptions(options)
				if o.Namespace != "demo" || o.Limit != pageSize {
					t.Errorf("%s: the options are %+v", name, o)
				}
				page, item := list.(*corev1.ConfigMapList), map[string]string{"": "a", "after a": "b", "after b": "c"}[o.Continue]
				if item == c.fails {
					return expired
				}
				page.Items = append(page.Items, corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: item}})
				if item != "c" {
					page.Continue = "after " + item
				}
				return nil
			},
		})
		var got []string
		var failure error
		for page, err := range Pages(t.Context(), api, &corev1.ConfigMapList{}, client.InNamespace("demo")) {
			failure = err
			for i := range page.Items {
				got = append(got, page.Items[i].Name)
			}
			if c.last != "" && slices.Contains(got, c.last) {
				break
			}
		}
		if !slices.Equal(got, c.want) || !errors.Is(failure, c.err) || requests != c.requests {
			t.Errorf("%s: %v, %v after %d requests; want %v, %v after %d", name, got, failure, requests, c.want, c.err, c.requests)
		}
	}
}
