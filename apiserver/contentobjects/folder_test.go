package contentobjects

import (
	"context"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/content/contenttest"
	"github.com/quoin-dev/quoin/internal/kube"
	"github.com/quoin-dev/quoin/internal/store"
)

// reconcileFolder reconciles a Folder once, and returns it.
func (w *world) reconcileFolder(name string) *v1alpha1.Folder {
	w.Helper()
	o := Options{Database: w.store, Record: func(context.Context, *store.Tx, audit.Event) error { return nil }}
	r := newFolders(o, kube.NewClient(w.api, w.api, FieldManager), &process{}, clocktesting.NewFakePassiveClock(time.Now()))
	key := client.ObjectKey{Namespace: "demo", Name: name}
	if _, err := r.Reconcile(w.Context(), reconcile.Request{NamespacedName: key}); err != nil {
		w.Fatal(err)
	}
	f := &v1alpha1.Folder{}
	if err := w.api.Get(w.Context(), key, f); err != nil {
		w.Fatal(err)
	}
	return f
}

// createFolder creates a Folder of the deployment.
func (w *world) createFolder(name, shown string) {
	w.Helper()
	f := &v1alpha1.Folder{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: name, UID: types.UID(name), Generation: 1}}
	f.Spec.DeploymentRef.Name, f.Spec.Name = "analytics", v1alpha1.ContentName(shown)
	if err := w.api.Create(w.Context(), f); err != nil {
		w.Fatal(err)
	}
}

// messageOf returns the message of Ready.
func messageOf(f *v1alpha1.Folder) string {
	if c := meta.FindStatusCondition(f.Status.Conditions, v1alpha1.ConditionReady); c != nil {
		return c.Message
	}
	return ""
}

// TestTheOldestHasTheFolder: the oldest of several Folders with a name has the folder, whichever was reconciled first. The order of
// those of one second is that of their names in Kubernetes.
func TestTheOldestHasTheFolder(t *testing.T) {
	w := newWorld(t, "sqlite://"+t.TempDir()+"/content.db")
	younger := w.reconcileFolder(folderKey.Name)
	w.createFolder("earlier", "finance")
	older := w.reconcileFolder("earlier")
	if !meta.IsStatusConditionTrue(older.Status.Conditions, v1alpha1.ConditionReady) || older.Status.FolderID == 0 || older.Status.FolderID != younger.Status.FolderID {
		t.Errorf("the older Folder has %+v, the younger one had folder %d", older.Status, younger.Status.FolderID)
	}
	if younger = w.reconcileFolder(folderKey.Name); !isStalled(younger) || !strings.Contains(messageOf(younger), `Folder "earlier", which is older`) {
		t.Errorf("the younger Folder has %+v", younger.Status)
	}
	if err := w.api.Delete(t.Context(), younger); err != nil {
		t.Fatal(err)
	}
	r := newFolders(Options{Database: w.store}, kube.NewClient(w.api, w.api, FieldManager), &process{}, clocktesting.NewFakePassiveClock(time.Now()))
	if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: folderKey}); err != nil {
		t.Fatal(err)
	}
	if n := contenttest.Count(t, w.store, "folder"); n != 1 {
		t.Errorf("after the deletion of the younger Folder there are %d folders, want that of the older one", n)
	}
}

// TestARenamedFolderKeepsItsContent: a Folder that gets the former name of another one does not get the folder of that.
func TestARenamedFolderKeepsItsContent(t *testing.T) {
	w := newWorld(t, "sqlite://"+t.TempDir()+"/content.db")
	renamed := w.reconcileFolder(folderKey.Name)
	id := renamed.Status.FolderID
	renamed.Spec.Name = "Money"
	if err := w.api.Update(t.Context(), renamed); err != nil {
		t.Fatal(err)
	}
	w.createFolder("next", "Finance")
	if next := w.reconcileFolder("next"); !isStalled(next) || !strings.Contains(messageOf(next), "managed by Folder demo/finance") {
		t.Errorf("before the other one is renamed: %+v", next.Status)
	}
	renamed = w.reconcileFolder(folderKey.Name)
	next := w.reconcileFolder("next")
	if renamed.Status.FolderID != id || next.Status.FolderID == 0 || next.Status.FolderID == id {
		t.Errorf("the renamed one has folder %d, which had %d; the next one has %d", renamed.Status.FolderID, id, next.Status.FolderID)
	}
}
