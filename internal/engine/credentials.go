package engine

import (
	"encoding/hex"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Keys of the Secret CredentialsName, which the pods use.
const (
	// KeyAPISecret signs data API tokens.
	KeyAPISecret = "apiSecret"
	// KeyAPISecrets is, during a rotation, the comma-separated list of all secrets that the pods
	// accept. It is absent otherwise.
	KeyAPISecrets = "apiSecrets"
	// KeySQLPassword is the password of the SQL interface's user, SQLUser.
	KeySQLPassword = "sqlPassword"
)

// KeyMetadata is the key in the Secret GatewayCredentialsName whose value signs metadata tokens.
// No pod of an environment has it: pods reject metadata tokens, whatever image they run, and only
// the gateway accepts them, for metadata endpoints.
const KeyMetadata = "metadataKey"

// SQLUser is the user of the SQL interface.
const SQLUser = "cube"

// secretBytes is the length of a secret: HMAC-SHA-256 gains nothing from a longer key
// (RFC 2104, section 3).
const secretBytes = 32

// NewCredentials returns new Secrets of an environment: that of the pods, then the gateway's.
// random is crypto/rand.Reader outside of tests. The caller must create the Secrets only if they do
// not exist, and never apply them over existing ones.
//
// The Secrets are not immutable, because secrets are rotated in place.
func NewCredentials(in Inputs, random io.Reader) ([]*corev1.Secret, error) {
	values := make([]string, 3)
	for i := range values {
		raw := make([]byte, secretBytes)
		if _, err := io.ReadFull(random, raw); err != nil {
			return nil, fmt.Errorf("generate secret: %w", err)
		}
		values[i] = hex.EncodeToString(raw)
	}
	return []*corev1.Secret{
		in.secret(CredentialsName(in.Environment), map[string][]byte{
			KeyAPISecret:   []byte(values[0]),
			KeySQLPassword: []byte(values[1]),
		}),
		in.secret(GatewayCredentialsName(in.Environment), map[string][]byte{
			KeyMetadata: []byte(values[2]),
		}),
	}, nil
}

func (in Inputs) secret(name string, data map[string][]byte) *corev1.Secret {
	return &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: in.objectMeta(name, ""),
		Type:       corev1.SecretTypeOpaque,
		Data:       data,
	}
}
