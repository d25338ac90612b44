package contentobjects

import (
	"context"
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/access"
	"github.com/quoin-dev/quoin/internal/content/contenttest"
	"github.com/quoin-dev/quoin/internal/content/folder"
	"github.com/quoin-dev/quoin/internal/content/managed"
	"github.com/quoin-dev/quoin/internal/content/workspace"
	"github.com/quoin-dev/quoin/internal/store"
	"github.com/quoin-dev/quoin/internal/store/storetest"
)

func TestMain(m *testing.M) { storetest.Main(m, nil) }

// TestContentWithoutItsObjectIsReleased, and only that: it is kept, and users can change it.
func TestContentWithoutItsObjectIsReleased(t *testing.T) {
	storetest.ForEach(t, func(t *testing.T, newDatabase func(testing.TB) string) {
		s := contenttest.Open(t, newDatabase(t), audit.Owner, folder.Owner, workspace.Owner, access.Owner)
		w := &workspace.Workspace{DB: s, Record: func(context.Context, *store.Tx, audit.Event) error { return nil }}
		scope := content.Scope{Account: store.Account{UID: "a1", Name: "demo"}, Deployment: store.Deployment{UID: "d1", Namespace: "demo", Name: "sales"}}
		ids := map[string]int64{}
		for _, name := range []string{"kept", "lost"} {
			of := managed.Object{Kind: managed.Workbook, Namespace: "demo", Name: name, UID: "u-" + name, Generation: 1}
			applied, err := w.Apply(t.Context(), scope, caller(of), managed.Options{Object: of}, workspace.Definition{Slug: name})
			if err != nil {
				t.Fatal(err)
			}
			ids[name] = applied.Workbook.ID
		}
		scheme := runtime.NewScheme()
		if err := v1alpha1.AddToScheme(scheme); err != nil {
			t.Fatal(err)
		}
		kept := &v1alpha1.Workbook{}
		kept.Namespace, kept.Name = "demo", "kept"
		live := fake.NewClientBuilder().WithScheme(scheme).WithObjects(kept).Build()

		// Without an answer of the API server nothing is released.
		down := errors.New("the API server is down")
		unanswered := interceptor.NewClient(live, interceptor.Funcs{Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return down
		}})
		if err := (&sweeper{s, unanswered}).scan(t.Context()); !errors.Is(err, down) || contenttest.Count(t, s, "managed_content") != 2 {
			t.Errorf("%d rows, %v", contenttest.Count(t, s, "managed_content"), err)
		}
		for range 2 {
			if err := (&sweeper{s, live}).scan(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		ada := workspace.Caller{Principal: "ApiKey:ada", Owner: "ScimUser:ada", Access: access.Everything}
		mine := "mine"
		if _, err := w.Update(t.Context(), scope, ada, ids["lost"], workspace.Change{Name: &mine}); err != nil {
			t.Errorf("a released workbook: %v", err)
		}
		_, err := w.Update(t.Context(), scope, ada, ids["kept"], workspace.Change{Name: &mine})
		contenttest.Rejects(t, err, content.Conflict, "managed by Workbook demo/kept")
	})
}
