package auth

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/apikey"
)

// newToken returns a random token.
func newToken(t testing.TB) apikey.Token {
	t.Helper()
	token, err := apikey.New(strings.NewReader(strings.Repeat(t.Name(), 100)))
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// request returns a request with Authorization headers.
func request(headers ...string) *http.Request {
	r, _ := http.NewRequest(http.MethodGet, "https://acme.example.com/", nil)
	for _, h := range headers {
		r.Header.Add("Authorization", h)
	}
	return r
}

const forms = `the Authorization header must be "Bearer <API key>", "Api-Key <API key>" or "Bearer <JWT>"`

func TestCredentialOf(t *testing.T) {
	key := newToken(t).Reveal()
	cases := map[string]struct {
		headers []string
		key     bool
		jwt     string
		want    string
	}{
		"key":                   {[]string{"Bearer " + key}, true, "", ""},
		"key, own scheme":       {[]string{"Api-Key " + key}, true, "", ""},
		"lower case":            {[]string{"bearer " + key}, true, "", ""},
		"upper case":            {[]string{"API-KEY " + key}, true, "", ""},
		"spaces":                {[]string{"Bearer   " + key + " "}, true, "", ""},
		"JWT":                   {[]string{"Bearer a.b-_.c"}, false, "a.b-_.c", ""},
		"JWT without signature": {[]string{"BEARER a.b."}, false, "a.b.", ""},
		"none":                  {nil, false, "", "no Authorization header"},
		"two":                   {[]string{"Bearer " + key, "Bearer " + key}, false, "", "more than one Authorization header"},
		"empty":                 {[]string{""}, false, "", forms},
		"scheme only":           {[]string{"Bearer"}, false, "", forms},
		"key only":              {[]string{key}, false, "", forms},
		"other scheme":          {[]string{"Basic " + key}, false, "", forms},
		"scheme is a secret":    {[]string{"hunter2 Bearer"}, false, "", forms},
		"opaque token":          {[]string{"Bearer hunter2"}, false, "", forms},
		"two parts":             {[]string{"Bearer a.b"}, false, "", forms},
		"four parts":            {[]string{"Bearer a.b.c.d"}, false, "", forms},
		"empty payload":         {[]string{"Bearer a..c"}, false, "", forms},
		"not base64url":         {[]string{"Bearer a.b+.c"}, false, "", forms},
		"two values":            {[]string{"Bearer a.b.c a.b.c"}, false, "", forms},
		"tab":                   {[]string{"Bearer\t" + key}, false, "", forms},
		"JWT as a key":          {[]string{"Api-Key a.b.c"}, false, "", "an API key begins with sk-quoin-"},
		"mistyped":              {[]string{"Bearer " + key[:len(key)-1]}, false, "", "an API key has 59 characters"},
		"too long":              {[]string{"Bearer " + strings.Repeat("a", 1<<15)}, false, "", "longer than 16384 bytes"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c, err := credentialOf(request(tc.headers...))
			if tc.want == "" {
				if err != nil || c.isKey() != tc.key || c.jwt != tc.jwt || tc.key && c.key.Reveal() != key {
					t.Errorf("got key %q, JWT %q, %v", c.key.Reveal(), c.jwt, err)
				}
				return
			}
			if !errors.Is(err, ErrNoCredential) || !strings.HasPrefix(err.Error(), "not authenticated: ") || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %s", err, tc.want)
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the error contains the header: %v", err)
			}
		})
	}
}

func FuzzCredentialOf(f *testing.F) {
	f.Add("Bearer " + newToken(f).Reveal())
	f.Add("api-key sk-quoin-")
	f.Add("Bearer a.b.c")
	f.Add("Bearer  ..")
	f.Add("\x00 \xff")
	f.Fuzz(func(t *testing.T, header string) {
		c, err := credentialOf(request(header))
		switch {
		case err != nil:
			if !errors.Is(err, ErrNoCredential) || c.jwt != "" || c.key.Reveal() != "" {
				t.Errorf("got %+v, %v", c, err)
			}
		case c.isKey():
			if !strings.Contains(header, c.key.Reveal()) || c.key.ID() == "" {
				t.Errorf("%q is a key", header)
			}
		default:
			if !strings.Contains(header, c.jwt) || strings.Count(c.jwt, ".") != 2 {
				t.Errorf("%q is a JWT", header)
			}
			// Any credential is checked without a panic.
			if _, err := issuerOf(&v1alpha1.Account{}, c.jwt); err != nil && !errors.Is(err, ErrNoCredential) {
				t.Error(err)
			}
		}
	})
}

type result struct {
	p   *Principal
	err error
}

func (s result) Authenticate(context.Context, *v1alpha1.Account, *http.Request) (*Principal, error) {
	return s.p, s.err
}

func TestChain(t *testing.T) {
	ann := &Principal{ID: "ann"}
	broken, revoked := errors.New("API server is down"), unauthenticated("the API key has been revoked")
	cases := map[string]struct {
		chain []Authenticator
		want  result
	}{
		"first":            {[]Authenticator{result{ann, nil}, result{nil, broken}}, result{ann, nil}},
		"second":           {[]Authenticator{result{nil, otherForm}, result{ann, nil}}, result{ann, nil}},
		"rejected":         {[]Authenticator{result{nil, revoked}, result{ann, nil}}, result{nil, revoked}},
		"error":            {[]Authenticator{result{nil, otherForm}, result{nil, broken}, result{ann, nil}}, result{nil, broken}},
		"unrecognized":     {[]Authenticator{result{nil, otherForm}, result{nil, otherForm}}, result{nil, otherForm}},
		"unknown issuer":   {[]Authenticator{result{nil, otherForm}, result{nil, foreignIssuer}, result{nil, otherForm}}, result{nil, foreignIssuer}},
		"no authenticator": {nil, result{nil, otherForm}},
	}
	for name, tc := range cases {
		p, err := Chain(tc.chain...).Authenticate(t.Context(), &v1alpha1.Account{}, request())
		if p != tc.want.p || !errors.Is(err, tc.want.err) {
			t.Errorf("%s: got %v, %v", name, p, err)
		}
	}
}

// Git clients send a credential as password, on the paths of repositories only.
func TestBasic(t *testing.T) {
	key := newToken(t).Reveal()
	inner := authenticatorFunc(func(r *http.Request) (*Principal, error) {
		if _, err := credentialOf(r); err != nil {
			return nil, err
		}
		return &Principal{Name: r.Header.Get("Authorization")}, nil
	})
	a := Basic(inner, func(path string) bool { return strings.HasPrefix(path, "/git/") })
	cases := map[string]struct {
		path, user, password, header, want string
	}{
		"key as password":     {"/git/1.git", "git", key, "", "Bearer " + key},
		"JWT, no user":        {"/git/1.git", "", "a.b.c", "", "Bearer a.b.c"},
		"Bearer":              {"/git/1.git", "", "", "Bearer " + key, "Bearer " + key},
		"another path":        {"/api/v1/deployments", "git", key, "", ""},
		"not a credential":    {"/git/1.git", "git", "hunter2", "", ""},
		"no password":         {"/git/1.git", "git", "", "", ""},
		"not Base64":          {"/git/1.git", "", "", "Basic hunter2", ""},
		"key as user":         {"/git/1.git", key, "", "", ""},
		"password with break": {"/git/1.git", "git", "x\r\nX-User: root", "", ""},
	}
	for name, tc := range cases {
		r := request()
		r.URL.Path = tc.path
		switch {
		case tc.header != "":
			r.Header.Set("Authorization", tc.header)
		default:
			r.SetBasicAuth(tc.user, tc.password)
		}
		before := r.Header.Get("Authorization")
		p, err := a.Authenticate(t.Context(), nil, r)
		switch {
		case tc.want != "" && (err != nil || p.Name != tc.want):
			t.Errorf("%s: %v, %v", name, p, err)
		case tc.want == "" && (!errors.Is(err, ErrNoCredential) || strings.Contains(err.Error(), "hunter2")):
			t.Errorf("%s: %v, error %v", name, p, err)
		}
		if r.Header.Get("Authorization") != before {
			t.Errorf("%s: the request has changed", name)
		}
	}
}

// authenticatorFunc is an Authenticator that only looks at the request.
type authenticatorFunc func(r *http.Request) (*Principal, error)

// Authenticate implements Authenticator.
func (f authenticatorFunc) Authenticate(_ context.Context, _ *v1alpha1.Account, r *http.Request) (*Principal, error) {
	return f(r)
}
