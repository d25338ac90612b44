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
	"github.com/quoin-dev/quoin/internal/engine/dataapi"
)

const production, staging, other = "sales-production", "sales-stg-0", "other-production"

// newRoutes starts a gateway with the environments production, staging and other. It returns their
// base URLs.
func newRoutes(t *testing.T) (f *fixture, base, dev, custom string) {
	t.Helper()
	f = newFixture(t, nil)
	f.createDeployment("sales", nil, "feature/a")
	f.createDeployment("other", &v1alpha1.DataAPI{BasePath: "/semantic/x", CustomDomain: v1alpha1.Host("metrics." + f.namespace + ".org")})
	for _, environment := range []string{production, staging, other} {
		f.startPod(environment, nil)
	}
	f.waitForRoute("sales", "/dev-mode/feature%2Fa/cubejs-api/v1/load")
	f.waitForRoute("other", "/semantic/x/v1/load")
	custom = "https://metrics." + f.namespace + ".org/semantic/x/v1/load"
	f.waitForURL(custom)
	return f, f.url("sales", "/cubejs-api"), f.url("sales", "/dev-mode/feature%2Fa/cubejs-api"), custom
}

type requestCase struct {
	method, url, token string
	header             []string
	status             int
	body               string // a part of the response
}

// testRequests sends requests over HTTP/1.1 and HTTP/2.
func (f *fixture) testRequests(t *testing.T, cases map[string]requestCase) {
	t.Helper()
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			for protocol, c := range map[string]*http.Client{"HTTP/1.1": f.http, "HTTP/2": f.client(true)} {
				got := f.do(c, tc.method, tc.url, tc.token, nil, tc.header...)
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
}

// TestTokens: a token is valid for its own environment, and a metadata token for metadata
// endpoints only.
func TestTokens(t *testing.T) {
	f, base, dev, custom := newRoutes(t)
	expired := f.sign(production, engine.KeyAPISecret, jwt.MapClaims{"exp": time.Now().Add(-time.Minute).Unix()})
	queries := f.sign(production, engine.KeyAPISecret, jwt.MapClaims{"exp": time.Now().Add(time.Minute).Unix(), dataapi.ClaimPermissions: []string{"DeploymentRead", "SchemaRead"}})
	load := f.sign(production, engine.KeyMetadata, jwt.MapClaims{"exp": time.Now().Add(time.Minute).Unix(), dataapi.ClaimPermissions: []string{"DeploymentRead"}})
	nothing := f.sign(production, engine.KeyMetadata, jwt.MapClaims{"exp": time.Now().Add(time.Minute).Unix(), dataapi.ClaimPermissions: "All"})
	f.testRequests(t, map[string]requestCase{
		"data, load":                {"POST", base + "/v1/load", f.dataToken(production), nil, 200, `"environment":"sales-production"`},
		"data, with Bearer":         {"POST", base + "/v1/load", "Bearer " + f.dataToken(production), nil, 200, `"uri":"/cubejs-api/v1/load"`},
		"data, server's header":     {"POST", base + "/v1/load", "", []string{"X-Cube-Authorization", f.dataToken(production)}, 200, `sales-production`},
		"server's header wins":      {"POST", base + "/v1/load", "nonsense", []string{"X-Cube-Authorization", f.dataToken(production)}, 200, `sales-production`},
		"server's header is wrong":  {"POST", base + "/v1/load", f.dataToken(production), []string{"X-Cube-Authorization", "nonsense"}, 401, `not valid for this environment`},
		"staging":                   {"POST", dev + "/v1/load?x=1;y=%zz", f.dataToken(staging), nil, 200, `"uri":"/cubejs-api/v1/load?x=1;y=%zz"`},
		"custom domain, base path":  {"GET", custom + "%2Fz", f.dataToken(other), nil, 200, `"uri":"/cubejs-api/v1/load%2Fz"`},
		"metadata, meta":            {"GET", base + "/v1/meta", f.metadataToken(production), nil, 200, `"uri":"/cubejs-api/v1/meta"`},
		"metadata, meta extended":   {"GET", base + "/v1/meta?extended", f.metadataToken(production), nil, 200, `"uri":"/cubejs-api/v1/meta?extended"`},
		"metadata, server's header": {"GET", base + "/v1/meta", "", []string{"X-Cube-Authorization", f.metadataToken(production)}, 200, `sales-production`},
		"metadata, load":            {"POST", base + "/v1/load", f.metadataToken(production), nil, 403, `API scope is missing: data (this token is for metadata only`},
		"metadata, sql":             {"POST", base + "/v1/sql", f.metadataToken(production), nil, 403, `API scope is missing: sql`},
		"metadata, graphql":         {"POST", base + "/graphql", f.metadataToken(production), nil, 403, `API scope is missing: graphql`},
		"metadata, parent segment":  {"GET", base + "/v1/meta%2F..%2Fload", f.metadataToken(production), nil, 404, `base path`},
		"metadata, trailing slash":  {"GET", base + "/v1/meta/", f.metadataToken(production), nil, 403, `metadata only`},
		"metadata of staging":       {"GET", base + "/v1/meta", f.metadataToken(staging), nil, 401, `not valid for this environment`},
		"data of staging":           {"POST", base + "/v1/load", f.dataToken(staging), nil, 401, `not valid for this environment`},
		"data of production":        {"POST", dev + "/v1/load", f.dataToken(production), nil, 401, `not valid for this environment`},
		"of another deployment":     {"POST", base + "/v1/load", f.dataToken(other), nil, 401, `not valid for this environment`},
		"queries, load":             {"POST", base + "/v1/load", queries, nil, 200, `"uri":"/cubejs-api/v1/load"`},
		"queries, generated SQL":    {"POST", base + "/v1/sql", queries, nil, 200, `"uri":"/cubejs-api/v1/sql"`},
		"queries, SQL":              {"POST", base + "/v1/cubesql", queries, nil, 403, `SqlRunnerRead`},
		"queries, other spelling":   {"POST", base + "/v1/CubeSQL", queries, nil, 403, `SqlRunnerRead`},
		"queries, encoded":          {"POST", base + "/v1/%63ubesql", queries, nil, 403, `SqlRunnerRead`},
		"queries, trailing slash":   {"POST", base + "/v1/cubesql/", queries, nil, 403, `SqlRunnerRead`},
		"queries, metadata":         {"GET", base + "/v1/meta", queries, nil, 200, `"uri":"/cubejs-api/v1/meta"`},
		"queries, GraphQL":          {"POST", base + "/graphql", queries, nil, 200, `"uri":"/cubejs-api/graphql"`},
		"load":                      {"POST", base + "/v1/load", load, nil, 200, `"uri":"/cubejs-api/v1/load"`},
		"load, metadata":            {"GET", base + "/v1/meta", load, nil, 403, `SchemaRead`},
		"load, listing":             {"GET", base + "/v1/entities", load, nil, 403, `SchemaRead`},
		"load, GraphQL":             {"POST", base + "/graphql", load, nil, 403, `SchemaRead`},
		"load, other spelling":      {"GET", base + "/v1/%6deta", load, nil, 403, `needs the permission`},
		"load, unknown path":        {"GET", base + "/v2/meta", load, nil, 403, `needs the permission`},
		"load, cancel":              {"DELETE", base + "/v1/running-query/a-1", load, nil, 200, `"uri":"/cubejs-api/v1/running-query/a-1"`},
		"load, cancel, encoded":     {"DELETE", base + "/v1/running-query/%61", load, nil, 403, `needs the permission`},
		"metadata, cancel":          {"DELETE", base + "/v1/running-query/a-1", f.metadataToken(production), nil, 403, `metadata only`},
		"load, SQL":                 {"POST", base + "/v1/cubesql", load, nil, 403, `SqlRunnerRead`},
		"load, of staging":          {"POST", dev + "/v1/load", load, nil, 401, `not valid for this environment`},
		"nothing, load":             {"POST", base + "/v1/load", nothing, nil, 403, `API scope is missing: data`},
		"nothing, metadata":         {"GET", base + "/v1/meta", nothing, nil, 403, `metadata`},
		"data, SQL":                 {"POST", base + "/v1/cubesql", f.dataToken(production), nil, 200, `"uri":"/cubejs-api/v1/cubesql"`},
		"expired":                   {"POST", base + "/v1/load", expired, nil, 401, `expired`},
		"no token":                  {"POST", base + "/v1/load", "", nil, 401, `missing`},
		"two tokens":                {"POST", base + "/v1/load", f.dataToken(production), []string{"Authorization", "x"}, 400, `more than one Authorization header`},
		"large token":               {"POST", base + "/v1/load", strings.Repeat("x", 17<<10), nil, 431, `16 KiB`},
	})
	for _, secret := range []string{f.dataToken(production), f.metadataToken(production), f.signingKey(production, engine.KeyAPISecret)} {
		if strings.Contains(f.log.String(), secret[strings.LastIndexByte(secret, '.')+1:]) {
			t.Error("the log contains a secret")
		}
	}
}

// TestRoutes: only the base paths of environments are served.
func TestRoutes(t *testing.T) {
	f, base, _, _ := newRoutes(t)
	f.testRequests(t, map[string]requestCase{
		"unknown host":   {"POST", f.url("nobody", "/cubejs-api/v1/load"), f.dataToken(production), nil, 404, `no deployment is served on this host`},
		"unknown branch": {"POST", f.url("sales", "/dev-mode/x/cubejs-api/v1/load"), f.dataToken(production), nil, 404, `no environment serves this branch`},
		"health":         {"GET", f.url("sales", "/readyz"), f.dataToken(production), nil, 404, `base path`},
		"system":         {"GET", f.url("sales", "/cubejs-system/v1/context"), f.dataToken(production), nil, 404, `base path`},
		"preflight":      {"OPTIONS", base + "/v1/load", "", []string{"Origin", "https://x", "Access-Control-Request-Method", "POST"}, 200, `OPTIONS`},
		"options":        {"OPTIONS", base + "/v1/load", "", nil, 401, `missing`},
	})
}

// TestIsolation: each environment accepts its own tokens and no others.
func TestIsolation(t *testing.T) {
	a, b := newFixture(t, nil), newFixture(t, nil)
	type target struct {
		f                *fixture
		url, environment string
	}
	var targets []target
	for _, f := range []*fixture{a, b} {
		for _, deployment := range []string{"one", "two"} {
			f.createDeployment(deployment, nil, "x")
			targets = append(targets,
				target{f, f.url(deployment, "/cubejs-api/v1/meta"), deployment + "-production"},
				target{f, f.url(deployment, "/dev-mode/x/cubejs-api/v1/meta"), deployment + "-stg-0"})
		}
	}
	for _, p := range targets {
		p.f.startPod(p.environment, nil)
	}
	for _, to := range targets {
		a.waitForURL(to.url) // one gateway serves both accounts
		for _, from := range targets {
			for kind, value := range map[string]string{"data": from.f.dataToken(from.environment), "metadata": from.f.metadataToken(from.environment)} {
				got := a.do(a.http, "GET", to.url, value, nil)
				want := 401
				if to == from {
					want = 200
				}
				if got.status != want || want == 200 && !strings.Contains(got.body, `"environment":"`+to.environment+`"`) {
					t.Errorf("%s token of %s/%s for %s: %d %s", kind, from.f.namespace, from.environment, to.url, got.status, got.body)
				}
			}
		}
	}
}

// TestMetadataTokenIsExchanged: the pod receives a data token in place of a metadata token, and
// rejects the metadata token itself.
func TestMetadataTokenIsExchanged(t *testing.T) {
	f := newFixture(t, nil)
	f.createDeployment("sales", nil)
	p := f.startPod("sales-production", nil)
	f.waitForRoute("sales", "/cubejs-api")
	metadataToken := f.sign("sales-production", engine.KeyMetadata, jwt.MapClaims{"tenant": "acme", "scope": []string{"meta"}})
	if got := f.do(f.http, "GET", f.url("sales", "/cubejs-api/v1/meta"), metadataToken, nil); got.status != 200 {
		t.Fatalf("%d %s", got.status, got.body)
	}
	exchanged := p.last.Load().Header.Get("Authorization")
	claims := jwt.MapClaims{}
	if _, err := jwt.ParseWithClaims(exchanged, claims, func(*jwt.Token) (any, error) {
		return []byte(f.signingKey("sales-production", engine.KeyAPISecret)), nil
	}); err != nil {
		t.Fatal(err)
	}
	end, err := claims.GetExpirationTime()
	if err != nil || time.Until(end.Time) > time.Minute || claims["tenant"] != "acme" || exchanged == metadataToken {
		t.Errorf("claims %v, %v", claims, err)
	}
	for _, path := range []string{"/v1/meta", "/v1/load"} {
		if got := f.do(http.DefaultClient, "GET", "http://"+p.address()+"/cubejs-api"+path, metadataToken, nil); got.status != 403 {
			t.Errorf("the pod responds to %s with %d", path, got.status)
		}
	}
}

// TestRequestsAreForwarded: requests and responses are forwarded unchanged, except for hop-by-hop
// and forwarding headers.
func TestRequestsAreForwarded(t *testing.T) {
	f := newFixture(t, nil)
	f.createDeployment("sales", nil)
	p := f.startPod("sales-production", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "X-End")
		w.Header().Set("Cache-Control", "max-age=5")
		w.Header().Set("X-Own", "kept")
		w.Header().Set("Connection", "X-Hop")
		w.Header().Set("X-Hop", "gone")
		w.WriteHeader(http.StatusTeapot)
		_, _ = io.Copy(w, r.Body)
		w.Header().Set("X-End", "here")
	})
	f.waitForRoute("sales", "/cubejs-api")
	r, err := http.NewRequestWithContext(t.Context(), "PROPFIND", f.url("sales", "/cubejs-api/v1/new?a=b;c"), strings.NewReader("body"))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = http.Header{
		"Authorization": {f.dataToken("sales-production")}, "X-Request-Id": {"abc-span-1"}, "X-Forwarded-For": {"6.6.6.6"}, "Forwarded": {"for=6.6.6.6"},
		"Connection": {"X-Secret"}, "X-Secret": {"x"}, "Accept-Language": {"de", "en"}, "Traceparent": {"00-1-2-01"}, "Upgrade": {"h2c"},
	}
	response, err := f.http.Do(r)
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
		t.Errorf("response (-want +got):\n%s", diff)
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

// TestDerivedListings: entities and data sources, which the open-source server lacks, are derived
// from its metadata.
func TestDerivedListings(t *testing.T) {
	f := newFixture(t, nil)
	f.createDeployment("sales", nil)
	f.createDeployment("broken", nil)
	f.startPod("sales-production", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/cubejs-api/v1/meta" {
			t.Errorf("unexpected request for %s", r.URL)
		}
		_, _ = io.WriteString(w, `{"cubes":[{"name":"orders","title":"Orders","type":"cube","measures":[{"name":"orders.count","type":"number"}]}]}`)
	})
	f.startPod("broken-production", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = io.WriteString(w, `{"error":"Compile errors"}`)
	})
	f.waitForRoute("sales", "/cubejs-api")
	f.waitForRoute("broken", "/cubejs-api")
	const entities = `{"entities":[{"name":"orders","title":"Orders","type":"cube","measures":[{"name":"orders.count","type":"number"}],"dimensions":[],"segments":[]}]}`
	for _, tc := range []struct {
		url, token string
		status     int
		want       string
	}{
		{f.url("sales", "/cubejs-api/v1/entities"), f.metadataToken("sales-production"), 200, entities},
		{f.url("sales", "/cubejs-api/v1/entities"), f.dataToken("sales-production"), 200, entities},
		{f.url("sales", "/cubejs-api/v1/data-sources"), f.metadataToken("sales-production"), 200, `{"dataSources":[{"name":"default","type":"postgres"}]}`},
		{f.url("sales", "/cubejs-api/v1/entities"), "", 401, `{"error":"the header Authorization with a token is missing"}`},
		{f.url("broken", "/cubejs-api/v1/entities"), f.metadataToken("broken-production"), 500, `{"error":"Compile errors"}`},
	} {
		if got := f.do(f.http, "GET", tc.url, tc.token, nil); got.status != tc.status || strings.TrimSpace(got.body) != tc.want {
			t.Errorf("%s: %d %s\nwant %d %s", tc.url, got.status, got.body, tc.status, tc.want)
		}
	}
	unset := &v1alpha1.Deployment{}
	f.get("sales", unset)
	unset.Spec.Env = nil
	if err := f.kube.Update(t.Context(), unset); err != nil {
		t.Fatal(err)
	}
	f.eventually("501", func() bool {
		got := f.do(f.http, "GET", f.url("sales", "/cubejs-api/v1/data-sources"), f.metadataToken("sales-production"), nil)
		return got.status == http.StatusNotImplemented && strings.Contains(got.body, "names a data source")
	})
}

// TestLimits: the limits of rate, concurrency and body size.
func TestLimits(t *testing.T) {
	f := newFixture(t, func(c *gateway.Config) { c.RequestsPerSecond, c.Burst, c.MaxInFlight = 0.01, 3, 1 })
	f.createDeployment("sales", nil)
	f.createDeployment("other", nil)
	hold, start := make(chan struct{}), make(chan struct{})
	for _, e := range []string{"sales-production", "other-production"} {
		f.startPod(e, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/cubejs-api/v1/slow" {
				close(start)
				<-hold
			}
			_, _ = io.Copy(io.Discard, r.Body)
		})
	}
	f.waitForRoute("sales", "/cubejs-api")
	f.waitForRoute("other", "/cubejs-api")
	var codes []int
	for range 4 {
		codes = append(codes, f.do(f.http, "GET", f.url("sales", "/cubejs-api/v1/load"), f.dataToken("sales-production"), nil).status)
	}
	if diff := cmp.Diff([]int{200, 200, 200, 429}, codes); diff != "" {
		t.Errorf("codes (-want +got):\n%s", diff)
	}
	limited := f.do(f.http, "GET", f.url("sales", "/cubejs-api/v1/load"), f.dataToken("sales-production"), nil)
	if limited.header.Get("Retry-After") == "" || !strings.Contains(limited.body, "too many requests") {
		t.Errorf("%v %s", limited.header, limited.body)
	}
	slow := make(chan answer)
	go func() {
		slow <- f.do(f.http, "GET", f.url("other", "/cubejs-api/v1/slow"), f.dataToken("other-production"), nil)
	}()
	<-start
	if got := f.do(f.http, "GET", f.url("other", "/cubejs-api/v1/load"), f.dataToken("other-production"), nil); got.status != 429 {
		t.Errorf("the concurrent request is answered with %d", got.status)
	}
	close(hold)
	if got := <-slow; got.status != 200 {
		t.Errorf("the first request is answered with %d", got.status)
	}
	large := f.do(f.http, "POST", f.url("other", "/cubejs-api/v1/load"), f.dataToken("other-production"), io.LimitReader(zeros{}, 64<<20+1), "Content-Type", "x")
	if large.status != http.StatusRequestEntityTooLarge || !strings.Contains(large.body, "larger than 67108864 bytes") {
		t.Errorf("%d %s", large.status, large.body)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// TestLargeBodies: bodies up to the limit are streamed completely.
func TestLargeBodies(t *testing.T) {
	f := newFixture(t, nil)
	f.createDeployment("sales", nil)
	f.startPod("sales-production", func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		fmt.Fprintf(w, "%d %v", n, err)
	})
	f.waitForRoute("sales", "/cubejs-api")
	for _, size := range []int64{0, 1, 1 << 20, 1<<20 + 1, 64 << 20} {
		got := f.do(f.http, "POST", f.url("sales", "/cubejs-api/v1/load"), f.dataToken("sales-production"), io.LimitReader(zeros{}, size))
		if want := fmt.Sprintf("%d <nil>", size); got.status != 200 || got.body != want {
			t.Errorf("%d bytes: %d %s", size, got.status, got.body)
		}
	}
}
