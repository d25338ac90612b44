package keyring

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

func account(uid string) *v1alpha1.Account {
	return &v1alpha1.Account{ObjectMeta: metav1.ObjectMeta{Name: uid, UID: types.UID(uid)}, Spec: v1alpha1.AccountSpec{Namespace: uid}}
}

// world is a keyring whose clock a test sets.
type world struct {
	*Keyring
	api client.Client
	now time.Time
}

func newWorld(t *testing.T) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	w := &world{api: fake.NewClientBuilder().WithScheme(scheme).Build(), now: time.Unix(1000, 0)}
	w.Keyring = w.replica()
	return w
}

// replica returns the keyring of another process.
func (w *world) replica() *Keyring {
	return &Keyring{Live: w.api, Now: func() time.Time { return w.now }}
}

// set changes the keys of an account.
func (w *world) set(t *testing.T, a *v1alpha1.Account, change func(map[string][]byte)) {
	t.Helper()
	secret := &corev1.Secret{}
	if err := w.api.Get(t.Context(), client.ObjectKey{Namespace: a.Spec.Namespace, Name: SecretName}, secret); err != nil {
		t.Fatal(err)
	}
	if secret.Data == nil { // a Secret without keys
		secret.Data = map[string][]byte{}
	}
	change(secret.Data)
	if err := w.api.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
}

func TestSecretsAreEncrypted(t *testing.T) {
	w, a := newWorld(t), account("a1")
	id, sealed, err := w.Seal(t.Context(), a, "token of ada", []byte("secret text"))
	if err != nil || id != "1" || strings.Contains(sealed, "secret") {
		t.Fatalf("%s, %s, %v", id, sealed, err)
	}
	if _, again, _ := w.Seal(t.Context(), a, "token of ada", []byte("secret text")); again == sealed {
		t.Error("the same text is encrypted to the same result")
	}
	got, err := w.replica().Open(t.Context(), a, "token of ada", id, sealed)
	if err != nil || string(got) != "secret text" {
		t.Fatalf("%s, %v", got, err)
	}
	other := account("a2")
	if _, _, err := w.Seal(t.Context(), other, "token of ada", nil); err != nil {
		t.Fatal(err)
	}
	for name, try := range map[string]func() ([]byte, error){
		"of another person":  func() ([]byte, error) { return w.Open(t.Context(), a, "token of bob", id, sealed) },
		"of another account": func() ([]byte, error) { return w.Open(t.Context(), other, "token of ada", id, sealed) },
		"changed":            func() ([]byte, error) { return w.Open(t.Context(), a, "token of ada", id, "AAAA"+sealed[4:]) },
		"short":              func() ([]byte, error) { return w.Open(t.Context(), a, "token of ada", id, "AAAA") },
		"not base64":         func() ([]byte, error) { return w.Open(t.Context(), a, "token of ada", id, "?") },
	} {
		if got, err := try(); err == nil || strings.Contains(err.Error(), "secret text") {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
}

// TestNothingIsCreatedToDecrypt: a text that was not encrypted here, which anyone may send, creates no key.
func TestNothingIsCreatedToDecrypt(t *testing.T) {
	w, a := newWorld(t), account("a1")
	if got, err := w.Open(t.Context(), a, "token of ada", "1", "AAAA"); !errors.Is(err, ErrUnknownKey) {
		t.Errorf("%s, %v", got, err)
	}
	if err := w.api.Get(t.Context(), client.ObjectKey{Namespace: "a1", Name: SecretName}, &corev1.Secret{}); !apierrors.IsNotFound(err) {
		t.Errorf("the Secret: %v", err)
	}
	if _, _, err := w.Seal(t.Context(), a, "token of ada", nil); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

func TestKeysAreRotated(t *testing.T) {
	w, a := newWorld(t), account("a1")
	id, sealed, err := w.Seal(t.Context(), a, "x", []byte("first"))
	if err != nil {
		t.Fatal(err)
	}
	first := w.replica()
	if _, err := first.Open(t.Context(), a, "x", id, sealed); err != nil {
		t.Fatal(err)
	}
	w.set(t, a, func(keys map[string][]byte) {
		keys["10"], keys["9"] = bytes.Repeat([]byte{1}, keyBytes), bytes.Repeat([]byte{2}, keyBytes)
	})
	w.now = w.now.Add(keptFor)
	newID, newer, err := w.Seal(t.Context(), a, "x", []byte("second"))
	if err != nil || newID != "10" {
		t.Fatalf("encrypted with %s, %v", newID, err)
	}
	if got, err := first.Open(t.Context(), a, "x", newID, newer); err != nil || string(got) != "second" { // reads the Secret again
		t.Errorf("%s, %v", got, err)
	}
	if got, err := w.Open(t.Context(), a, "x", id, sealed); err != nil || string(got) != "first" {
		t.Errorf("%s, %v", got, err)
	}
	w.set(t, a, func(keys map[string][]byte) { delete(keys, "1") })
	w.now = w.now.Add(keptFor)
	if _, err := w.Open(t.Context(), a, "x", id, sealed); !errors.Is(err, ErrUnknownKey) {
		t.Errorf("a key that was removed: %v", err)
	}
}

func TestInvalidKeysAreReported(t *testing.T) {
	w, a := newWorld(t), account("a1")
	if _, _, err := w.Seal(t.Context(), a, "x", nil); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(map[string][]byte){
		"short":     func(keys map[string][]byte) { keys["2"] = []byte("short") },
		"no number": func(keys map[string][]byte) { keys["new"] = bytes.Repeat([]byte{1}, keyBytes) },
		"none":      func(keys map[string][]byte) { clear(keys) },
	} {
		w.set(t, a, func(keys map[string][]byte) {
			clear(keys)
			keys["1"] = bytes.Repeat([]byte{1}, keyBytes)
			change(keys)
		})
		w.now = w.now.Add(keptFor)
		if _, _, err := w.Seal(t.Context(), a, "x", nil); err == nil || !strings.Contains(err.Error(), SecretName) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
