package contentusers

import (
	"context"
	"errors"
	"testing"

	"github.com/quoin-dev/quoin/apiserver/auth"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/contenttest"
	"github.com/quoin-dev/quoin/internal/content/subject"
	"github.com/quoin-dev/quoin/internal/store"
)

// as returns the context of a request of a user; of a key without a user if it is nil.
func (w *world) as(u *subject.User) context.Context {
	p := &auth.Principal{Kind: auth.KindAPIKey, ID: "k"}
	if u != nil {
		p.User, p.UserUID = u.Name, u.UID
	}
	return (&rest.Scope{Account: w.account, Principal: p}).With(w.Context())
}

func TestGuard(t *testing.T) {
	w := newWorld(t)
	db := w.service.Guard(w.store)
	insert := func(tx *store.Tx) error {
		if err := tx.LockAccount(t.Context(), stored(w.account)); err != nil {
			return err
		}
		_, err := tx.ExecContext(t.Context(), "INSERT INTO deployment (uid, account_uid, namespace, name, first_seen, last_seen) VALUES ('d9', 'a1', 'demo', 'x', 0, 0)")
		return err
	}
	nothing := func(store.Querier) error { return nil }
	w.must(db.Read(w.as(nil), nothing))
	if n := contenttest.Count(t, w.store, "content_user"); n != 0 {
		t.Errorf("%d users are recorded for a key without a user", n)
	}
	w.must(db.Read(w.as(&ada), nothing))
	w.must(db.Tx(w.as(&ada), func(*store.Tx) error { return nil }))
	if n := contenttest.Count(t, w.store, "content_user"); n != 1 {
		t.Errorf("%d users are recorded", n)
	}
	// The user is deleted, which another replica has noticed. This one has admitted the user before.
	w.must(w.api.Delete(t.Context(), user(ada)))
	contenttest.Exec(t, w.store, "UPDATE content_user SET gone = 1")
	for name, transact := range map[string]func(context.Context, func(*store.Tx) error) error{"Tx": db.Tx, "TxAsync": db.TxAsync} {
		var rejected *content.Error
		if err := transact(w.as(&ada), insert); !errors.As(err, &rejected) || rejected.Reason != content.Forbidden {
			t.Errorf("%s of a deleted user: %v", name, err)
		}
	}
	if n := contenttest.Count(t, w.store, "deployment"); n != 0 {
		t.Error("a deleted user has changed content")
	}
	// Another user of the name can.
	w.must(w.api.Create(t.Context(), user(again)))
	w.must(db.Tx(w.as(&again), insert))
	if n := contenttest.Count(t, w.store, "deployment"); n != 1 {
		t.Error("the next user of the name has not changed content")
	}
}
