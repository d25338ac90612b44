package auth

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"strings"
)

// proof is the proof of knowledge of the secret in a webhook: either a signature or a token.
type proof struct {
	// signature is the HMAC-SHA256 of the body.
	signature []byte
	// token is the secret itself.
	token string
}

// signatures are the headers of signatures, with the prefix of the digits. GitHub, Gitea and Forgejo
// send the first, older versions of Gitea the second, Bitbucket the third, in which the others have
// SHA-1.
var signatures = []struct{ header, before string }{
	{"X-Hub-Signature-256", "sha256="},
	{"X-Gitea-Signature", ""},
	{"X-Hub-Signature", "sha256="},
}

// tokenHeader is the header of GitLab.
const tokenHeader = "X-Gitlab-Token" //nolint:gosec // the name of a header, no token

// proofOf returns the proof in the headers of a webhook and whether there is one. The first header
// that is present is used; it must not be repeated.
func proofOf(header http.Header) (proof, bool) {
	for _, form := range signatures {
		if values := header.Values(form.header); len(values) > 0 {
			signature, ok := parseSignature(values[0], form.before)
			return proof{signature: signature}, ok && len(values) == 1
		}
	}
	values := header.Values(tokenHeader)
	if len(values) != 1 || values[0] == "" {
		return proof{}, false
	}
	return proof{token: values[0]}, true
}

// parseSignature parses an HMAC-SHA256 in hexadecimal digits.
func parseSignature(value, before string) ([]byte, bool) {
	digits, ok := strings.CutPrefix(value, before)
	if !ok || len(digits) != hex.EncodedLen(sha256.Size) {
		return nil, false
	}
	signature, err := hex.DecodeString(digits)
	return signature, err == nil
}

// holds reports whether the proof matches a secret and a body, which it reads to the end if the proof
// is a signature. It takes constant time with respect to the secret.
func (p proof) holds(secret []byte, body io.Reader) (bool, error) {
	if p.signature == nil {
		// Hashes do not even reveal the length.
		shown, held := sha256.Sum256([]byte(p.token)), sha256.Sum256(secret)
		return hmac.Equal(shown[:], held[:]), nil
	}
	mac := hmac.New(sha256.New, secret)
	if _, err := io.Copy(mac, body); err != nil {
		return false, err
	}
	return hmac.Equal(p.signature, mac.Sum(nil)), nil
}
