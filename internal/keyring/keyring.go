// Package keyring encrypts secrets that are stored in the database, and what access tokens contain, with keys that are in a Secret
// of the account.
//
// A secret is encrypted with AES-256-GCM. What it belongs to is authenticated with it, so that one cannot be exchanged for
// another in the database. Keys have numbers: the highest one encrypts, and all decrypt, so a key is rotated by adding one.
package keyring

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/engine"
)

const (
	// SecretName is the name of the Secret with the keys of an account, in the namespace of the account.
	SecretName = "quoin-user-token-keys" //nolint:gosec // a name, not a credential
	// keyBytes is the size of a key.
	keyBytes = 32
	// keptFor is how long keys are kept in memory. A key that is added encrypts after it at the latest.
	keptFor = time.Minute
)

// ErrUnknownKey is returned for a secret that was encrypted with a key that the Secret does not have, or not any more: a key that is
// created after the Secret is lost has the number of the first one.
var ErrUnknownKey = errors.New("the key with which it was encrypted is not in the Secret " + SecretName)

// ErrMalformed is returned for a text that Seal has not returned.
var ErrMalformed = errors.New("the encrypted secret is malformed")

// Keyring has the keys of all accounts. It must not be copied after first use.
type Keyring struct {
	// Live reads and creates Secrets at the Kubernetes API server.
	Live client.Client
	// Now is the clock.
	Now func() time.Time

	mu   sync.Mutex
	kept map[string]keys
}

// keys are the keys of an account.
type keys struct {
	byID   map[string]cipher.AEAD
	newest string
	readAt time.Time
}

// Seal encrypts a secret that belongs to something of an account, such as the token of a person.
func (k *Keyring) Seal(ctx context.Context, a *v1alpha1.Account, belongsTo string, secret []byte) (keyID, sealed string, err error) {
	all, err := k.of(ctx, a, "")
	if err != nil {
		return "", "", err
	}
	aead := all.byID[all.newest]
	nonce := make([]byte, aead.NonceSize())
	_, _ = rand.Read(nonce) // never fails
	return all.newest, base64.StdEncoding.EncodeToString(aead.Seal(nonce, nonce, secret, []byte(belongsTo))), nil
}

// Open decrypts a secret that Seal has encrypted.
func (k *Keyring) Open(ctx context.Context, a *v1alpha1.Account, belongsTo, keyID, sealed string) ([]byte, error) {
	all, err := k.of(ctx, a, keyID)
	if err != nil {
		return nil, err
	}
	aead := all.byID[keyID]
	if aead == nil {
		return nil, ErrUnknownKey
	}
	data, err := base64.StdEncoding.DecodeString(sealed)
	if err != nil || len(data) < aead.NonceSize() {
		return nil, ErrMalformed
	}
	secret, err := aead.Open(nil, data[:aead.NonceSize()], data[aead.NonceSize():], []byte(belongsTo))
	if err != nil {
		return nil, fmt.Errorf("%w, or the secret was changed, or belongs to something else", ErrUnknownKey)
	}
	return secret, nil
}

// of returns the keys of an account, which has the key needed if that is not empty and it exists. If none is needed, to encrypt, and
// there is none, the first one is created.
func (k *Keyring) of(ctx context.Context, a *v1alpha1.Account, needed string) (keys, error) {
	now, uid := k.Now(), string(a.UID)
	k.mu.Lock()
	known, ok := k.kept[uid]
	k.mu.Unlock()
	if ok && now.Sub(known.readAt) < keptFor && (needed == "" || known.byID[needed] != nil) {
		return known, nil
	}
	found, err := k.read(ctx, a, needed == "")
	if err != nil || found.newest == "" {
		return keys{}, err
	}
	found.readAt = now
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.kept == nil {
		k.kept = map[string]keys{}
	}
	k.kept[uid] = found
	return found, nil
}

// read reads the keys of an account. If there is no Secret it creates the first one, or returns none.
func (k *Keyring) read(ctx context.Context, a *v1alpha1.Account, create bool) (keys, error) {
	name := client.ObjectKey{Namespace: a.Spec.Namespace, Name: SecretName}
	secret := &corev1.Secret{}
	err := k.Live.Get(ctx, name, secret)
	if apierrors.IsNotFound(err) {
		if !create {
			return keys{}, nil
		}
		if err = k.create(ctx, a); err == nil || apierrors.IsAlreadyExists(err) {
			err = k.Live.Get(ctx, name, secret)
		}
	}
	if apierrors.IsForbidden(err) {
		return keys{}, fmt.Errorf("bind ClusterRole quoin-account-apiserver to quoin apiserver with a RoleBinding in namespace %q: %w", name.Namespace, err)
	}
	if err != nil {
		return keys{}, fmt.Errorf("read the keys of users' tokens: %w", err)
	}
	return parse(secret)
}

func (k *Keyring) create(ctx context.Context, a *v1alpha1.Account) error {
	key := make([]byte, keyBytes)
	_, _ = rand.Read(key) // never fails
	return k.Live.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: a.Spec.Namespace, Name: SecretName, Labels: map[string]string{engine.LabelManagedBy: engine.ManagedBy}},
		Data:       map[string][]byte{"1": key},
	})
}

// parse returns the keys in a Secret.
func parse(secret *corev1.Secret) (keys, error) {
	out, newest := keys{byID: map[string]cipher.AEAD{}}, 0
	for id, key := range secret.Data {
		number, err := strconv.Atoi(id)
		if err != nil || number < 1 || strconv.Itoa(number) != id || len(key) != keyBytes {
			return keys{}, fmt.Errorf("the key %q of the Secret %q is not a number with a value of %d bytes", id, SecretName, keyBytes)
		}
		block, err := aes.NewCipher(key)
		if err != nil {
			return keys{}, err
		}
		if out.byID[id], err = cipher.NewGCM(block); err != nil {
			return keys{}, err
		}
		if number > newest {
			newest, out.newest = number, id
		}
	}
	if newest == 0 {
		return keys{}, fmt.Errorf("the Secret %q has no keys", SecretName)
	}
	return out, nil
}
