//go:build !memory

package scim_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/test/internal/scimtest"
)

// TestKeyIsRotated follows docs/operations/scim-setup.md: a second key works beside the first one, status.lastUsedTime shows
// that the first one is no longer used, and the second one works while the first one is revoked and removed.
func TestKeyIsRotated(t *testing.T) {
	hour := time.Now().Truncate(time.Hour)
	first, old := providerKey(t, "first")
	user := old.CreateUser(t, scimtest.UniqueName("rotated"))
	second, current := providerKey(t, "second")
	for _, key := range []scimtest.Caller{old, current} {
		for replica := range scimtest.Replicas {
			key.OnReplica(replica).Find(t, "/Users", `userName eq "none"`).WantStatus(200).Want("totalResults", 0)
		}
		key.Call(t, "PATCH", "/Users/"+user, scimtest.PatchBody(`{"op":"replace","value":{"title":`+scimtest.Quote(scimtest.UniqueName("title"))+`}}`)).WantStatus(200)
	}

	earlier := hour.Add(-2 * time.Hour)
	restartAPIServers(t, func() {
		for _, name := range []string{first, second} {
			if used := lastUsed(t, name); used.Before(hour) {
				t.Errorf("%s was last used at %s, want %s", name, used, hour)
			}
			setLastUsed(t, name, earlier) // two hours pass
		}
	})
	current.Call(t, "GET", "/Users/"+user, nil).WantStatus(200)
	restartAPIServers(t, func() {
		if used := lastUsed(t, first); !used.Equal(earlier) {
			t.Errorf("the first key was last used at %s, want %s", used, earlier)
		}
		if used := lastUsed(t, second); used.Before(hour) {
			t.Errorf("the second key was last used at %s, want %s", used, hour)
		}
	})

	key := &v1alpha1.ApiKey{ObjectMeta: metav1.ObjectMeta{Namespace: acme.Name, Name: first}}
	if err := scimtest.Kubernetes.Patch(t.Context(), key, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"revoked":true}}`))); err != nil {
		t.Fatal(err)
	}
	rejected := func() error {
		for replica := range scimtest.Replicas {
			current.OnReplica(replica).Call(t, "GET", "/Users/"+user, nil).WantStatus(200)
			if got := old.OnReplica(replica).Call(t, "GET", "/Users/"+user, nil); got.Status != 401 {
				return fmt.Errorf("replica %d: %s", replica, got)
			}
		}
		return nil
	}
	soon(t, "the first key is rejected", rejected)
	if err := scimtest.Kubernetes.Delete(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	if err := rejected(); err != nil {
		t.Error(err)
	}
	current.Call(t, "DELETE", "/Users/"+user, nil).WantStatus(204)
}

// providerKey creates a key of an identity provider as the guide does, with a token that the controller generates. It returns
// the name of the key and a caller with its token.
func providerKey(t *testing.T, name string) (string, scimtest.Caller) {
	t.Helper()
	key := &v1alpha1.ApiKey{ObjectMeta: metav1.ObjectMeta{Namespace: acme.Name, Name: dns(name)}, Spec: v1alpha1.ApiKeySpec{
		Permissions: []v1alpha1.Permission{v1alpha1.PermissionScimManage}, ScimProfile: "Okta",
	}}
	apply(t, key)
	ready(t, key, metav1.ConditionTrue, "")
	return key.Name, acme.WithToken(string(read(t, key.Name+"-token", &corev1.Secret{}).Data["token"]))
}

// restartAPIServers stops both replicas, which write then when keys were used, and starts them again.
func restartAPIServers(t *testing.T, meanwhile func()) {
	t.Helper()
	for replica, process := range scimtest.APIServers {
		if err := process.Stop(); err != nil {
			t.Errorf("replica %d: %v", replica, err)
		}
	}
	meanwhile()
	for replica, process := range scimtest.APIServers {
		if err := process.Start(); err != nil {
			t.Fatalf("replica %d: %v", replica, err)
		}
		soon(t, "the replica is back", func() error { return acme.Reachable(replica) })
	}
}

// lastUsed returns the time that the guide tells administrators to watch; zero if the key has none.
func lastUsed(t *testing.T, name string) time.Time {
	t.Helper()
	used := read(t, name, &v1alpha1.ApiKey{}).Status.LastUsedTime
	if used == nil {
		return time.Time{}
	}
	return used.Time
}

// setLastUsed sets the time of the last use.
func setLastUsed(t *testing.T, name string, used time.Time) {
	t.Helper()
	key := read(t, name, &v1alpha1.ApiKey{})
	before := client.MergeFrom(key.DeepCopy())
	key.Status.LastUsedTime = &metav1.Time{Time: used}
	if err := scimtest.Kubernetes.Status().Patch(t.Context(), key, before, client.FieldOwner("kubectl-edit")); err != nil {
		t.Error(err)
	}
}
