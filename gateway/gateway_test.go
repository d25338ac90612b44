package gateway_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/go-cmp/cmp"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/gateway"
	"github.com/quoin-dev/quoin/internal/engine"
)

// TestTokensAndRoutes: journey f, and that every environment is reached under its address alone.
func TestTokensAndRoutes(t *testing.T) {
	w := newWorld(t, nil)
	w.deployment("sales", nil, "feature/a")
	w.deployment("other", &v1alpha1.DataAPI{BasePath: "/semantic/x", CustomDomain: v1alpha1.Host("metrics." + w.namespace + ".org")})
	const production, staging, other = "sales-production", "sales-stg-0", "other-production"
	for _, environment := range []string{production, staging, other} {
		w.serve(environment, nil)
	}
	w.routed("sales", "/dev-mode/feature%2Fa/cubejs-api/v1/load")
	w.routed("other", "/semantic/x/v1/load")
	custom := "https://metrics." + w.namespace + ".org/semantic/x/v1/load"
	w.known(custom)
	base, dev := w.url("sales", "/cubejs-api"), w.url("sales", "/dev-mode/feature%2Fa/cubejs-api")
	expired := w.token(production, engine.KeyAPISecret, jwt.MapClaims{"exp": time.Now().Add(-time.Minute).Unix()})
	for name, tc := range map[string]struct {
		method, url, token string
		header             []string
		status             int
		body               string
	}{
		"data, load":                {"POST", base + "/v1/load", w.data(production), nil, 200, `"environment":"sales-production"`},
		"data, with Bearer":         {"POST", base + "/v1/load", "Bearer " + w.data(production), nil, 200, `"uri":"/cubejs-api/v1/load"`},
		"data, own header":          {"POST", base + "/v1/load", "", []string{"X-Cube-Authorization", w.data(production)}, 200, `sales-production`},
		"own header wins":           {"POST", base + "/v1/load", "nonsense", []string{"X-Cube-Authorization", w.data(production)}, 200, `sales-production`},
		"own header is wrong":       {"POST", base + "/v1/load", w.data(production), []string{"X-Cube-Authorization", "nonsense"}, 401, `not valid for this environment`},
		"staging":                   {"POST", dev + "/v1/load?x=1;y=%zz", w.data(staging), nil, 200, `"uri":"/cubejs-api/v1/load?x=1;y=%zz"`},
		"custom domain, base path":  {"GET", custom + "%2Fz", w.data(other), nil, 200, `"uri":"/cubejs-api/v1/load%2Fz"`},
		"metadata, meta":            {"GET", base + "/v1/meta", w.meta(production), nil, 200, `"uri":"/cubejs-api/v1/meta"`},
		"metadata, meta extended":   {"GET", base + "/v1/meta?extended", w.meta(production), nil, 200, `"uri":"/cubejs-api/v1/meta?extended"`},
		"metadata, own header":      {"GET", base + "/v1/meta", "", []string{"X-Cube-Authorization", w.meta(production)}, 200, `sales-production`},
		"metadata, load":            {"POST", base + "/v1/load", w.meta(production), nil, 403, `API scope is missing: data (this token is for metadata only`},
		"metadata, sql":             {"POST", base + "/v1/sql", w.meta(production), nil, 403, `API scope is missing: sql`},
		"metadata, graphql":         {"POST", base + "/graphql", w.meta(production), nil, 403, `API scope is missing: graphql`},
		"metadata, around":          {"GET", base + "/v1/meta%2F..%2Fload", w.meta(production), nil, 404, `base path`},
		"metadata, meta of a slash": {"GET", base + "/v1/meta/", w.meta(production), nil, 403, `metadata only`},
		"metadata of staging":       {"GET", base + "/v1/meta", w.meta(staging), nil, 401, `not valid for this environment`},
		"data of staging":           {"POST", base + "/v1/load", w.data(staging), nil, 401, `not valid for this environment`},
		"data of production":        {"POST", dev + "/v1/load", w.data(production), nil, 401, `not valid for this environment`},
		"of another deployment":     {"POST", base + "/v1/load", w.data(other), nil, 401, `not valid for this environment`},
		"expired":                   {"POST", base + "/v1/load", expired, nil, 401, `expired`},
		"no token":                  {"POST", base + "/v1/load", "", nil, 401, `missing`},
		"two tokens":                {"POST", base + "/v1/load", w.data(production), []string{"Authorization", "x"}, 400, `more than one Authorization header`},
		"large token":               {"POST", base + "/v1/load", strings.Repeat("x", 17<<10), nil, 431, `16 KiB`},
		"unknown host":              {"POST", w.url("nobody", "/cubejs-api/v1/load"), w.data(production), nil, 404, `no deployment answers on this host`},
		"unknown branch":            {"POST", w.url("sales", "/dev-mode/x/cubejs-api/v1/load"), w.data(production), nil, 404, `no environment serves this branch`},
		"health":                    {"GET", w.url("sales", "/readyz"), w.data(production), nil, 404, `base path`},
		"system":                    {"GET", w.url("sales", "/cubejs-system/v1/context"), w.data(production), nil, 404, `base path`},
		"preflight":                 {"OPTIONS", base + "/v1/load", "", []string{"Origin", "https://x", "Access-Control-Request-Method", "POST"}, 200, `OPTIONS`},
		"options":                   {"OPTIONS", base + "/v1/load", "", nil, 401, `missing`},
	} {
		t.Run(name, func(t *testing.T) {
			for protocol, c := range map[string]*http.Client{"HTTP/1.1": w.http, "HTTP/2": w.client(true)} {
				got := w.ask(c, tc.method, tc.url, tc.token, nil, tc.header...)
				if got.status != tc.status || !strings.Contains(got.body, tc.body) {
					t.Errorf("%s: %d %s, want %d %s", protocol, got.status, got.body, tc.status, tc.body)
				}
				var problem struct{ Error string }
				if tc.status >= 400 && (json.Unmarshal([]byte(got.body), &problem) != nil || problem.Error == "") {
					t.Errorf("%s: no error in JSON: %s", protocol, got.body)
				}
				if got.header.Get("X-Request-Id") == "" {
					t.Errorf("%s: no request id", protocol)
				}
			}
		})
	}
	for _, secret := range []string{w.data(production), w.meta(production), w.key(production, engine.KeyAPISecret)} {
		if strings.Contains(w.log.String(), secret[strings.LastIndexByte(secret, 0x2e)+1:]) {
			t.Error("the log has a secret")
		}
	}
}

// TestIsolation: of all tokens at all addresses only the one of the place itself is taken.
func TestIsolation(t *testing.T) {
	a, b := newWorld(t, nil), newWorld(t, nil)
	type place struct {
		w                *world
		url, environment string
	}
	var places []place
	for _, w := range []*world{a, b} {
		for _, deployment := range []string{"one", "two"} {
			w.deployment(deployment, nil, "x")
			places = append(places,
				place{w, w.url(deployment, "/cubejs-api/v1/meta"), deployment + "-production"},
				place{w, w.url(deployment, "/dev-mode/x/cubejs-api/v1/meta"), deployment + "-stg-0"})
		}
	}
	for _, p := range places {
		p.w.serve(p.environment, nil)
	}
	for _, at := range places {
		a.known(at.url) // one gateway serves both accounts
		for _, of := range places {
			for kind, value := range map[string]string{"data": of.w.data(of.environment), "metadata": of.w.meta(of.environment)} {
				got := a.ask(a.http, "GET", at.url, value, nil)
				want := 401
				if at == of {
					want = 200
				}
				if got.status != want || want == 200 && !strings.Contains(got.body, `"environment":"`+at.environment+`"`) {
					t.Errorf("%s token of %s/%s at %s: %d %s", kind, of.w.namespace, of.environment, at.url, got.status, got.body)
				}
			}
		}
	}
}

// TestMetadataTokenAtThePod: what the gateway lets pass to the pod is another token, and the pod
// refuses the one that was made for the gateway.
func TestMetadataTokenAtThePod(t *testing.T) {
	w := newWorld(t, nil)
	w.deployment("sales", nil)
	p := w.serve("sales-production", nil)
	w.routed("sales", "/cubejs-api")
	made := w.token("sales-production", engine.KeyMetadata, jwt.MapClaims{"tenant": "acme", "scope": []string{"meta"}})
	if got := w.ask(w.http, "GET", w.url("sales", "/cubejs-api/v1/meta"), made, nil); got.status != 200 {
		t.Fatalf("%d %s", got.status, got.body)
	}
	relayed := p.last.Load().Header.Get("Authorization")
	claims := jwt.MapClaims{}
	if _, err := jwt.ParseWithClaims(relayed, claims, func(*jwt.Token) (any, error) { return []byte(w.key("sales-production", engine.KeyAPISecret)), nil }); err != nil {
		t.Fatal(err)
	}
	end, err := claims.GetExpirationTime()
	if err != nil || time.Until(end.Time) > time.Minute || claims["tenant"] != "acme" || relayed == made {
		t.Errorf("claims %v, %v", claims, err)
	}
	for _, path := range []string{"/v1/meta", "/v1/load"} {
		if got := w.ask(http.DefaultClient, "GET", "http://"+p.address()+"/cubejs-api"+path, made, nil); got.status != 403 {
			t.Errorf("the pod answers %s with %d", path, got.status)
		}
	}
}

// TestPassesThrough: what the pod gets is what the caller sent, and the other way round.
func TestPassesThrough(t *testing.T) {
	w := newWorld(t, nil)
	w.deployment("sales", nil)
	p := w.serve("sales-production", func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Trailer", "X-End")
		rw.Header().Set("Cache-Control", "max-age=5")
		rw.Header().Set("X-Own", "kept")
		rw.Header().Set("Connection", "X-Hop")
		rw.Header().Set("X-Hop", "gone")
		rw.WriteHeader(http.StatusTeapot)
		_, _ = io.Copy(rw, r.Body)
		rw.Header().Set("X-End", "here")
	})
	w.routed("sales", "/cubejs-api")
	r, err := http.NewRequestWithContext(t.Context(), "PROPFIND", w.url("sales", "/cubejs-api/v1/new?a=b;c"), strings.NewReader("body"))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = http.Header{
		"Authorization": {w.data("sales-production")}, "X-Request-Id": {"abc-span-1"}, "X-Forwarded-For": {"6.6.6.6"}, "Forwarded": {"for=6.6.6.6"},
		"Connection": {"X-Secret"}, "X-Secret": {"x"}, "Accept-Language": {"de", "en"}, "Traceparent": {"00-1-2-01"}, "Upgrade": {"h2c"},
	}
	response, err := w.http.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(response.Body)
	_ = response.Body.Close()
	if response.StatusCode != http.StatusTeapot || string(body) != "body" || response.Trailer.Get("X-End") != "here" {
		t.Errorf("%d %q %v", response.StatusCode, body, response.Trailer)
	}
	h := response.Header
	if diff := cmp.Diff([]string{"max-age=5", "kept", "", "abc-span-1"}, []string{strings.Join(h.Values("Cache-Control"), "|"), h.Get("X-Own"), h.Get("X-Hop"), h.Get("X-Request-Id")}); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
	got := p.last.Load()
	want := map[string]string{
		"X-Forwarded-For": "127.0.0.1", "X-Forwarded-Proto": "https", "X-Forwarded-Host": r.Host, "Forwarded": "", "X-Secret": "", "Upgrade": "",
		"Accept-Language": "de|en", "Traceparent": "00-1-2-01", "X-Request-Id": "abc-span-1", "Authorization": r.Header.Get("Authorization"),
	}
	for name, value := range want {
		if is := strings.Join(got.Header.Values(name), "|"); is != value {
			t.Errorf("%s is %q, want %q", name, is, value)
		}
	}
	if got.Method != "PROPFIND" || got.RequestURI != "/cubejs-api/v1/new?a=b;c" || got.Host != r.Host {
		t.Errorf("%s %s %s", got.Method, got.RequestURI, got.Host)
	}
}

// TestListings: entities and data sources, which the open-source server does not have.
func TestListings(t *testing.T) {
	w := newWorld(t, nil)
	w.deployment("sales", nil)
	w.deployment("broken", nil)
	w.serve("sales-production", func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/cubejs-api/v1/meta" {
			t.Errorf("asks for %s", r.URL)
		}
		_, _ = io.WriteString(rw, `{"cubes":[{"name":"orders","title":"Orders","type":"cube","measures":[{"name":"orders.count","type":"number"}]}]}`)
	})
	w.serve("broken-production", func(rw http.ResponseWriter, _ *http.Request) {
		rw.WriteHeader(http.StatusInternalServerError)
		_, _ = io.WriteString(rw, `{"error":"Compile errors"}`)
	})
	w.routed("sales", "/cubejs-api")
	w.routed("broken", "/cubejs-api")
	const entities = `{"entities":[{"name":"orders","title":"Orders","type":"cube","measures":[{"name":"orders.count","type":"number"}],"dimensions":[],"segments":[]}]}`
	for _, tc := range []struct {
		url, token string
		status     int
		want       string
	}{
		{w.url("sales", "/cubejs-api/v1/entities"), w.meta("sales-production"), 200, entities},
		{w.url("sales", "/cubejs-api/v1/entities"), w.data("sales-production"), 200, entities},
		{w.url("sales", "/cubejs-api/v1/data-sources"), w.meta("sales-production"), 200, `{"dataSources":[{"name":"default","type":"postgres"}]}`},
		{w.url("sales", "/cubejs-api/v1/entities"), "", 401, `{"error":"the header Authorization with a token is missing"}`},
		{w.url("broken", "/cubejs-api/v1/entities"), w.meta("broken-production"), 500, `{"error":"Compile errors"}`},
	} {
		if got := w.ask(w.http, "GET", tc.url, tc.token, nil); got.status != tc.status || strings.TrimSpace(got.body) != tc.want {
			t.Errorf("%s: %d %s\nwant %d %s", tc.url, got.status, got.body, tc.status, tc.want)
		}
	}
	unset := &v1alpha1.Deployment{}
	w.get("sales", unset)
	unset.Spec.Env = nil
	if err := w.kube.Update(t.Context(), unset); err != nil {
		t.Fatal(err)
	}
	w.eventually("501", func() bool {
		got := w.ask(w.http, "GET", w.url("sales", "/cubejs-api/v1/data-sources"), w.meta("sales-production"), nil)
		return got.status == http.StatusNotImplemented && strings.Contains(got.body, "names a data source")
	})
}

// TestLimits: requests a second, at a time, and the size of bodies.
func TestLimits(t *testing.T) {
	w := newWorld(t, func(c *gateway.Config) { c.RequestsPerSecond, c.Burst, c.MaxInFlight = 0.01, 3, 1 })
	w.deployment("sales", nil)
	w.deployment("other", nil)
	hold, begun := make(chan struct{}), make(chan struct{})
	for _, e := range []string{"sales-production", "other-production"} {
		w.serve(e, func(rw http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/cubejs-api/v1/slow" {
				close(begun)
				<-hold
			}
			_, _ = io.Copy(io.Discard, r.Body)
		})
	}
	w.routed("sales", "/cubejs-api")
	w.routed("other", "/cubejs-api")
	var codes []int
	for range 4 {
		codes = append(codes, w.ask(w.http, "GET", w.url("sales", "/cubejs-api/v1/load"), w.data("sales-production"), nil).status)
	}
	if diff := cmp.Diff([]int{200, 200, 200, 429}, codes); diff != "" {
		t.Errorf("codes (-want +got):\n%s", diff)
	}
	limited := w.ask(w.http, "GET", w.url("sales", "/cubejs-api/v1/load"), w.data("sales-production"), nil)
	if limited.header.Get("Retry-After") == "" || !strings.Contains(limited.body, "too many requests") {
		t.Errorf("%v %s", limited.header, limited.body)
	}
	slow := make(chan answer)
	go func() {
		slow <- w.ask(w.http, "GET", w.url("other", "/cubejs-api/v1/slow"), w.data("other-production"), nil)
	}()
	<-begun
	if got := w.ask(w.http, "GET", w.url("other", "/cubejs-api/v1/load"), w.data("other-production"), nil); got.status != 429 {
		t.Errorf("a second one at a time is answered with %d", got.status)
	}
	close(hold)
	if got := <-slow; got.status != 200 {
		t.Errorf("the one is answered with %d", got.status)
	}
	large := w.ask(w.http, "POST", w.url("other", "/cubejs-api/v1/load"), w.data("other-production"), io.LimitReader(zeros{}, 64<<20+1), "Content-Type", "x")
	if large.status != http.StatusRequestEntityTooLarge || !strings.Contains(large.body, "larger than 67108864 bytes") {
		t.Errorf("%d %s", large.status, large.body)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// TestLargeBodies: what is under the limit arrives whole, and is not held in memory.
func TestLargeBodies(t *testing.T) {
	w := newWorld(t, nil)
	w.deployment("sales", nil)
	w.serve("sales-production", func(rw http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		fmt.Fprintf(rw, "%d %v", n, err)
	})
	w.routed("sales", "/cubejs-api")
	for _, size := range []int64{0, 1, 1 << 20, 1<<20 + 1, 64 << 20} {
		got := w.ask(w.http, "POST", w.url("sales", "/cubejs-api/v1/load"), w.data("sales-production"), io.LimitReader(zeros{}, size))
		if want := fmt.Sprintf("%d <nil>", size); got.status != 200 || got.body != want {
			t.Errorf("%d bytes: %d %s", size, got.status, got.body)
		}
	}
}
