package apiclient

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/golang-jwt/jwt/v5"
)

// Call sends a request with a JSON body to a host, with a token unless it is empty, and tries again until there is a response:
// the certificate of the server is renewed for new accounts.
func Call(t testing.TB, c *http.Client, token, method, url string, body any) *Answer {
	t.Helper()
	r := Request{Method: method, URL: url, Body: body, MediaType: "application/json"}
	if token != "" {
		r.Authorization = "Bearer " + token
	}
	var got *Response
	Soon(t, func() (err error) {
		got, err = r.Send(context.WithoutCancel(t.Context()), c)
		return err
	})
	return &Answer{got, t, method + " " + url}
}

// Answer is the response to a request of a test. Its methods fail the test if it is another one.
type Answer struct {
	*Response

	t    testing.TB
	what string
}

// Is checks the status.
func (a *Answer) Is(status int) *Answer {
	a.t.Helper()
	if a.Status != status {
		a.t.Fatalf("%s: got %d, want %d: %s", a.what, a.Status, status, a.Body)
	}
	return a
}

// Rejected checks the status and that the error contains all words.
func (a *Answer) Rejected(status int, words ...string) {
	a.t.Helper()
	a.Is(status)
	for _, word := range words {
		if !strings.Contains(string(a.Body), word) {
			a.t.Errorf("%s: the error does not contain %q: %s", a.what, word, a.Body)
		}
	}
}

// At returns the value at a path of the JSON body, as for Lookup; nil if there is none.
func (a *Answer) At(path string) any {
	a.t.Helper()
	var value any
	if err := json.Unmarshal(a.Body, &value); err != nil {
		a.t.Fatalf("%s: not JSON: %s", a.what, a.Body)
	}
	value, _ = Lookup(value, path)
	return value
}

// ID returns the number that the JSON body has as its id.
func (a *Answer) ID() string {
	a.t.Helper()
	id, ok := a.At("id").(float64)
	if !ok {
		a.t.Fatalf("%s: no id: %s", a.what, a.Body)
	}
	return strconv.FormatFloat(id, 'f', 0, 64)
}

// Want checks values of the body as JSON, by path.
func (a *Answer) Want(values map[string]string) *Answer {
	a.t.Helper()
	for path, want := range values {
		if got, _ := json.Marshal(a.At(path)); string(got) != want {
			a.t.Errorf("%s: %s is %s, want %s: %s", a.what, path, got, want, a.Body)
		}
	}
	return a
}

// Claims returns the claims of a JWT, which must be signed with a key and HS256.
func Claims(t testing.TB, token any, key string) jwt.MapClaims {
	t.Helper()
	text, _ := token.(string)
	claims := jwt.MapClaims{}
	keyOf := func(*jwt.Token) (any, error) { return []byte(key), nil }
	if _, err := jwt.ParseWithClaims(text, claims, keyOf, jwt.WithValidMethods([]string{"HS256"})); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return claims
}
