package tenant

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

// account is one made at a second.
func account(name, namespace string, second int64) *v1alpha1.Account {
	return &v1alpha1.Account{
		ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.Unix(second, 0)},
		Spec:       v1alpha1.AccountSpec{Host: v1alpha1.Host(name + ".example.com"), Namespace: namespace},
	}
}

func newAPI(t *testing.T, objs ...client.Object) client.WithWatch {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objs...).
		WithIndex(&v1alpha1.Account{}, IndexNamespace, func(o client.Object) []string {
			a, _ := o.(*v1alpha1.Account)
			return []string{a.Spec.Namespace}
		}).Build()
}

// TestOf: a namespace belongs to one account, and all lookups return the same one.
func TestOf(t *testing.T) {
	cases := map[string]struct {
		accounts []client.Object
		want     string
	}{
		"one":                {[]client.Object{account("acme", "ns", 1)}, "acme"},
		"of another":         {[]client.Object{account("acme", "other", 1)}, ""},
		"none":               {nil, ""},
		"the older":          {[]client.Object{account("a", "ns", 5), account("b", "ns", 1)}, "b"},
		"same second":        {[]client.Object{account("b", "ns", 1), account("a", "ns", 1)}, "a"},
		"older of another":   {[]client.Object{account("a", "other", 1), account("b", "ns", 5)}, "b"},
		"not by the account": {[]client.Object{account("ns", "other", 1)}, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := Of(t.Context(), newAPI(t, tc.accounts...), "ns")
			if tc.want == "" {
				if !errors.Is(err, ErrNoAccount) || !strings.Contains(err.Error(), `"ns"`) || got != nil {
					t.Errorf("got %v, %v; want ErrNoAccount", got, err)
				}
				return
			}
			if err != nil || got.Name != tc.want {
				t.Errorf("got %v, %v; want %s", got, err, tc.want)
			}
		})
	}
	t.Run("unknown is not none", func(t *testing.T) {
		broken := errors.New("connection refused")
		c := interceptor.NewClient(newAPI(t), interceptor.Funcs{
			List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return broken },
		})
		if _, err := Of(t.Context(), c, "ns"); !errors.Is(err, broken) || errors.Is(err, ErrNoAccount) {
			t.Errorf("got %v", err)
		}
	})
}

// TestOlder: of two accounts one is older, and only one.
func TestOlder(t *testing.T) {
	all := []*v1alpha1.Account{account("a", "ns", 1), account("b", "ns", 1), account("a", "ns", 2), account("c", "ns", 3)}
	for i, a := range all {
		for j, b := range all {
			if got := Older(a, b); got != (i < j) {
				t.Errorf("%s of %s older than %s of %s: %v", a.Name, a.CreationTimestamp, b.Name, b.CreationTimestamp, got)
			}
		}
	}
}

func TestAddresses(t *testing.T) {
	cases := map[string]struct {
		spec            v1alpha1.AccountSpec
		hosts           []string
		url, dataDomain string
	}{
		"host":          {v1alpha1.AccountSpec{Host: "acme.example.com"}, []string{"acme.example.com"}, "https://acme.example.com", "data.acme.example.com"},
		"port":          {v1alpha1.AccountSpec{Host: "acme.example.com:8443"}, []string{"acme.example.com"}, "https://acme.example.com:8443", "data.acme.example.com:8443"},
		"custom domain": {v1alpha1.AccountSpec{Host: "acme.example.com", CustomDomains: []v1alpha1.Host{"bi.acme.test:444", "old.acme.test"}}, []string{"acme.example.com", "bi.acme.test", "old.acme.test"}, "https://bi.acme.test:444", "data.acme.example.com"},
		"data domain":   {v1alpha1.AccountSpec{Host: "acme.example.com", DataDomain: "data.test"}, []string{"acme.example.com"}, "https://acme.example.com", "data.test"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			a := &v1alpha1.Account{Spec: tc.spec}
			if diff := cmp.Diff(tc.hosts, Hosts(a)); diff != "" {
				t.Errorf("hosts (-want +got):\n%s", diff)
			}
			if URL(a) != tc.url || DataDomain(a) != tc.dataDomain {
				t.Errorf("url %s, data domain %s; want %s and %s", URL(a), DataDomain(a), tc.url, tc.dataDomain)
			}
		})
	}
}
