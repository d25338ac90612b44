package auth

import (
	stdcmp "cmp"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/access"
	"github.com/quoin-dev/quoin/internal/claims"
)

type object = map[string]any

func b64(data []byte) string { return base64.RawURLEncoding.EncodeToString(data) }

// signer signs tokens and has a public key.
type signer struct {
	alg, kid string
	jwk      object
	sign     func(text []byte) []byte
}

func (s signer) token(claims object) string {
	header, _ := json.Marshal(object{"alg": s.alg, "kid": s.kid, "typ": "JWT"})
	payload, _ := json.Marshal(claims)
	text := b64(header) + "." + b64(payload)
	return text + "." + b64(s.sign([]byte(text)))
}

func (s signer) as(kid string) signer {
	s.kid, s.jwk = kid, maps.Clone(s.jwk)
	s.jwk["kid"] = kid
	return s
}

// rsaKey is generated once, because that is slow.
var rsaKey = sync.OnceValue(func() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return key
})

func rs256(kid string) signer {
	key := rsaKey()
	return signer{"RS256", kid, object{"kty": "RSA", "kid": kid, "n": b64(key.N.Bytes()), "e": b64(big.NewInt(int64(key.E)).Bytes())}, func(text []byte) []byte {
		sum := sha256.Sum256(text)
		signature, _ := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:])
		return signature
	}}
}

func ps256(kid string) signer {
	s := rs256(kid)
	s.alg, s.sign = "PS256", func(text []byte) []byte {
		sum := sha256.Sum256(text)
		signature, _ := rsa.SignPSS(rand.Reader, rsaKey(), crypto.SHA256, sum[:], nil)
		return signature
	}
	return s
}

func es256(kid string) signer {
	key, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	public, _ := key.PublicKey.Bytes()
	return signer{"ES256", kid, object{"kty": "EC", "crv": "P-256", "kid": kid, "x": b64(public[1:33]), "y": b64(public[33:])}, func(text []byte) []byte {
		sum := sha256.Sum256(text)
		r, s, _ := ecdsa.Sign(rand.Reader, key, sum[:])
		return append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...)
	}}
}

func edDSA(kid string) signer {
	public, key, _ := ed25519.GenerateKey(rand.Reader)
	return signer{"EdDSA", kid, object{"kty": "OKP", "crv": "Ed25519", "kid": kid, "x": b64(public)}, func(text []byte) []byte {
		return ed25519.Sign(key, text)
	}}
}

// none returns tokens without a signature.
func none(kid string) signer {
	return signer{alg: "none", kid: kid, sign: func([]byte) []byte { return nil }}
}

// hs256 uses the public RSA key as a shared secret.
func hs256(kid string) signer {
	public := x509.MarshalPKCS1PublicKey(&rsaKey().PublicKey)
	return signer{alg: "HS256", kid: kid, sign: func(text []byte) []byte {
		mac := hmac.New(sha256.New, public)
		mac.Write(text)
		return mac.Sum(nil)
	}}
}

// provider is an OpenID Connect issuer.
type provider struct {
	*httptest.Server
	mu     sync.Mutex
	keys   []object
	broken map[string]http.HandlerFunc
	asked  map[string]int
}

func newProvider(t *testing.T, keys ...signer) *provider {
	t.Helper()
	p := &provider{broken: map[string]http.HandlerFunc{}, asked: map[string]int{}}
	p.setKeys(keys...)
	p.Server = httptest.NewTLSServer(p)
	t.Cleanup(p.Close)
	return p
}

// setKeys replaces the issuer's keys.
func (p *provider) setKeys(keys ...signer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keys = []object{}
	for _, k := range keys {
		p.keys = append(p.keys, k.jwk)
	}
}

// setHandler replaces the handler of a path; nil restores it.
func (p *provider) setHandler(path string, handler http.HandlerFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.broken[path] = handler
}

func (p *provider) times(path string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked[path]
}

const (
	discovery = "/.well-known/openid-configuration"
	jwks      = "/keys"
)

func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked[r.URL.Path]++
	w.Header().Set("Content-Type", "application/json")
	handler := p.broken[r.URL.Path]
	switch {
	case handler != nil:
		handler(w, r)
	case r.URL.Path == discovery:
		_ = json.NewEncoder(w).Encode(object{"issuer": p.URL, "jwks_uri": p.URL + jwks})
	case r.URL.Path == jwks:
		_ = json.NewEncoder(w).Encode(object{"keys": p.keys})
	default:
		http.NotFound(w, r)
	}
}

// account returns acme with the issuer.
func (p *provider) account(change ...func(*v1alpha1.OIDCIssuer)) *v1alpha1.Account {
	a := acme()
	a.Spec.OIDCIssuers = []v1alpha1.OIDCIssuer{{URL: p.URL, Audiences: []string{"bi", "quoin-acme"}, AdminGroups: []string{"bi-admins"}}}
	for _, f := range change {
		f(&a.Spec.OIDCIssuers[0])
	}
	return a
}

// claims returns the claims of a valid token with a change; nil removes a claim.
func (p *provider) claims(change object) object {
	all := object{
		"iss": p.URL, "aud": "quoin-acme", "sub": "u1", "email": "ann@example.com", "groups": []string{"staff"},
		"exp": now.Add(time.Hour).Unix(), "iat": now.Unix(),
	}
	for name, value := range change {
		all[name] = value
		if value == nil {
			delete(all, name)
		}
	}
	return all
}

func bearer(token string) *http.Request { return request("Bearer " + token) }

func (p *provider) authenticator(t *testing.T, objs ...client.Object) (*OIDC, *clocktesting.FakePassiveClock) {
	clock := clocktesting.NewFakePassiveClock(now)
	return NewOIDC(NewActiveUsers(userList(objs), rolesIn(t, objs), indexed(t, objs...), clock), clock, p.Client()), clock
}

// userList implements Users for the users among objects.
type userList []client.Object

func (l userList) UsersNamed(namespace, userName string) (found []*v1alpha1.ScimUser) {
	for _, o := range l {
		if u, ok := o.(*v1alpha1.ScimUser); ok && u.Namespace == namespace && strings.EqualFold(u.Spec.UserName, userName) {
			found = append(found, u)
		}
	}
	return found
}

// UsersFreed implements Users: the users do not change.
func (userList) UsersFreed(string) uint64 { return 0 }

// RolesOfGroups implements Users: each user is in a group of its name.
func (l userList) RolesOfGroups(_ context.Context, namespace, user string) (roles []v1alpha1.AccountRoleReference) {
	for _, o := range l {
		if g, ok := o.(*v1alpha1.ScimGroup); ok && g.Namespace == namespace && g.Name == user {
			roles = append(roles, g.Spec.AccountRoles...)
		}
	}
	return roles
}

func TestOIDCPrincipal(t *testing.T) {
	key := es256("1")
	p := newProvider(t, key)
	read, admin := []v1alpha1.Permission{"DeploymentRead", "SchemaRead"}, []v1alpha1.Permission{"Admin"}
	ann := func(name, email string, permissions []v1alpha1.Permission) *Principal {
		user := &Principal{Kind: KindUser, Account: "acme", ID: strings.TrimPrefix(p.URL, "https://") + "#u1", Name: name, Email: email, UserName: stdcmp.Or(email, name), Grants: access.OnAll(permissions...)}
		if permissions[0] == "Admin" {
			user.HasRole, user.Issuer, user.Groups = true, p.URL, []string{"bi-admins"}
		}
		return user
	}
	cases := map[string]struct {
		claims object
		change func(*v1alpha1.OIDCIssuer)
		want   *Principal
	}{
		"valid":              {nil, nil, ann("ann@example.com", "ann@example.com", read)},
		"admin":              {object{"groups": []string{"staff", "bi-admins"}}, nil, ann("ann@example.com", "ann@example.com", admin)},
		"one group":          {object{"groups": "bi-admins"}, nil, ann("ann@example.com", "ann@example.com", admin)},
		"no groups":          {object{"groups": nil}, nil, ann("ann@example.com", "ann@example.com", read)},
		"other case":         {object{"groups": []string{"BI-Admins"}}, nil, ann("ann@example.com", "ann@example.com", read)},
		"groups not strings": {object{"groups": []any{1, object{"bi-admins": true}}}, nil, ann("ann@example.com", "ann@example.com", read)},
		"name":               {object{"name": "Ann"}, nil, ann("Ann", "ann@example.com", read)},
		"several audiences":  {object{"aud": []string{"x", "bi"}}, nil, ann("ann@example.com", "ann@example.com", read)},
		"verified":           {object{"email_verified": true}, nil, ann("ann@example.com", "ann@example.com", read)},
		"other claims": {object{"upn": "ann", "roles": []string{"bi-admins"}, "email": nil}, func(i *v1alpha1.OIDCIssuer) {
			i.UserNameClaim, i.GroupsClaim = "upn", "roles"
		}, ann("ann", "", admin)},
		"expired within leeway":        {object{"exp": now.Add(-29 * time.Second).Unix()}, nil, ann("ann@example.com", "ann@example.com", read)},
		"not valid yet, within leeway": {object{"nbf": now.Add(29 * time.Second).Unix()}, nil, ann("ann@example.com", "ann@example.com", read)},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			a, _ := p.authenticator(t)
			if tc.change == nil {
				tc.change = func(*v1alpha1.OIDCIssuer) {}
			}
			got, err := a.Authenticate(t.Context(), p.account(tc.change), bearer(key.token(p.claims(tc.claims))))
			if diff := cmp.Diff(tc.want, got); err != nil || diff != "" {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}

// TestOIDCSubjectsOfIssuers: the same subject of two issuers of an account is two people. What they own is stored by their ids.
func TestOIDCSubjectsOfIssuers(t *testing.T) {
	key := es256("1")
	one, other := newProvider(t, key), newProvider(t, key)
	account := one.account()
	account.Spec.OIDCIssuers = append(account.Spec.OIDCIssuers, other.account().Spec.OIDCIssuers...)
	a, _ := one.authenticator(t)
	ids := map[string]bool{}
	for _, p := range []*provider{one, other} {
		got, err := a.Authenticate(t.Context(), account, bearer(key.token(p.claims(nil))))
		if err != nil {
			t.Fatal(err)
		}
		ids[got.ID] = true
	}
	if len(ids) != 2 {
		t.Errorf("the ids are %v", ids)
	}
}

func TestOIDCAlgorithms(t *testing.T) {
	for name, key := range map[string]signer{"RS256": rs256("1"), "PS256": ps256("1"), "ES256": es256("1"), "EdDSA": edDSA("1")} {
		p := newProvider(t, key)
		a, _ := p.authenticator(t)
		if _, err := a.Authenticate(t.Context(), p.account(), bearer(key.token(p.claims(nil)))); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOIDCRejectsInvalidTokens(t *testing.T) {
	key := rs256("1")
	p, foreign := newProvider(t, key), newProvider(t, es256("1"))
	cut := func(token string) string { return token[:strings.LastIndex(token, ".")+1] }
	forged := func() string { // the claims of one token under the signature of another
		good, other := key.token(p.claims(nil)), key.token(p.claims(object{"sub": "root"}))
		return cut(other) + good[strings.LastIndex(good, ".")+1:]
	}
	cases := map[string]struct{ token, text string }{
		"alg none":               {none("1").token(p.claims(nil)), "not signed by its issuer"},
		"signature cut off":      {cut(key.token(p.claims(nil))), "not signed by its issuer"},
		"HS256, public key":      {hs256("1").token(p.claims(nil)), "not signed by its issuer"},
		"other key, same kid":    {es256("1").token(p.claims(nil)), "not signed by its issuer"},
		"unknown kid":            {es256("2").token(p.claims(nil)), "not signed by its issuer"},
		"forged":                 {forged(), "not signed by its issuer"},
		"other audience":         {key.token(p.claims(object{"aud": "other"})), "another audience"},
		"no audience":            {key.token(p.claims(object{"aud": nil})), "another audience"},
		"expired":                {key.token(p.claims(object{"exp": now.Add(-30 * time.Second).Unix()})), "has expired"},
		"no expiry":              {key.token(p.claims(object{"exp": nil})), "has no expiry"},
		"not valid yet":          {key.token(p.claims(object{"nbf": now.Add(31 * time.Second).Unix()})), "not valid yet"},
		"never valid":            {key.token(p.claims(object{"nbf": 1e300})), "not valid yet"},
		"no user name":           {key.token(p.claims(object{"email": nil})), `no claim "email"`},
		"user name not a string": {key.token(p.claims(object{"email": 7})), `no claim "email"`},
		"no subject":             {key.token(p.claims(object{"sub": nil})), `no claim "sub"`},
		"address not verified":   {key.token(p.claims(object{"email_verified": false})), "not verified"},
		"foreign issuer":         {es256("1").token(foreign.claims(nil)), "does not have the issuer of the token"},
		"issuer with a slash":    {key.token(p.claims(object{"iss": p.URL + "/"})), "does not have the issuer of the token"},
		"no issuer":              {key.token(p.claims(object{"iss": nil})), "does not have the issuer of the token"},
		"not JSON":               {b64([]byte("{}")) + "." + b64([]byte("x")) + ".x", "malformed"},
		"not base64":             {"a.b.c", "malformed"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			a, _ := p.authenticator(t)
			got, err := a.Authenticate(t.Context(), p.account(), bearer(tc.token))
			if got != nil || !errors.Is(err, ErrNoCredential) || !strings.Contains(err.Error(), tc.text) {
				t.Errorf("got %v, %v; want %s", got, err, tc.text)
			}
		})
	}
	if n := foreign.times(discovery); n != 0 {
		t.Errorf("%d requests to the foreign issuer", n)
	}
}

func TestOIDCOfAnotherAccount(t *testing.T) {
	key := es256("1")
	p := newProvider(t, key)
	a, _ := p.authenticator(t)
	if _, err := a.Authenticate(t.Context(), acme(), bearer(key.token(p.claims(nil)))); !errors.Is(err, ErrNoCredential) {
		t.Error(err)
	}
}

// TestOIDCRotation: a new key is accepted at once, and a removed key for at most an hour.
func TestOIDCRotation(t *testing.T) {
	old, next := es256("old"), edDSA("new")
	p := newProvider(t, old)
	a, clock := p.authenticator(t)
	try := func(key signer) error {
		_, err := a.Authenticate(t.Context(), p.account(), bearer(key.token(p.claims(object{"exp": now.Add(24 * time.Hour).Unix()}))))
		return err
	}
	for range 3 {
		if err := try(old); err != nil {
			t.Fatal(err)
		}
	}
	if d, k := p.times(discovery), p.times(jwks); d != 1 || k != 1 {
		t.Errorf("%d requests for the discovery document, %d for the keys", d, k)
	}
	p.setKeys(old, next)
	if err := errors.Join(try(next), try(old)); err != nil {
		t.Fatal(err)
	}
	p.setKeys(next)
	clock.SetTime(now.Add(keysFor))
	if err := try(old); !errors.Is(err, ErrNoCredential) {
		t.Errorf("the removed key: %v", err)
	}
	if err := try(next); err != nil {
		t.Error(err)
	}
	p.setHandler(discovery, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	clock.SetTime(now.Add(2*keysFor + time.Minute))
	if err := try(next); err != nil {
		t.Errorf("cached keys while discovery fails: %v", err)
	}
}

// TestOIDCSameToken: a token whose signature was checked before is checked for the account and the time of each request, and
// its signature again once the issuer has other keys.
func TestOIDCSameToken(t *testing.T) {
	first, second := es256("first"), edDSA("second")
	p := newProvider(t, first)
	a, clock := p.authenticator(t)
	token := first.token(p.claims(object{"exp": now.Add(2 * time.Minute).Unix()}))
	try := func(account *v1alpha1.Account, token string) error {
		_, err := a.Authenticate(t.Context(), account, bearer(token))
		return err
	}
	other := p.account()
	other.Spec.OIDCIssuers[0].Audiences = []string{"another"}
	for range 2 {
		if err := try(p.account(), token); err != nil {
			t.Fatal(err)
		}
		if err := try(other, token); !errors.Is(err, ErrNoCredential) {
			t.Errorf("another audience: %v", err)
		}
	}
	p.setKeys(second)
	if err := try(p.account(), second.token(p.claims(object{}))); err != nil { // it fetches the keys
		t.Fatal(err)
	}
	if err := try(p.account(), token); !errors.Is(err, ErrNoCredential) {
		t.Errorf("the key was removed: %v", err)
	}
	last := second.token(p.claims(object{"exp": now.Add(2 * time.Minute).Unix()}))
	if err := try(p.account(), last); err != nil {
		t.Fatal(err)
	}
	clock.SetTime(now.Add(3 * time.Minute))
	if err := try(p.account(), last); !errors.Is(err, ErrNoCredential) {
		t.Errorf("expired: %v", err)
	}
}

// TestOIDCUnknownKids: tokens with unknown key IDs cause a limited number of requests to the issuer.
func TestOIDCUnknownKids(t *testing.T) {
	key := es256("1")
	p := newProvider(t, key)
	a, _ := p.authenticator(t)
	var busy int
	for range 30 {
		_, err := a.Authenticate(t.Context(), p.account(), bearer(key.as("x").token(p.claims(nil))))
		if errors.Is(err, ErrBusy) && !errors.Is(err, ErrNoCredential) {
			busy++
		}
	}
	if n := p.times(jwks); n > issuerBurst+5 || busy == 0 {
		t.Errorf("%d requests, %d rejected as busy", n, busy)
	}
	if _, err := a.Authenticate(t.Context(), p.account(), bearer(key.token(p.claims(nil)))); err != nil {
		t.Errorf("a valid token in between: %v", err)
	}
}

// TestOIDCIssuerErrors: an invalid response of the issuer is not reported as an invalid credential.
func TestOIDCIssuerErrors(t *testing.T) {
	key := es256("1")
	answer := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
		}
	}
	huge := `{"x":"` + strings.Repeat("x", issuerBody) + `"}`
	redirect := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "http://127.0.0.1:1/")
		w.WriteHeader(http.StatusFound)
	}
	for _, path := range []string{discovery, jwks} {
		for name, broken := range map[string]http.HandlerFunc{
			"down": answer(503, "down"), "not found": answer(404, ""), "not JSON": answer(200, "<html>"), "huge": answer(200, huge),
			"huge failure": answer(500, huge), "not https": redirect,
		} {
			t.Run(path+" "+name, func(t *testing.T) {
				p := newProvider(t, key)
				p.setHandler(path, broken)
				a, clock := p.authenticator(t)
				try := func() error {
					_, err := a.Authenticate(t.Context(), p.account(), bearer(key.token(p.claims(nil))))
					return err
				}
				if err := try(); err == nil || errors.Is(err, ErrNoCredential) || len(err.Error()) > 1000 || !strings.Contains(err.Error(), p.URL) {
					t.Fatalf("got %.1000v", err)
				}
				p.setHandler(path, nil)
				clock.SetTime(now.Add(shortestRetry))
				if err := try(); err != nil {
					t.Errorf("after recovery: %v", err)
				}
			})
		}
	}
}

func TestOIDCIssuerMismatch(t *testing.T) {
	key := es256("1")
	p := newProvider(t, key)
	p.setHandler(discovery, func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(object{"issuer": "https://evil.example.com", "jwks_uri": p.URL + jwks})
	})
	a, _ := p.authenticator(t)
	if _, err := a.Authenticate(t.Context(), p.account(), bearer(key.token(p.claims(nil)))); err == nil || errors.Is(err, ErrNoCredential) {
		t.Errorf("got %v", err)
	}
}

// TestOIDCBackoff: the interval of requests to an unavailable issuer grows exponentially.
func TestOIDCBackoff(t *testing.T) {
	key := es256("1")
	p := newProvider(t, key)
	p.setHandler(discovery, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	a, clock := p.authenticator(t)
	a.issuer(p.URL).client = p.Client() // without the rate limit
	for second := range 300 {
		clock.SetTime(now.Add(time.Duration(second) * time.Second))
		if _, err := a.Authenticate(t.Context(), p.account(), bearer(key.token(p.claims(nil)))); err == nil || errors.Is(err, ErrNoCredential) {
			t.Fatalf("got %v", err)
		}
	}
	// At 0, 1, 3, 7, 15, 31, 63 s and then every minute.
	if n := p.times(discovery); n != 10 {
		t.Errorf("%d requests in 5 minutes", n)
	}
}

// TestOIDCConcurrently: concurrent requests share one request to the issuer.
func TestOIDCConcurrently(t *testing.T) {
	key := es256("1")
	p := newProvider(t, key)
	a, _ := p.authenticator(t)
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			if _, err := a.Authenticate(t.Context(), p.account(), bearer(key.token(p.claims(nil)))); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if n := p.times(discovery); n != 1 {
		t.Errorf("%d requests to the issuer", n)
	}
}

// TestOIDCUsers: a user that SCIM has deactivated cannot authenticate with an OIDC token.
func TestOIDCUsers(t *testing.T) {
	key := es256("1")
	p := newProvider(t, key)
	inactive := func(u *v1alpha1.ScimUser) { u.Spec.Active = ptr.To(false) }
	nameTaken := func(u *v1alpha1.ScimUser) {
		u.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonNameTaken}}
	}
	admin := func(u *v1alpha1.ScimUser) { u.Spec.Admin = ptr.To(true) }
	other := func(u *v1alpha1.ScimUser) { u.Spec.UserName = "bob@example.com" }
	cases := map[string]struct {
		user    *v1alpha1.ScimUser
		ok      bool
		is      string // the ScimUser of the principal
		isAdmin bool
	}{
		"active":               {ann(), true, "ann", false},
		"inactive":             {ann(inactive), false, "", false},
		"being deleted":        {ann(beingDeleted), false, "", false},
		"other namespace":      {ann(inactive, func(u *v1alpha1.ScimUser) { u.Namespace = "other-ns" }), true, "", false},
		"other user":           {ann(inactive, other), true, "", false},
		"name taken":           {ann(inactive, nameTaken), true, "", false},
		"admin":                {ann(admin), true, "ann", true},
		"inactive admin":       {ann(admin, inactive), false, "", false},
		"admin is another":     {ann(admin, other), true, "", false},
		"admin without a name": {ann(admin, nameTaken), true, "", false},
		"not admin":            {ann(func(u *v1alpha1.ScimUser) { u.Spec.Admin = ptr.To(false) }), true, "ann", false},
	}
	for name, tc := range cases {
		a, _ := p.authenticator(t, tc.user)
		got, err := a.Authenticate(t.Context(), p.account(), bearer(key.token(p.claims(object{"email": "ANN@example.com"}))))
		if (err == nil) != tc.ok || (got != nil) != tc.ok || err != nil && !errors.Is(err, ErrNoCredential) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
		if got != nil && (got.User != tc.is || got.May(v1alpha1.PermissionAdmin) != tc.isAdmin) {
			t.Errorf("%s: is user %q with %v, want %q, admin %t", name, got.User, got.Grants, tc.is, tc.isAdmin)
		}
	}
}

// changingUsers implements Users for users that are created and deleted.
type changingUsers struct {
	userList
	freed uint64
}

func (c *changingUsers) UsersFreed(string) uint64 { return c.freed }

// TestOIDCUserIsSoonDeleted: a person without a ScimUser sends a request, and is provisioned and deprovisioned before another one.
func TestOIDCUserIsSoonDeleted(t *testing.T) {
	key := es256("1")
	p := newProvider(t, key)
	live, clock, users := indexed(t), clocktesting.NewFakePassiveClock(now), &changingUsers{}
	a := NewOIDC(NewActiveUsers(users, rolesIn(t, nil), live, clock), clock, p.Client())
	try := func(want bool) {
		t.Helper()
		if _, err := a.Authenticate(t.Context(), p.account(), bearer(key.token(p.claims(nil)))); (err == nil) != want || err != nil && !errors.Is(err, ErrNoCredential) {
			t.Errorf("%v, want access: %t", err, want)
		}
	}
	try(true)
	users.userList = userList{ann()}
	try(true)
	if err := claims.Deprovision(t.Context(), live, ann()); err != nil {
		t.Fatal(err)
	}
	users.userList, users.freed = nil, 1
	try(false)
	try(false)
}

// TestRolesOfUsers: the permissions are the union of the roles of a user, of its groups and of the groups in the token.
func TestRolesOfUsers(t *testing.T) {
	key := es256("1")
	p := newProvider(t, key)
	having := func(names ...v1alpha1.AccountRoleReference) *v1alpha1.ScimUser {
		return ann(func(u *v1alpha1.ScimUser) { u.Spec.AccountRoles = names })
	}
	group := &v1alpha1.ScimGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "acme-ns", Name: "ann"}, Spec: v1alpha1.ScimGroupSpec{AccountRoles: []v1alpha1.AccountRoleReference{"analyst"}}}
	over := ann(func(u *v1alpha1.ScimUser) {
		u.Spec.Roles = []v1alpha1.ScimMultiValue{{Value: "ANALYST"}, {Value: "Admin"}, {Value: "Engineer"}}
	})
	onSales, defaults := access.On([]string{"sales"}, "SchemaUpdate"), access.OnAll("DeploymentRead", "SchemaRead")
	viewer := access.OnAll("DeploymentRead", "SchemaRead", "FolderRead", "WorkbookRead", "ReportRead", "DeploymentAgentRead")
	both := append(access.OnAll("DeploymentRead", "SchemaRead", "FolderRead", "WorkbookRead", "ReportRead", "DeploymentAgentRead"), onSales...)
	mapped := func(a *v1alpha1.Account) {
		a.Spec.OIDCIssuers[0].GroupRoles = []v1alpha1.OIDCGroupRoles{{Group: "staff", Roles: []v1alpha1.AccountRoleReference{"Viewer", "gone"}}}
	}
	fallback := func(name v1alpha1.AccountRoleReference) func(*v1alpha1.Account) {
		return func(a *v1alpha1.Account) { a.Spec.DefaultRole = name }
	}
	assigning := func(a *v1alpha1.Account) { a.Spec.Scim = &v1alpha1.Scim{AssignRoles: ptr.To(true)} }
	same := func(*v1alpha1.Account) {}
	for name, tc := range map[string]struct {
		objs    []client.Object
		account func(*v1alpha1.Account)
		want    access.Grants
		hasRole bool
	}{
		"none":                       {[]client.Object{ann()}, same, defaults, false},
		"direct":                     {[]client.Object{analyst(), having("analyst")}, same, onSales, true},
		"of a group":                 {[]client.Object{analyst(), ann(), group}, same, onSales, true},
		"of a group in the token":    {[]client.Object{ann()}, mapped, viewer, true},
		"without a ScimUser":         {nil, mapped, viewer, true},
		"union":                      {[]client.Object{analyst(), having("analyst")}, mapped, both, true},
		"twice":                      {[]client.Object{analyst(), having("analyst"), group}, same, onSales, true},
		"that does not exist":        {[]client.Object{having("analyst")}, same, defaults, false},
		"of another account":         {[]client.Object{inNamespace(analyst(), "other"), having("analyst")}, same, defaults, false},
		"that is being deleted":      {[]client.Object{deleting(analyst()), having("analyst")}, same, defaults, false},
		"default":                    {[]client.Object{ann()}, fallback("Viewer"), viewer, true},
		"default, but has a role":    {[]client.Object{analyst(), having("analyst")}, fallback("Viewer"), onSales, true},
		"default that is gone":       {[]client.Object{ann()}, fallback("gone"), nil, true},
		"Admin is none":              {[]client.Object{having("Admin")}, same, defaults, false},
		"over SCIM":                  {[]client.Object{analyst(), over}, assigning, onSales, true},
		"over SCIM, not switched on": {[]client.Object{analyst(), over}, same, defaults, false},
	} {
		a, _ := p.authenticator(t, tc.objs...)
		account := p.account()
		tc.account(account)
		got, err := a.Authenticate(t.Context(), account, bearer(key.token(p.claims(object{"email": "ann@example.com", "groups": []string{"staff"}}))))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(tc.want, got.Grants); diff != "" || got.HasRole != tc.hasRole {
			t.Errorf("%s: has a role: %t (-want +got):\n%s", name, got.HasRole, diff)
		}
	}
}

func inNamespace(r *v1alpha1.AccountRole, namespace string) *v1alpha1.AccountRole {
	r.Namespace = namespace
	return r
}

func deleting(r *v1alpha1.AccountRole) *v1alpha1.AccountRole {
	r.DeletionTimestamp, r.Finalizers = ptr.To(metav1.NewTime(now)), []string{"x.example.com/y"}
	return r
}
