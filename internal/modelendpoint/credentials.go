package modelendpoint

import (
	"crypto/x509"
	"errors"
	"strings"
)

// maxKey is the maximum length of an API key in bytes: it is sent in a header.
const maxKey = 8 << 10

// Key returns the API key in a value of a Secret, without the new line at its end. Errors have nothing of the value.
func Key(value []byte) (string, error) {
	key := strings.TrimRight(string(value), "\r\n")
	if key == "" || len(key) > maxKey || strings.ContainsFunc(key, func(r rune) bool { return r < '!' || r > '~' }) {
		return "", errors.New("an API key has 1 to 8192 printable ASCII characters without spaces")
	}
	return key, nil
}

// Roots returns the certificates in a value of a Secret.
func Roots(value []byte) (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(value) {
		return nil, errors.New("there is no certificate in PEM form")
	}
	return pool, nil
}
