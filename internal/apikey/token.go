// Package apikey knows API keys: how a token is written, what is kept of it, and when a key
// works.
//
// A token is
//
//	sk-quoin-<id><secret><checksum>
//
// with 12 digits of id, 32 of secret (190 bits) and 6 of checksum, in base 62 (0-9, A-Z,
// a-z, in this order). The id is public: the key is found by it. The checksum is the CRC-32
// (IEEE) of everything before it, as a number with leading zeros, so that what was cut off or
// mistyped is told from what was never given out, without a look-up. Secret scanners find a
// token by Pattern.
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
	// Prefix is what every token begins with.
	Prefix = "sk-quoin-"
	// Pattern is the regular expression by which secret scanners find a token.
	Pattern = `sk-quoin-[0-9A-Za-z]{50}`
)

const (
	idLength       = 12
	secretLength   = 32
	checksumLength = 6
	length         = len(Prefix) + idLength + secretLength + checksumLength
)

const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// Token is the token of an API key. However it is printed or logged, only Reveal shows it;
// it is behind a pointer because fmt shows strings in fields of other types' structs. The
// zero Token is no token: it matches nothing.
type Token struct{ text *string }

// New makes a token from random, crypto/rand.Reader outside of tests. The error is random's.
func New(random io.Reader) (Token, error) {
	digits, err := randomDigits(random, idLength+secretLength)
	if err != nil {
		return Token{}, fmt.Errorf("make token: %w", err)
	}
	body := Prefix + digits
	text := body + checksum(body)
	return Token{&text}, nil
}

// randomDigits are n digits, each as likely as any other: bytes that would make some
// likelier are passed over.
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

// What is wrong with a text that is no token. None holds any part of it.
var (
	errPrefix   = errors.New("an API key begins with " + Prefix)
	errLength   = fmt.Errorf("an API key has %d characters", length)
	errAlphabet = fmt.Errorf("an API key has only digits and letters after %s", Prefix)
	errChecksum = errors.New("the API key is mistyped or not whole: its checksum is wrong")
)

// Parse reads a token. The error says what is wrong with the text and holds no part of it.
func Parse(text string) (Token, error) {
	switch {
	case !strings.HasPrefix(text, Prefix):
		return Token{}, errPrefix
	case len(text) != length:
		return Token{}, errLength
	}
	for i := len(Prefix); i < length; i++ {
		if strings.IndexByte(alphabet, text[i]) < 0 {
			return Token{}, errAlphabet
		}
	}
	body := text[:length-checksumLength]
	if checksum(body) != text[len(body):] {
		return Token{}, errChecksum
	}
	return Token{&text}, nil
}

// Reveal is the token itself, empty for the zero Token.
func (t Token) Reveal() string {
	if t.text == nil {
		return ""
	}
	return *t.text
}

// ID is the public part of the token: 12 digits, empty for the zero Token.
func (t Token) ID() string {
	if t.text == nil {
		return ""
	}
	return (*t.text)[len(Prefix) : len(Prefix)+idLength]
}

// Hash is what is kept of the token: its id, and the SHA-256 of all of it. The secret has
// too many bits for anybody to try them out, so the hash needs neither salt nor cost.
func (t Token) Hash() v1alpha1.ApiKeyToken {
	sum := sha256.Sum256([]byte(t.Reveal()))
	return v1alpha1.ApiKeyToken{ID: t.ID(), SHA256: hex.EncodeToString(sum[:])}
}

// Matches tells whether a token is the one that hash was made of. How long it takes does not
// depend on where they differ.
func Matches(hash v1alpha1.ApiKeyToken, t Token) bool {
	kept, err := hex.DecodeString(hash.SHA256)
	if err != nil || t.text == nil {
		return false
	}
	sum := sha256.Sum256([]byte(*t.text))
	return subtle.ConstantTimeCompare(kept, sum[:]) == 1
}

const hidden = Prefix + "[hidden]"

// String hides the token.
func (Token) String() string { return hidden }

// GoString hides the token.
func (Token) GoString() string { return hidden }

// LogValue hides the token.
func (Token) LogValue() slog.Value { return slog.StringValue(hidden) }
