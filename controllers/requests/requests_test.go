package requests

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

func TestFor(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	branch := func(namespace, name string) *v1alpha1.Branch {
		return &v1alpha1.Branch{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	}
	api := fake.NewClientBuilder().WithScheme(scheme).WithObjects(branch("acme", "a"), branch("acme", "b"), branch("other", "a")).Build()
	cases := map[string]struct {
		wanted func(*v1alpha1.Branch) bool
		opts   []client.ListOption
		want   []string
	}{
		"all":            {All[*v1alpha1.Branch], nil, []string{"acme/a", "acme/b", "other/a"}},
		"of a namespace": {All[*v1alpha1.Branch], []client.ListOption{client.InNamespace("acme")}, []string{"acme/a", "acme/b"}},
		"the wanted":     {func(b *v1alpha1.Branch) bool { return b.Name == "a" }, nil, []string{"acme/a", "other/a"}},
		"none":           {func(*v1alpha1.Branch) bool { return false }, nil, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, r := range For(t.Context(), api, &v1alpha1.BranchList{}, tc.wanted, tc.opts...) {
				got = append(got, r.String())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
	broken := interceptor.NewClient(api, interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return errors.New("x")
		},
	})
	if got := For(t.Context(), broken, &v1alpha1.BranchList{}, All[*v1alpha1.Branch]); got != nil {
		t.Errorf("got %v of a list that cannot be read", got)
	}
}
