package signin

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/content/oauth"
	"github.com/quoin-dev/quoin/internal/store"
	"github.com/quoin-dev/quoin/internal/tenant"
)

// TestDeactivationEndsUnusedSessions: the session of a user who is deactivated ends without being used, so it is not valid when the
// user is activated again; that of another user is.
func TestDeactivationEndsUnusedSessions(t *testing.T) {
	db, err := store.Open(t.Context(), "sqlite://"+filepath.Join(t.TempDir(), "quoin.db"), nil, oauth.Owner)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	account := &v1alpha1.Account{ObjectMeta: metav1.ObjectMeta{Name: "demo", UID: "a1"}, Spec: v1alpha1.AccountSpec{Namespace: "demo"}}
	cache := fake.NewClientBuilder().WithScheme(scheme).WithObjects(account).WithIndex(&v1alpha1.Account{}, tenant.IndexNamespace, tenant.NamespaceOf).Build()
	of := store.Account{UID: "a1", Name: "demo"}
	sessions := &oauth.Store{DB: db, Record: RecordTx}
	secrets := map[string]string{}
	for _, uid := range []string{"ada", "bob"} {
		_, secret, err := sessions.StartSession(t.Context(), of, oauth.Session{Person: oauth.Person{Issuer: fuzzIssuer, Subject: uid, UserUID: uid}}, "")
		if err != nil {
			t.Fatal(err)
		}
		secrets[uid] = secret
	}
	leavers := NewLeavers(sessions, cache, slog.New(slog.DiscardHandler))
	ada := &v1alpha1.ScimUser{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "ada", UID: "ada"}}
	leavers.Left(ada)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := leavers.End(ended); err == nil {
		t.Error("no error of a canceled context")
	}
	if err := leavers.End(t.Context()); err != nil { // it tries again
		t.Error(err)
	}
	for uid, want := range map[string]bool{"ada": false, "bob": true} {
		if _, err := sessions.Session(t.Context(), of, secrets[uid]); (err == nil) != want {
			t.Errorf("%s: %v", uid, err)
		}
	}
}
