package apikey

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	mathrand "math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

// made is a token whose checksum and hash were computed by another program (Python's zlib and
// hashlib): the format is a promise.
const made = "sk-quoin-0123456789AB0123456789ABCDEFGHIJKLMNOPQRSTUV3wIYBr"

func newToken(t *testing.T) Token {
	t.Helper()
	token, err := New(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func TestFormat(t *testing.T) {
	digits := make([]byte, 0, 44)
	for i := range 12 {
		digits = append(digits, byte(i))
	}
	for i := range 32 {
		digits = append(digits, byte(i)+62) // the second round of the alphabet
	}
	token, err := New(bytes.NewReader(digits))
	if err != nil || token.Reveal() != made {
		t.Fatalf("got %q, %v", token.Reveal(), err)
	}
	want := v1alpha1.ApiKeyToken{ID: "0123456789AB", SHA256: "891ca82bc2c92d68ad207824710c6921a249755bb013917c6bf715911ec57520"}
	if got := token.Hash(); got != want {
		t.Errorf("hash is %+v", got)
	}
}

func TestRoundTrip(t *testing.T) {
	pattern := regexp.MustCompile("^" + Pattern + "$")
	seen := map[string]bool{}
	for range 1000 {
		token := newToken(t)
		if !pattern.MatchString(token.Reveal()) || seen[token.ID()] {
			t.Fatalf("%q", token.Reveal())
		}
		seen[token.ID()] = true
		again, err := Parse(token.Reveal())
		if err != nil || again.Reveal() != token.Reveal() || !Equal(token.Hash(), again.Hash()) {
			t.Fatalf("%q is not read back: %v", token.Reveal(), err)
		}
	}
}

// TestUniform: with 248 bytes of 256 in use no digit is likelier than another. Each of 62
// digits is expected 10000 times with a standard deviation of 100.
func TestUniform(t *testing.T) {
	random := mathrand.NewChaCha8([32]byte{1})
	counts := map[rune]int{}
	digits, err := randomDigits(random, 62*10000)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range digits {
		counts[d]++
	}
	for _, d := range alphabet {
		if counts[d] < 9500 || counts[d] > 10500 {
			t.Errorf("%c comes %d times", d, counts[d])
		}
	}
}

func TestNewWithoutRandomness(t *testing.T) {
	broken := errors.New("no entropy")
	for name, random := range map[string]io.Reader{
		"none":   iotest.ErrReader(broken),
		"unfair": io.MultiReader(bytes.NewReader(bytes.Repeat([]byte{255}, 100)), iotest.ErrReader(broken)),
	} {
		if token, err := New(random); !errors.Is(err, broken) || token.Reveal() != "" {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestParse(t *testing.T) {
	cases := map[string]struct {
		text string
		want error
	}{
		"good":            {made, nil},
		"empty":           {"", errPrefix},
		"other prefix":    {"sk-other-" + made[len(Prefix):], errPrefix},
		"upper prefix":    {"SK-QUOIN-" + made[len(Prefix):], errPrefix},
		"space before":    {" " + made, errPrefix},
		"prefix only":     {Prefix, errLength},
		"too short":       {made[:len(made)-1], errLength},
		"too long":        {made + "0", errLength},
		"far too long":    {made + strings.Repeat("0", 1<<20), errLength},
		"newline":         {made + "\n", errLength},
		"not base 62":     {strings.Replace(made, "AB0", "A-0", 1), errAlphabet},
		"not ASCII":       {made[:len(made)-2] + "é", errAlphabet},
		"NUL":             {made[:len(made)-1] + "\x00", errAlphabet},
		"one digit other": {strings.Replace(made, "TUV", "TUW", 1), errChecksum},
		"two swapped":     {strings.Replace(made, "TUV", "UTV", 1), errChecksum},
		"checksum other":  {made[:len(made)-1] + "0", errChecksum},
		"checksum's case": {made[:len(made)-1] + "Z", errChecksum},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			token, err := Parse(tc.text)
			if !errors.Is(err, tc.want) {
				t.Fatalf("got %v, want %v", err, tc.want)
			}
			if err != nil && token.Reveal() != "" {
				t.Error("a token besides the error")
			}
		})
	}
}

func TestEqual(t *testing.T) {
	token, other := newToken(t), newToken(t)
	hash := token.Hash()
	cases := map[string]struct {
		a, b v1alpha1.ApiKeyToken
		want bool
	}{
		"same":        {hash, token.Hash(), true},
		"other token": {hash, other.Hash(), false},
		"no hash":     {v1alpha1.ApiKeyToken{}, hash, false},
		"cut off":     {v1alpha1.ApiKeyToken{SHA256: hash.SHA256[:32]}, hash, false},
		"no token":    {hash, Token{}.Hash(), false},
		"nothing":     {Token{}.Hash(), Token{}.Hash(), false},
	}
	for name, tc := range cases {
		if got := Equal(tc.a, tc.b); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestHidden: no verb, no encoder and no struct around it shows a token.
func TestHidden(t *testing.T) {
	token := newToken(t)
	around := struct {
		inner  Token
		Outer  Token
		number int
	}{token, token, 1}
	var out strings.Builder
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d", "%T"} {
		for _, value := range []any{token, &token, around, &around, []Token{token}, map[string]Token{"x": token}} {
			fmt.Fprintf(&out, verb+"\n", value)
		}
	}
	for _, logger := range []*slog.Logger{slog.New(slog.NewTextHandler(&out, nil)), slog.New(slog.NewJSONHandler(&out, nil))} {
		logger.Info("x", "token", token, "around", around)
	}
	encoded, err := json.Marshal(around)
	if err != nil {
		t.Fatal(err)
	}
	out.Write(encoded)
	secret := token.Reveal()[len(Prefix)+idLength:]
	if text := out.String(); strings.Contains(text, secret) || strings.Contains(text, fmt.Sprintf("%x", secret)) {
		t.Errorf("shown in:\n%s", text)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(made)
	f.Add("")
	f.Add(Prefix)
	f.Add(made[:len(made)-1] + "\xff")
	f.Add(strings.ToLower(made))
	pattern := regexp.MustCompile("^" + Pattern + "$")
	f.Fuzz(func(t *testing.T, text string) {
		token, err := Parse(text)
		if err != nil {
			if !slices.Contains([]error{errPrefix, errLength, errAlphabet, errChecksum}, err) {
				t.Errorf("an error with a text of its own: %v", err)
			}
			return
		}
		if token.Reveal() != text || !pattern.MatchString(text) || len(token.ID()) != idLength || !Equal(token.Hash(), token.Hash()) {
			t.Errorf("%q passed", text)
		}
	})
}
