package tenants

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/tenant"
)

// world is a cache of accounts with the Tenants of it.
type world struct {
	*Tenants
	store toolscache.Indexer
}

func newWorld(t *testing.T, namespaces ...string) *world {
	t.Helper()
	informer := toolscache.NewSharedIndexInformer(&toolscache.ListWatch{}, &v1alpha1.Account{}, 0, toolscache.Indexers{})
	found, err := New(informer, tenant.Namespaces(namespaces))
	if err != nil {
		t.Fatal(err)
	}
	return &world{found, informer.GetIndexer()}
}

// put adds or replaces an account that was created some minutes after the first one.
func (w *world) put(t *testing.T, name string, minutes int, host v1alpha1.Host, namespace string, change func(*v1alpha1.Account)) {
	t.Helper()
	a := &v1alpha1.Account{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), CreationTimestamp: metav1.Unix(1_700_000_000+60*int64(minutes), 0)},
		Spec:       v1alpha1.AccountSpec{Host: host, Namespace: namespace},
	}
	if change != nil {
		change(a)
	}
	if err := w.store.Update(a); err != nil {
		t.Fatal(err)
	}
}

func (w *world) expect(t *testing.T, host, want string) {
	t.Helper()
	found, err := w.ByHost(host)
	name := ""
	if found != nil {
		name = found.Name
	}
	if err != nil || name != want {
		t.Errorf("host %q: account %q, %v, want %q", host, name, err, want)
	}
}

// TestByHost: the port, the case and a final dot of the host of a request do not matter, custom domains do, and a change of an
// account takes effect.
func TestByHost(t *testing.T) {
	w := newWorld(t)
	w.put(t, "acme", 0, "acme.example.com:8443", "acme", func(a *v1alpha1.Account) { a.Spec.CustomDomains = []v1alpha1.Host{"cube.acme.org"} })
	for _, host := range []string{"acme.example.com", "ACME.example.com:443", "acme.example.com.", "cube.acme.org", "cube.acme.org:8443"} {
		w.expect(t, host, "acme")
	}
	for _, host := range []string{"", ":443", "example.com", "x.acme.example.com", "[::1]:443", "acme"} {
		w.expect(t, host, "")
	}
	w.put(t, "acme", 0, "new.example.com", "acme", nil)
	w.expect(t, "new.example.com", "acme")
	w.expect(t, "acme.example.com", "")
	w.expect(t, "cube.acme.org", "")
}

// TestPrecedence: of several accounts with a host, the one that holds it answers, and the oldest before that is decided.
func TestPrecedence(t *testing.T) {
	w := newWorld(t)
	w.put(t, "young", 1, "acme.example.com", "young", nil)
	w.put(t, "old", 0, "acme.example.com", "old", nil)
	w.expect(t, "acme.example.com", "old")
	w.put(t, "young", 1, "acme.example.com", "young", func(a *v1alpha1.Account) { a.Status.Hosts = []string{"acme.example.com"} })
	w.expect(t, "acme.example.com", "young")
}

// TestServed: an account that is being deleted, whose namespace belongs to an older one, or is not one of the installation's, is not
// served by host or by name.
func TestServed(t *testing.T) {
	w := newWorld(t, "acme", "shared", "deleted")
	w.put(t, "acme", 0, "acme.example.com", "acme", nil)
	w.put(t, "other", 0, "other.example.com", "other", nil)
	w.put(t, "first", 0, "first.example.com", "shared", nil)
	w.put(t, "second", 1, "second.example.com", "shared", nil)
	w.put(t, "deleted", 0, "deleted.example.com", "deleted", func(a *v1alpha1.Account) {
		a.DeletionTimestamp = &metav1.Time{Time: time.Unix(1_700_000_000, 0)}
	})
	for name, served := range map[string]bool{"acme": true, "other": false, "first": true, "second": false, "deleted": false, "none": false} {
		want := map[bool]string{true: name}[served]
		w.expect(t, name+".example.com", want)
		if found, err := w.ByName(name); err != nil || (found != nil) != served {
			t.Errorf("name %q: %v, %v, want served %t", name, found, err, served)
		}
	}
}
