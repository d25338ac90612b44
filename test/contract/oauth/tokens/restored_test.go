package tokens_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/content/usertoken"
	"github.com/quoin-dev/quoin/internal/keyring"
	"github.com/quoin-dev/quoin/internal/store"
)

// TestTokensAreRestored: `quoin restore` creates ScimUsers again, later and with other UIDs, which it replaces in the rows. They are
// the same people.
func TestTokensAreRestored(t *testing.T) {
	w := newWorld(t)
	replace := func(uid string, created time.Time) {
		ada := &v1alpha1.ScimUser{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "ada"}}
		w.must(w.api.Delete(t.Context(), ada))
		w.must(w.api.Create(t.Context(), &v1alpha1.ScimUser{
			ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "ada", UID: types.UID(uid), CreationTimestamp: metav1.NewTime(created)}, Spec: v1alpha1.ScimUserSpec{UserName: "ada"},
		}))
	}
	replace("u1", w.clock.Now())
	w.authorize("ada", 3)
	replace("u2", w.clock.Now().Add(time.Hour))

	w.must(w.db.Tx(t.Context(), func(tx *store.Tx) error { // what a restore does with all columns that end with _uid
		_, err := tx.ExecContext(t.Context(), "UPDATE user_oauth_token SET user_uid = 'u2' WHERE user_uid = 'u1'")
		return err
	}))
	w.must(w.service.Sweep(t.Context()))
	w.round()
	if c := w.credential("ada"); c.AccessToken == "" || w.rows() != 1 || w.provider.Live() == 0 {
		t.Errorf("after a restore: %+v, %d tokens are stored, %d are valid at the provider", c, w.rows(), w.provider.Live())
	}
	replace("u3", w.clock.Now())
	w.must(w.service.Sweep(t.Context()))
	w.round()
	if w.rows() != 0 || w.provider.Live() != 0 {
		t.Errorf("another person: %d tokens are stored, %d are valid", w.rows(), w.provider.Live())
	}
}

// TestLostKeysAreCreatedAgain: the first key that is created after the Secret is lost has the number of the lost one.
func TestLostKeysAreCreatedAgain(t *testing.T) {
	w := newWorld(t)
	w.authorize("ada", 3)
	w.must(w.api.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: keyring.SecretName}}))
	w.clock.Step(2 * time.Minute)
	if all, err := w.service.Credentials(t.Context(), w.account, "ada", named); err != nil || all["warehouse"].Status != string(usertoken.Ended) {
		t.Errorf("%+v, %v", all, err)
	}
	w.clock.Step(54 * time.Minute)
	w.round()
	if got := w.token("ada", 3); got.Status != usertoken.Ended {
		t.Errorf("%+v", got)
	}
	w.must(w.service.Revoke(t.Context(), w.account, "ada", 3))
	w.round()
	if w.rows() != 0 {
		t.Errorf("%d tokens are kept that nobody can revoke", w.rows())
	}
}
