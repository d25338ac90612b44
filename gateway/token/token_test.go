package token_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/quoin-dev/quoin/gateway/token"
)

var now = time.Unix(1_800_000_000, 0)

var keys = token.Keys{Data: [][]byte{[]byte("new-secret"), []byte("old-secret")}, Metadata: []byte("metadata-key")}

func sign(t testing.TB, method jwt.SigningMethod, key any, claims jwt.MapClaims, header map[string]any) string {
	t.Helper()
	unsigned := jwt.NewWithClaims(method, claims)
	for name, value := range header {
		unsigned.Header[name] = value
	}
	signed, err := unsigned.SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return signed
}

func TestFind(t *testing.T) {
	long := strings.Repeat("x", 16<<10+1)
	for name, tc := range map[string]struct {
		header      http.Header
		token, from string
		err         error
	}{
		"plain":                 {http.Header{"Authorization": {"a.b.c"}}, "a.b.c", "Authorization", nil},
		"Bearer":                {http.Header{"Authorization": {"Bearer a.b.c"}}, "a.b.c", "Authorization", nil},
		"bearer":                {http.Header{"Authorization": {"bearer a.b.c"}}, "a.b.c", "Authorization", nil},
		"two spaces":            {http.Header{"Authorization": {"Bearer  a.b.c"}}, "", "", token.ErrInvalid},
		"other scheme":          {http.Header{"Authorization": {"Basic a.b.c"}}, "", "", token.ErrInvalid},
		"list":                  {http.Header{"Authorization": {"a.b.c,d.e.f"}}, "", "", token.ErrInvalid},
		"only a scheme":         {http.Header{"Authorization": {"Bearer "}}, "", "", token.ErrInvalid},
		"none":                  {http.Header{}, "", "", token.ErrNone},
		"empty":                 {http.Header{"Authorization": {""}}, "", "", token.ErrNone},
		"two":                   {http.Header{"Authorization": {"a", "a"}}, "", "", token.ErrAmbiguous},
		"server's header":       {http.Header{"X-Cube-Authorization": {"a"}, "Authorization": {"b"}}, "a", "X-Cube-Authorization", nil},
		"server's header empty": {http.Header{"X-Cube-Authorization": {""}, "Authorization": {"b"}}, "b", "Authorization", nil},
		"server's header twice": {http.Header{"X-Cube-Authorization": {"a", "b"}}, "", "", token.ErrAmbiguous},
		"server's and two":      {http.Header{"X-Cube-Authorization": {"a"}, "Authorization": {"b", "c"}}, "", "", token.ErrAmbiguous},
		"too long":              {http.Header{"Authorization": {long}}, "", "", token.ErrTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			got, from, err := token.Find(tc.header)
			if got != tc.token || from != tc.from || !errors.Is(err, tc.err) {
				t.Errorf("%q from %q, %v; want %q from %q, %v", got, from, err, tc.token, tc.from, tc.err)
			}
		})
	}
}

type checkCase struct {
	token string
	kind  token.Kind
	err   error
}

// testCheck checks tokens with keys, and without any key.
func testCheck(t *testing.T, cases map[string]checkCase) {
	t.Helper()
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			kind, _, err := keys.Check(tc.token, now)
			if !errors.Is(err, tc.err) || err == nil && kind != tc.kind {
				t.Errorf("%v, %v; want %v, %v", kind, err, tc.kind, tc.err)
			}
			if _, _, err := (token.Keys{}).Check(tc.token, now); !errors.Is(err, token.ErrInvalid) {
				t.Errorf("without any key: %v", err)
			}
		})
	}
}

func TestCheckClaims(t *testing.T) {
	hs := jwt.SigningMethodHS256
	later, before := now.Add(time.Hour).Unix(), now.Add(-time.Second).Unix()
	testCheck(t, map[string]checkCase{
		"data": {sign(t, hs, []byte("new-secret"), jwt.MapClaims{"exp": later}, nil), token.Data, nil},

		"previous secret":    {sign(t, hs, []byte("old-secret"), jwt.MapClaims{"exp": later}, nil), token.Data, nil},
		"data without exp":   {sign(t, hs, []byte("new-secret"), jwt.MapClaims{"u": 1}, nil), token.Data, nil},
		"data, scope meta":   {sign(t, hs, []byte("new-secret"), jwt.MapClaims{"scope": []string{"meta"}}, nil), token.Data, nil},
		"queries":            {sign(t, hs, []byte("new-secret"), jwt.MapClaims{"exp": later, "quoinPermissions": []string{"DeploymentRead", "SchemaRead"}}, nil), token.RunQueries | token.ReadMetadata, nil},
		"data, for SQL":      {sign(t, hs, []byte("new-secret"), jwt.MapClaims{"exp": later, "quoinPermissions": []string{"DeploymentRead", "SchemaRead", "SqlRunnerRead"}}, nil), token.Data, nil},
		"other permissions":  {sign(t, hs, []byte("new-secret"), jwt.MapClaims{"exp": later, "quoinPermissions": []any{"DeploymentRead", "Admin", 1, nil}}, nil), token.RunQueries, nil},
		"no list":            {sign(t, hs, []byte("new-secret"), jwt.MapClaims{"exp": later, "quoinPermissions": "DeploymentRead"}, nil), 0, nil},
		"null":               {sign(t, hs, []byte("new-secret"), jwt.MapClaims{"exp": later, "quoinPermissions": nil}, nil), 0, nil},
		"queries, expired":   {sign(t, hs, []byte("new-secret"), jwt.MapClaims{"exp": before, "quoinPermissions": []string{}}, nil), 0, token.ErrExpired},
		"metadata":           {sign(t, hs, []byte("metadata-key"), jwt.MapClaims{"exp": later}, nil), token.Metadata, nil},
		"metadata, no exp":   {sign(t, hs, []byte("metadata-key"), jwt.MapClaims{}, nil), 0, token.ErrInvalid},
		"expired":            {sign(t, hs, []byte("new-secret"), jwt.MapClaims{"exp": before}, nil), 0, token.ErrExpired},
		"expired metadata":   {sign(t, hs, []byte("metadata-key"), jwt.MapClaims{"exp": before}, nil), 0, token.ErrExpired},
		"nbf in the future":  {sign(t, hs, []byte("new-secret"), jwt.MapClaims{"nbf": now.Add(2 * time.Minute).Unix()}, nil), 0, token.ErrNotYet},
		"exp is a string":    {sign(t, hs, []byte("new-secret"), jwt.MapClaims{"exp": "tomorrow"}, nil), 0, token.ErrInvalid},
		"other key":          {sign(t, hs, []byte("another"), jwt.MapClaims{"exp": later}, nil), 0, token.ErrInvalid},
		"other key, expired": {sign(t, hs, []byte("another"), jwt.MapClaims{"exp": before}, nil), 0, token.ErrInvalid},
		"empty key":          {sign(t, hs, []byte{}, jwt.MapClaims{"exp": later}, nil), 0, token.ErrInvalid},
	})
}

func TestCheckRejectsAlgorithmsAndForms(t *testing.T) {
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	later := now.Add(time.Hour).Unix()
	valid := sign(t, jwt.SigningMethodHS256, []byte("new-secret"), jwt.MapClaims{"exp": later}, nil)
	parts := strings.Split(valid, ".")
	withHeader := func(header string) string {
		return base64.RawURLEncoding.EncodeToString([]byte(header)) + "." + parts[1] + "." + parts[2]
	}
	testCheck(t, map[string]checkCase{
		"none":            {sign(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, jwt.MapClaims{"exp": later}, nil), 0, token.ErrInvalid},
		"HS384":           {sign(t, jwt.SigningMethodHS384, []byte("new-secret"), jwt.MapClaims{"exp": later}, nil), 0, token.ErrInvalid},
		"HS512":           {sign(t, jwt.SigningMethodHS512, []byte("new-secret"), jwt.MapClaims{"exp": later}, nil), 0, token.ErrInvalid},
		"RS256":           {sign(t, jwt.SigningMethodRS256, private, jwt.MapClaims{"exp": later}, nil), 0, token.ErrInvalid},
		"ES256":           {sign(t, jwt.SigningMethodES256, curve, jwt.MapClaims{"exp": later}, nil), 0, token.ErrInvalid},
		"alg none":        {withHeader(`{"alg":"none","typ":"JWT"}`), 0, token.ErrInvalid},
		"alg hs256":       {withHeader(`{"alg":"hs256"}`), 0, token.ErrInvalid},
		"no alg":          {withHeader(`{"typ":"JWT"}`), 0, token.ErrInvalid},
		"critical header": {sign(t, jwt.SigningMethodHS256, []byte("new-secret"), jwt.MapClaims{"exp": later}, map[string]any{"crit": []string{"x"}}), 0, token.ErrInvalid},
		"truncated":       {valid[:len(valid)-1], 0, token.ErrInvalid},
		"no signature":    {parts[0] + "." + parts[1] + ".", 0, token.ErrInvalid},
		"two parts":       {parts[0] + "." + parts[1], 0, token.ErrInvalid},
		"four parts":      {valid + ".x", 0, token.ErrInvalid},
		"not JSON":        {"a.b.c", 0, token.ErrInvalid},
		"empty":           {"", 0, token.ErrInvalid},
	})
}

func TestExchange(t *testing.T) {
	for name, tc := range map[string]struct{ exp, want int64 }{
		"long":  {now.Add(time.Hour).Unix(), now.Add(time.Minute).Unix()},
		"short": {now.Add(time.Second).Unix(), now.Add(time.Second).Unix()},
	} {
		t.Run(name, func(t *testing.T) {
			claims := jwt.MapClaims{"exp": tc.exp, "iat": 5, "scope": []string{"meta"}, "tenant": map[string]any{"id": json.Number("9007199254740993")}}
			kind, read, err := keys.Check(sign(t, jwt.SigningMethodHS256, []byte("metadata-key"), claims, nil), now)
			if err != nil || kind != token.Metadata {
				t.Fatal(kind, err)
			}
			exchanged, err := keys.Exchange(read, now)
			if err != nil {
				t.Fatal(err)
			}
			if kind, _, err := keys.Check(exchanged, now); kind != token.Data || err != nil {
				t.Errorf("the exchanged token is of kind %v, %v", kind, err)
			}
			payload, err := base64.RawURLEncoding.DecodeString(strings.Split(exchanged, ".")[1])
			if err != nil {
				t.Fatal(err)
			}
			claims["exp"] = tc.want
			want, err := json.Marshal(claims)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(payload)); diff != "" {
				t.Errorf("claims (-want +got):\n%s", diff)
			}
		})
	}
	if _, err := (token.Keys{}).Exchange(jwt.MapClaims{}, now); err == nil {
		t.Error("signed without a key")
	}
}

func TestFromSecrets(t *testing.T) {
	b := func(s string) []byte { return []byte(s) }
	for name, tc := range map[string]struct {
		pods map[string][]byte
		want [][]byte
	}{
		"one":          {map[string][]byte{"apiSecret": b("a")}, [][]byte{b("a")}},
		"list":         {map[string][]byte{"apiSecret": b("a"), "apiSecrets": b("b,a,c")}, [][]byte{b("a"), b("b"), b("c")}},
		"list, spaces": {map[string][]byte{"apiSecret": b("a"), "apiSecrets": b(" b , a ")}, [][]byte{b("a"), b("b")}},
		"not in list":  {map[string][]byte{"apiSecret": b("a"), "apiSecrets": b("b,c")}, [][]byte{b("b"), b("c")}},
		"empty list":   {map[string][]byte{"apiSecret": b("a"), "apiSecrets": b(", ,")}, [][]byte{b("a")}},
		"no data":      {nil, nil},
		"empty secret": {map[string][]byte{"apiSecret": b("")}, nil},
		"only a list":  {map[string][]byte{"apiSecrets": b("b")}, [][]byte{b("b")}},
	} {
		t.Run(name, func(t *testing.T) {
			got := token.FromSecrets(tc.pods, map[string][]byte{"metadataKey": b("m")})
			if diff := cmp.Diff(token.Keys{Data: tc.want, Metadata: b("m")}, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// FuzzCheck: no token is valid without a key, and nothing panics.
func FuzzCheck(f *testing.F) {
	f.Add(sign(f, jwt.SigningMethodHS256, []byte("another"), jwt.MapClaims{"exp": now.Add(time.Hour).Unix()}, nil))
	f.Add("eyJhbGciOiJub25lIn0.e30.")
	f.Add("..")
	f.Fuzz(func(t *testing.T, value string) {
		found, _, err := token.Find(http.Header{"Authorization": {value}})
		if err != nil {
			return
		}
		if _, _, err := keys.Check(found, now); err == nil {
			t.Errorf("%q is accepted", found)
		}
	})
}

func BenchmarkCheck(b *testing.B) {
	data := sign(b, jwt.SigningMethodHS256, []byte("new-secret"), jwt.MapClaims{"exp": now.Add(time.Hour).Unix(), "tenant": "acme"}, nil)
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := keys.Check(data, now); err != nil {
			b.Fatal(err)
		}
	}
}

// reader counts reads, and fails if fail is set.
type reader struct {
	client.WithWatch
	gets atomic.Int64
	fail atomic.Bool
}

func newReader(secrets ...client.Object) *reader {
	r := &reader{}
	r.WithWatch = fake.NewClientBuilder().WithObjects(secrets...).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
			r.gets.Add(1)
			if r.fail.Load() {
				return errors.New("the API server is unavailable")
			}
			return c.Get(ctx, key, o, options...)
		},
	}).Build()
	return r
}

func secret(name, key, value string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: name}, Data: map[string][]byte{key: []byte(value)}}
}

func TestStore(t *testing.T) {
	production := types.NamespacedName{Namespace: "acme", Name: "sales-production"}
	r := newReader(secret("sales-production-credentials", "apiSecret", "one"), secret("sales-production-gateway", "metadataKey", "meta"))
	clock := now
	s := &token.Store{Reader: r, Now: func() time.Time { return clock }}
	claims := jwt.MapClaims{"exp": now.Add(24 * time.Hour).Unix()}
	tokenOf := func(key string) string { return sign(t, jwt.SigningMethodHS256, []byte(key), claims, nil) }
	check := func(value string, wantKind token.Kind, wantErr error, reads int64) {
		t.Helper()
		before := r.gets.Load()
		kind, exchanged, err := s.Check(t.Context(), production, value)
		if kind != wantKind && wantErr == nil || !errors.Is(err, wantErr) || (exchanged != "") != (wantErr == nil && wantKind == token.Metadata) {
			t.Errorf("%v, %v, exchanged %t; want %v, %v", kind, err, exchanged != "", wantKind, wantErr)
		}
		if got := r.gets.Load() - before; got != reads {
			t.Errorf("%d reads, want %d", got, reads)
		}
	}
	check(tokenOf("one"), token.Data, nil, 2)
	check(tokenOf("one"), token.Data, nil, 0)
	check(tokenOf("meta"), token.Metadata, nil, 0)
	check(tokenOf("two"), 0, token.ErrInvalid, 0) // within the minimum interval

	rotated := secret("sales-production-credentials", "apiSecret", "two")
	if err := r.Update(t.Context(), rotated); err != nil {
		t.Fatal(err)
	}
	check(tokenOf("one"), token.Data, nil, 0)
	clock = clock.Add(3 * time.Second)
	check(tokenOf("two"), token.Data, nil, 2) // the keys are read again
	check(tokenOf("one"), 0, token.ErrInvalid, 0)
	clock = clock.Add(31 * time.Second)
	r.fail.Store(true)
	check(tokenOf("two"), token.Data, nil, 1) // the API server is unavailable
	clock = clock.Add(time.Hour)
	if _, _, err := s.Check(t.Context(), production, tokenOf("two")); err == nil || errors.Is(err, token.ErrInvalid) {
		t.Errorf("keys older than maxStaleness: %v", err)
	}
	r.fail.Store(false)
	if err := r.Delete(t.Context(), rotated); err != nil {
		t.Fatal(err)
	}
	check(tokenOf("two"), 0, token.ErrNoKeys, 1)
}

func TestStoreSharesConcurrentReads(t *testing.T) {
	production := types.NamespacedName{Namespace: "acme", Name: "sales-production"}
	r := newReader(secret("sales-production-credentials", "apiSecret", "one"))
	s := &token.Store{Reader: r, Now: time.Now}
	value := sign(t, jwt.SigningMethodHS256, []byte("one"), jwt.MapClaims{}, nil)
	var all sync.WaitGroup
	for range 64 {
		all.Go(func() {
			if _, _, err := s.Check(t.Context(), production, value); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if got := r.gets.Load(); got > 8 {
		t.Errorf("%d reads for 64 concurrent requests", got)
	}
}

// TestStoreSharesReadsThatHaveEnded: a request that has found no keys uses those that another one has read since.
func TestStoreSharesReadsThatHaveEnded(t *testing.T) {
	production := types.NamespacedName{Namespace: "acme", Name: "sales-production"}
	r := newReader(secret("sales-production-credentials", "apiSecret", "one"))
	value := sign(t, jwt.SigningMethodHS256, []byte("one"), jwt.MapClaims{}, nil)
	stopped, resume := make(chan struct{}), make(chan struct{})
	var calls atomic.Int64
	s := &token.Store{Reader: r, Now: func() time.Time {
		if calls.Add(1) == 1 { // the first request has found no keys
			close(stopped)
			<-resume
		}
		return now
	}}
	first := make(chan error, 1)
	go func() {
		_, _, err := s.Check(t.Context(), production, value)
		first <- err
	}()
	<-stopped
	if _, _, err := s.Check(t.Context(), production, value); err != nil {
		t.Fatal(err)
	}
	read := r.gets.Load()
	close(resume)
	if err := <-first; err != nil || r.gets.Load() != read {
		t.Errorf("%v, %d more reads", err, r.gets.Load()-read)
	}
}

// TestStoreCachesTokens: a cached token is rejected once it has expired or its key was replaced,
// and always in another environment.
func TestStoreCachesTokens(t *testing.T) {
	production, staging := types.NamespacedName{Namespace: "acme", Name: "production"}, types.NamespacedName{Namespace: "acme", Name: "staging"}
	r := newReader(secret("production-credentials", "apiSecret", "one"), secret("production-gateway", "metadataKey", "meta"), secret("staging-credentials", "apiSecret", "two"))
	clock := now
	s := &token.Store{Reader: r, Now: func() time.Time { return clock }}
	data := sign(t, jwt.SigningMethodHS256, []byte("one"), jwt.MapClaims{"exp": now.Add(10 * time.Second).Unix()}, nil)
	meta := sign(t, jwt.SigningMethodHS256, []byte("meta"), jwt.MapClaims{"exp": now.Add(time.Hour).Unix()}, nil)
	var exchanges []string
	for range 2 {
		if kind, _, err := s.Check(t.Context(), production, data); kind != token.Data || err != nil {
			t.Error(kind, err)
		}
		kind, exchanged, err := s.Check(t.Context(), production, meta)
		if kind != token.Metadata || err != nil {
			t.Error(kind, err)
		}
		exchanges = append(exchanges, exchanged)
		for _, value := range []string{data, meta} {
			if _, _, err := s.Check(t.Context(), staging, value); !errors.Is(err, token.ErrInvalid) {
				t.Errorf("another environment: %v", err)
			}
		}
	}
	clock = clock.Add(10 * time.Second)
	if _, _, err := s.Check(t.Context(), production, data); !errors.Is(err, token.ErrExpired) {
		t.Errorf("expired: %v", err)
	}
	for _, step := range []time.Duration{25 * time.Second, 20 * time.Second, 50 * time.Minute} {
		clock = clock.Add(step)
		_, exchanged, err := s.Check(t.Context(), production, meta)
		if err != nil {
			t.Fatal(err)
		}
		exchanges = append(exchanges, exchanged)
		keys := token.Keys{Data: [][]byte{[]byte("one")}}
		if kind, _, err := keys.Check(exchanged, clock.Add(20*time.Second)); kind != token.Data || err != nil {
			t.Errorf("20 seconds after the exchange: %v", err)
		}
	}
	if exchanges[0] != exchanges[1] || exchanges[1] == exchanges[2] {
		t.Error("exchanged tokens are not cached, or for too long")
	}
	if err := r.Update(t.Context(), secret("production-gateway", "metadataKey", "new")); err != nil {
		t.Fatal(err)
	}
	clock = clock.Add(31 * time.Second)
	if _, _, err := s.Check(t.Context(), production, meta); !errors.Is(err, token.ErrInvalid) {
		t.Errorf("replaced key: %v", err)
	}
}

// TestStorePrunes: the keys of an environment that no longer exists are not kept.
func TestStorePrunes(t *testing.T) {
	production, staging := types.NamespacedName{Namespace: "acme", Name: "production"}, types.NamespacedName{Namespace: "acme", Name: "staging"}
	r := newReader(secret("production-credentials", "apiSecret", "one"), secret("staging-credentials", "apiSecret", "one"))
	s := &token.Store{Reader: r, Now: func() time.Time { return now }}
	value := sign(t, jwt.SigningMethodHS256, []byte("one"), jwt.MapClaims{}, nil)
	reads := func(environment types.NamespacedName) int64 {
		before := r.gets.Load()
		if _, _, err := s.Check(t.Context(), environment, value); err != nil {
			t.Error(err)
		}
		return r.gets.Load() - before
	}
	reads(production)
	reads(staging)
	s.Prune(func(environment types.NamespacedName) bool { return environment == production })
	if kept, removed := reads(production), reads(staging); kept != 0 || removed == 0 {
		t.Errorf("%d reads of the keys of the environment that exists, %d of the other one", kept, removed)
	}
}
