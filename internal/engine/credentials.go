package engine

import (
	"encoding/hex"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Keys of the Secret CredentialsName, which the pods know.
const (
	// KeyAPISecret signs data API tokens.
	KeyAPISecret = "apiSecret"
	// KeyAPISecrets is, while a secret is being replaced, the comma-separated list of all
	// secrets that the pods accept. It is absent otherwise.
	KeyAPISecrets = "apiSecrets"
	// KeySQLPassword is the password of the SQL interface's user, SQLUser.
	KeySQLPassword = "sqlPassword"
)

// KeyMetadata is the key, in the Secret GatewayCredentialsName, of what signs metadata
// tokens. No pod of an environment has it: a pod refuses a metadata token, whatever image
// it runs, and the gateway alone lets one pass, to metadata endpoints.
const KeyMetadata = "metadataKey"

// SQLUser is the user of the SQL interface.
const SQLUser = "cube"

// secretBytes is the length of a secret: HMAC-SHA-256 gains nothing from a longer key
// (RFC 2104, section 3).
const secretBytes = 32

// NewCredentials makes the Secrets of an environment from random, crypto/rand.Reader outside
// of tests: first the one that the pods know, then the gateway's. They are to be created
// where they do not exist, and never applied over what is there.
//
// The Secrets can be changed, because secrets are rotated by adding before removing.
func NewCredentials(in Inputs, random io.Reader) ([]*corev1.Secret, error) {
	values := make([]string, 3)
	for i := range values {
		raw := make([]byte, secretBytes)
		if _, err := io.ReadFull(random, raw); err != nil {
			return nil, fmt.Errorf("make secret: %w", err)
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
