package auth

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha1" // GitHub also sends SHA-1 signatures
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
)

const hookSecret = "a secret of 24 bytes ...."

// mac returns the HMAC of a body in hexadecimal digits.
func mac(algorithm func() hash.Hash, secret, body string) string {
	h := hmac.New(algorithm, []byte(secret))
	h.Write([]byte(body))
	return hex.EncodeToString(h.Sum(nil))
}

func sha256Of(secret, body string) string { return mac(sha256.New, secret, body) }

// headersOf returns the headers with the given pairs of name and value.
func headersOf(pairs ...string) http.Header {
	header := http.Header{}
	for i := 0; i+1 < len(pairs); i += 2 {
		header.Add(pairs[i], pairs[i+1])
	}
	return header
}

// hosts returns, for each Git host, the headers that authenticate a body.
func hosts(secret, body string) map[string]http.Header {
	right := sha256Of(secret, body)
	sha1Of := "sha1=" + mac(sha1.New, secret, body)
	return map[string]http.Header{
		"GitHub":    headersOf("X-GitHub-Event", "push", "X-Hub-Signature", sha1Of, "X-Hub-Signature-256", "sha256="+right),
		"Gitea":     headersOf("X-Gitea-Event", "push", "X-Gitea-Signature", right, "X-Gogs-Signature", right, "X-Hub-Signature", sha1Of, "X-Hub-Signature-256", "sha256="+right),
		"old Gitea": headersOf("X-Gitea-Event", "push", "X-Gitea-Signature", right),
		"Bitbucket": headersOf("X-Event-Key", "repo:push", "X-Hub-Signature", "sha256="+right),
		"GitLab":    headersOf("X-Gitlab-Event", "Push Hook", "X-Gitlab-Token", secret),
	}
}

// proves reports whether headers authenticate a body.
func proves(t *testing.T, header http.Header, secret, body string) bool {
	t.Helper()
	p, ok := proofOf(header)
	if !ok {
		return false
	}
	holds, err := p.holds([]byte(secret), strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	return holds
}

// TestGitHubExample is the example of GitHub's "Validating webhook deliveries".
func TestGitHubExample(t *testing.T) {
	header := headersOf("X-Hub-Signature-256", "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17")
	if !proves(t, header, "It's a Secret to Everybody", "Hello, World!") {
		t.Error("the signature is not accepted")
	}
}

func TestProofs(t *testing.T) {
	body := `{"ref":"refs/heads/main"}`
	right := sha256Of(hookSecret, body)
	for host, header := range hosts(hookSecret, body) {
		if !proves(t, header, hookSecret, body) {
			t.Errorf("%s is not accepted", host)
		}
		if proves(t, header, hookSecret+"x", body) {
			t.Errorf("%s is accepted with another secret", host)
		}
		if host != "GitLab" && (proves(t, header, hookSecret, body+"\n") || proves(t, header, hookSecret, "")) {
			t.Errorf("%s is accepted with another body", host)
		}
	}
	if upper := headersOf("X-Hub-Signature-256", "sha256="+strings.ToUpper(right)); !proves(t, upper, hookSecret, body) {
		t.Error("upper-case digits are not accepted")
	}
	for name, header := range map[string]http.Header{
		"nothing":                        headersOf(),
		"empty":                          headersOf("X-Hub-Signature-256", ""),
		"no digits":                      headersOf("X-Hub-Signature-256", "sha256="),
		"no algorithm":                   headersOf("X-Hub-Signature-256", right),
		"algorithm in upper case":        headersOf("X-Hub-Signature-256", "SHA256="+right),
		"other algorithm":                headersOf("X-Hub-Signature-256", "sha512="+right),
		"too short":                      headersOf("X-Hub-Signature-256", "sha256="+right[:62]),
		"half a byte short":              headersOf("X-Hub-Signature-256", "sha256="+right[:63]),
		"too long":                       headersOf("X-Hub-Signature-256", "sha256="+right+"00"),
		"not hexadecimal":                headersOf("X-Hub-Signature-256", "sha256="+right[:63]+"g"),
		"space":                          headersOf("X-Hub-Signature-256", "sha256= "+right),
		"two in one header":              headersOf("X-Hub-Signature-256", "sha256="+right+",sha256="+right),
		"two headers":                    headersOf("X-Hub-Signature-256", "sha256="+right, "X-Hub-Signature-256", "sha256="+right),
		"right and wrong":                headersOf("X-Hub-Signature-256", "sha256="+right, "X-Hub-Signature-256", "sha256="+strings.Repeat("0", 64)),
		"SHA-1":                          headersOf("X-Hub-Signature", "sha1="+mac(sha1.New, hookSecret, body)),
		"SHA-512":                        headersOf("X-Hub-Signature-256", "sha512="+mac(sha512.New, hookSecret, body)),
		"SHA-512 declared as SHA-256":    headersOf("X-Hub-Signature-256", "sha256="+mac(sha512.New, hookSecret, body)),
		"hash without HMAC":              headersOf("X-Hub-Signature-256", "sha256="+plainSHA256(hookSecret+body)),
		"Gitea with an algorithm":        headersOf("X-Gitea-Signature", "sha256="+right),
		"Gitea twice":                    headersOf("X-Gitea-Signature", right, "X-Gitea-Signature", right),
		"Bitbucket without algorithm":    headersOf("X-Hub-Signature", right),
		"wrong, then valid ones":         headersOf("X-Hub-Signature-256", "sha256="+strings.Repeat("0", 64), "X-Gitea-Signature", right, "X-Gitlab-Token", hookSecret),
		"malformed, then valid ones":     headersOf("X-Hub-Signature-256", "x", "X-Gitea-Signature", right, "X-Gitlab-Token", hookSecret),
		"prefix of the token":            headersOf("X-Gitlab-Token", hookSecret[:24]),
		"longer token":                   headersOf("X-Gitlab-Token", hookSecret+"x"),
		"empty token":                    headersOf("X-Gitlab-Token", ""),
		"two tokens":                     headersOf("X-Gitlab-Token", hookSecret, "X-Gitlab-Token", hookSecret),
		"signature as token":             headersOf("X-Gitlab-Token", "sha256="+right),
		"secret as signature":            headersOf("X-Gitea-Signature", hookSecret),
		"signature of an empty body":     headersOf("X-Hub-Signature-256", "sha256="+sha256Of(hookSecret, "")),
		"signature with an empty secret": headersOf("X-Hub-Signature-256", "sha256="+sha256Of("", body)),
		"secret in another header":       headersOf("X-Gitlab-Instance", hookSecret),
		"newer signatures of GitLab":     headersOf("Webhook-Id", "1", "Webhook-Timestamp", "1", "Webhook-Signature", "v1,"+right),
		"header with underscores":        headersOf("X_Hub_Signature_256", "sha256="+right),
	} {
		if proves(t, header, hookSecret, body) {
			t.Errorf("%s: accepted", name)
		}
	}
}

func plainSHA256(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// TestProofReadsTheWholeBody: a truncated body is not valid, even if the part that was read is.
func TestProofReadsTheWholeBody(t *testing.T) {
	p, ok := proofOf(headersOf("X-Hub-Signature-256", "sha256="+sha256Of(hookSecret, "begun")))
	if !ok {
		t.Fatal("the signature was not parsed")
	}
	broken := errors.New("connection reset")
	body := iotest.DataErrReader(iotest.OneByteReader(strings.NewReader("begun")))
	if holds, err := p.holds([]byte(hookSecret), body); err != nil || !holds {
		t.Errorf("in small pieces: %v, %v", holds, err)
	}
	if holds, err := p.holds([]byte(hookSecret), io.MultiReader(strings.NewReader("begun"), iotest.ErrReader(broken))); !errors.Is(err, broken) || holds {
		t.Errorf("truncated: %v, %v", holds, err)
	}
}

// FuzzParseSignature: a value is accepted if and only if it is the encoding of the result.
func FuzzParseSignature(f *testing.F) {
	right := sha256Of(hookSecret, "body")
	for _, seed := range []string{"", "sha256=", "sha256=" + right, right, "sha1=" + right[:40], "sha256=" + strings.ToUpper(right), "sha256=" + right + "\n", "sha256=sha256=" + right, "\x00", "sha256=" + strings.Repeat("é", 32)} {
		f.Add(seed, "sha256=")
		f.Add(seed, "")
	}
	f.Fuzz(func(t *testing.T, value, before string) {
		signature, ok := parseSignature(value, before)
		written := before + hex.EncodeToString(signature)
		switch {
		case ok && (len(signature) != sha256.Size || !strings.EqualFold(written, value) || !strings.HasPrefix(value, before)):
			t.Errorf("%q is parsed as %x", value, signature)
		case !ok && value == before+strings.ToLower(right):
			t.Errorf("%q is rejected", value)
		case ok && !bytes.Equal(signature, must(hex.DecodeString(value[len(before):]))):
			t.Errorf("%q is parsed as %x", value, signature)
		}
	})
}

func must(data []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return data
}
