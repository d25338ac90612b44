package oidctoken

import (
	"crypto"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"slices"
	"time"

	"github.com/go-jose/go-jose/v4"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

// The life of a key: it is created RotationPeriod after the one before it, published at once, signs after ActivationDelay,
// and is removed retention after the next one signs.
const (
	// RotationPeriod is the time between two keys.
	RotationPeriod = 30 * 24 * time.Hour
	// ActivationDelay is how long a key is published before it signs, so that systems that cache the keys know it.
	ActivationDelay = 24 * time.Hour
	// retention is how long a key is published after another one signs: all its tokens have expired then.
	retention = Lifetime + time.Hour
	// CheckInterval is how often it is checked that the private keys exist.
	CheckInterval = 15 * time.Minute
)

// maxKeys is the maximum number of keys of an account, as in the schema.
const maxKeys = 8

// keyBits is the size of keys. AWS, GCP, Azure and Snowflake accept RS256; some do not accept ES256.
const keyBits = 2048

// exponent is the public exponent of the keys that crypto/rsa generates.
const exponent = 65537

// DataPrivateKey is the key of a Secret with a private key.
const DataPrivateKey = "privateKey"

// KeySecretName returns the name of the Secret with a private key.
func KeySecretName(account string, number int64) string {
	return fmt.Sprintf("%s-oidc-key-%d", account, number)
}

// signing returns the index of the key that signs: the newest that has been published for ActivationDelay, or else the
// oldest.
func signing(keys []v1alpha1.OidcTokenKey, now time.Time) int {
	for i := len(keys) - 1; i > 0; i-- {
		if !now.Before(activation(&keys[i])) {
			return i
		}
	}
	return 0
}

func activation(k *v1alpha1.OidcTokenKey) time.Time { return k.PublishTime.Add(ActivationDelay) }

// Signers returns the keys with which a token may be signed, the preferred one first. The others sign if the private key of
// those before them is lost. There is at least one if there are keys.
func Signers(keys []v1alpha1.OidcTokenKey, now time.Time) []v1alpha1.OidcTokenKey {
	if len(keys) == 0 {
		return nil
	}
	return slices.Clone(keys[signing(keys, now):])
}

// Plan is what has to be done with the keys of an account.
type Plan struct {
	// Create is the number of the key to create, 0 for none.
	Create int64
	// Remove are the keys to remove.
	Remove []v1alpha1.OidcTokenKey
	// Next is when the plan changes.
	Next time.Time
}

// PlanKeys returns the plan for keys at a time. lost reports whether the private keys of all Signers are lost.
func PlanKeys(keys []v1alpha1.OidcTokenKey, lost bool, now time.Time) Plan {
	if len(keys) == 0 {
		return Plan{Create: 1, Next: now.Add(CheckInterval)}
	}
	newest := &keys[len(keys)-1]
	p := Plan{Next: now.Add(CheckInterval)}
	at := func(t time.Time) {
		if t.After(now) && t.Before(p.Next) {
			p.Next = t
		}
	}
	rotation := newest.PublishTime.Add(RotationPeriod)
	if lost || !now.Before(rotation) {
		p.Create = newest.Number + 1
	}
	at(rotation)
	at(activation(newest))
	if current := signing(keys, now); current > 0 {
		removal := activation(&keys[current]).Add(retention)
		if !now.Before(removal) {
			p.Remove = slices.Clone(keys[:current])
		}
		at(removal)
	}
	if p.Create > 0 && len(keys)-len(p.Remove) >= maxKeys {
		p.Remove = slices.Clone(keys[:len(keys)-maxKeys+1])
	}
	return p
}

// PrivateKey is a key that signs tokens.
type PrivateKey struct {
	// ID is the key ID in the header of tokens.
	ID      string
	private *rsa.PrivateKey
}

// Generate returns a new key. random is crypto/rand.Reader outside of tests.
func Generate(random io.Reader) (*PrivateKey, error) {
	private, err := rsa.GenerateKey(random, keyBits)
	if err != nil {
		return nil, fmt.Errorf("generate key: %w", err)
	}
	return newPrivateKey(private)
}

func newPrivateKey(private *rsa.PrivateKey) (*PrivateKey, error) {
	if private.E != exponent {
		return nil, fmt.Errorf("the exponent of the key is %d, must be %d", private.E, exponent)
	}
	thumbprint, err := (&jose.JSONWebKey{Key: &private.PublicKey}).Thumbprint(crypto.SHA256)
	if err != nil {
		return nil, fmt.Errorf("thumbprint of key: %w", err)
	}
	return &PrivateKey{ID: base64.RawURLEncoding.EncodeToString(thumbprint), private: private}, nil
}

// pemType is the type of the PEM block of a private key (RFC 7468 section 10).
const pemType = "PRIVATE KEY"

// Encode returns the key in PKCS #8 and PEM.
func (k *PrivateKey) Encode() ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(k.private)
	if err != nil {
		return nil, fmt.Errorf("encode key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: pemType, Bytes: der}), nil
}

// errNoKey is the error for data that is not a key; it does not repeat the data.
var errNoKey = errors.New("not an RSA key in PKCS #8 and PEM")

// Decode decodes a key of Encode.
func Decode(data []byte) (*PrivateKey, error) {
	block, _ := pem.Decode(data)
	if block == nil || block.Type != pemType {
		return nil, errNoKey
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, errNoKey
	}
	private, ok := parsed.(*rsa.PrivateKey)
	if !ok {
		return nil, errNoKey
	}
	return newPrivateKey(private)
}

// Public returns the public key, with a number and the time when it is published.
func (k *PrivateKey) Public(number int64, now time.Time) v1alpha1.OidcTokenKey {
	return v1alpha1.OidcTokenKey{
		Number: number, ID: k.ID, Modulus: base64.RawURLEncoding.EncodeToString(k.private.N.Bytes()),
		PublishTime: metav1.NewTime(now.UTC().Truncate(time.Second)),
	}
}

// KeySet returns the JSON Web Key Set of public keys (RFC 7517 section 5).
func KeySet(keys []v1alpha1.OidcTokenKey) ([]byte, error) {
	set := jose.JSONWebKeySet{Keys: make([]jose.JSONWebKey, 0, len(keys))}
	for i := range keys {
		modulus, err := base64.RawURLEncoding.DecodeString(keys[i].Modulus)
		if err != nil {
			return nil, fmt.Errorf("modulus of key %d: %w", keys[i].Number, err)
		}
		set.Keys = append(set.Keys, jose.JSONWebKey{
			Key: &rsa.PublicKey{N: new(big.Int).SetBytes(modulus), E: exponent}, KeyID: keys[i].ID, Algorithm: string(jose.RS256), Use: "sig",
		})
	}
	return json.Marshal(set)
}
