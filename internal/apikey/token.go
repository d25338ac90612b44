// Package apikey implements the format, the hash and the validity of API keys.
//
// A token is
//
//	sk-quoin-<id><secret><checksum>
//
// with 12 digits of id, 32 of secret (190 bits) and 6 of checksum, in base 62 (0-9, A-Z,
// a-z, in this order). The id is public and identifies the key. The checksum is the CRC-32 (IEEE) of
// everything before it, as a number with leading zeros: it distinguishes a truncated or mistyped token
// from an unknown one without a lookup. Secret scanners find a token with Pattern.
package apikey

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"strings"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

const (
	// Prefix of every token.
	Prefix = "sk-quoin-"
	// Pattern is a regular expression for secret scanners.
	Pattern = `sk-quoin-[0-9A-Za-z]{50}`
)

const (
	idLength       = 12
	secretLength   = 32
	checksumLength = 6
	length         = len(Prefix) + idLength + secretLength + checksumLength
)

const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// isDigit has the bytes of the alphabet.
var isDigit = func() (all [256]bool) {
	for i := range len(alphabet) {
		all[alphabet[i]] = true
	}
	return all
}()

// Token is the token of an API key. Only Reveal returns its text; printing and logging hide it. The
// text is behind a pointer because fmt prints strings in fields of other types. The zero Token has
// the zero hash.
type Token struct{ text *string }

// New generates a token from random, which is crypto/rand.Reader outside of tests. It returns errors
// of random.
func New(random io.Reader) (Token, error) {
	digits, err := randomDigits(random, idLength+secretLength)
	if err != nil {
		return Token{}, fmt.Errorf("generate token: %w", err)
	}
	body := Prefix + digits
	text := body + checksum(body)
	return Token{&text}, nil
}

// randomDigits returns n uniformly distributed digits. It skips bytes that would bias the
// distribution.
func randomDigits(random io.Reader, n int) (string, error) {
	const fair = 256 / len(alphabet) * len(alphabet)
	digits, buffer := make([]byte, 0, n), make([]byte, n)
	for len(digits) < n {
		missing := buffer[:n-len(digits)]
		if _, err := io.ReadFull(random, missing); err != nil {
			return "", err
		}
		for _, b := range missing {
			if int(b) < fair {
				digits = append(digits, alphabet[int(b)%len(alphabet)])
			}
		}
	}
	return string(digits), nil
}

func checksum(body string) string {
	sum, base := crc32.ChecksumIEEE([]byte(body)), uint32(len(alphabet))
	var digits [checksumLength]byte
	for i := len(digits) - 1; i >= 0; i-- {
		digits[i] = alphabet[sum%base]
		sum /= base
	}
	return string(digits[:])
}

// Errors of Parse. They contain no part of the text.
var (
	errPrefix   = errors.New("an API key begins with " + Prefix)
	errLength   = fmt.Errorf("an API key has %d characters", length)
	errAlphabet = fmt.Errorf("an API key has only digits and letters after %s", Prefix)
	errChecksum = errors.New("the API key is mistyped or not whole: its checksum is wrong")
)

// Parse parses a token. Errors contain no part of the text.
func Parse(text string) (Token, error) {
	switch {
	case !strings.HasPrefix(text, Prefix):
		return Token{}, errPrefix
	case len(text) != length:
		return Token{}, errLength
	}
	for i := len(Prefix); i < length; i++ {
		if !isDigit[text[i]] {
			return Token{}, errAlphabet
		}
	}
	body := text[:length-checksumLength]
	if checksum(body) != text[len(body):] {
		return Token{}, errChecksum
	}
	return Token{&text}, nil
}

// Reveal returns the text of the token, empty for the zero Token.
func (t Token) Reveal() string {
	if t.text == nil {
		return ""
	}
	return *t.text
}

// ID returns the public part of the token: 12 digits, empty for the zero Token.
func (t Token) ID() string {
	if t.text == nil {
		return ""
	}
	return (*t.text)[len(Prefix) : len(Prefix)+idLength]
}

// Hash returns the id and the SHA-256 of the token. The secret has enough entropy to need neither a
// salt nor a slow hash.
func (t Token) Hash() v1alpha1.ApiKeyToken {
	if t.text == nil {
		return v1alpha1.ApiKeyToken{}
	}
	sum := sha256.Sum256([]byte(*t.text))
	return v1alpha1.ApiKeyToken{ID: t.ID(), SHA256: hex.EncodeToString(sum[:])}
}

// Equal reports whether two hashes are those of the same token, in constant time.
func Equal(a, b v1alpha1.ApiKeyToken) bool {
	return len(a.SHA256) == hex.EncodedLen(sha256.Size) && subtle.ConstantTimeCompare([]byte(a.SHA256), []byte(b.SHA256)) == 1
}

const hidden = Prefix + "[hidden]"

// String hides the token.
func (Token) String() string { return hidden }

// GoString hides the token.
func (Token) GoString() string { return hidden }

// LogValue hides the token.
func (Token) LogValue() slog.Value { return slog.StringValue(hidden) }
