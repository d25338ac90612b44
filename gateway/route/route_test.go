package route_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/gateway/route"
	"github.com/quoin-dev/quoin/internal/engine"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func meta(namespace, name string, age int) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(namespace + "/" + name), CreationTimestamp: metav1.NewTime(epoch.Add(-time.Duration(age) * time.Hour))}
}

func account(name string, age int, change func(*v1alpha1.Account)) v1alpha1.Account {
	a := v1alpha1.Account{ObjectMeta: meta("", name, age)}
	a.Spec.Host, a.Spec.Namespace = v1alpha1.Host(name+".example.com"), name
	if change != nil {
		change(&a)
	}
	return a
}

func deployment(namespace, name string, age int, api *v1alpha1.DataAPI) v1alpha1.Deployment {
	return v1alpha1.Deployment{ObjectMeta: meta(namespace, name, age), Spec: v1alpha1.DeploymentSpec{DataAPI: api}}
}

// holding returns a deployment that holds a domain.
func holding(d v1alpha1.Deployment, domain string) v1alpha1.Deployment {
	d.Status.CustomDomain = domain
	return d
}

func environment(namespace, name, of string, kind v1alpha1.EnvironmentType, branch string) v1alpha1.Environment {
	e := v1alpha1.Environment{ObjectMeta: meta(namespace, name, 1)}
	e.Spec.DeploymentRef.Name, e.Spec.Type = of, kind
	if branch != "" {
		e.Spec.BranchRef = &v1alpha1.LocalReference{Name: branch}
	}
	return e
}

func branch(namespace, object, of, name string) v1alpha1.Branch {
	b := v1alpha1.Branch{ObjectMeta: meta(namespace, object, 1)}
	b.Spec.DeploymentRef.Name, b.Spec.Name = of, name
	return b
}

// objects returns two tenants with a deployment of the same name each, and others that claim the
// namespace or hosts of another tenant.
func objects() route.Objects {
	const production, staging, development = v1alpha1.EnvironmentProduction, v1alpha1.EnvironmentStaging, v1alpha1.EnvironmentDevelopment
	return route.Objects{
		Accounts: []v1alpha1.Account{
			account("acme", 10, nil),
			account("beta", 20, func(a *v1alpha1.Account) { a.Spec.DataDomain = "bi.example.org:8443" }),
			account("thief", 5, func(a *v1alpha1.Account) { a.Spec.Namespace = "acme" }),
			account("late", 1, func(a *v1alpha1.Account) { a.Spec.DataDomain = "data.acme.example.com" }),
		},
		Deployments: []v1alpha1.Deployment{
			deployment("acme", "sales", 5, nil),
			holding(deployment("acme", "custom", 4, &v1alpha1.DataAPI{CustomDomain: "metrics.acme.com:8443", BasePath: "/a/b"}), "metrics.acme.com"),
			deployment("acme", "odd", 4, &v1alpha1.DataAPI{BasePath: "/dev-mode"}),
			holding(deployment("beta", "sales", 30, &v1alpha1.DataAPI{CustomDomain: "sales.data.acme.example.com"}), "sales.data.acme.example.com"),
			deployment("beta", "taker", 99, &v1alpha1.DataAPI{CustomDomain: "metrics.acme.com"}),
			holding(deployment("beta", "former", 99, &v1alpha1.DataAPI{CustomDomain: "other.acme.com"}), "metrics.acme.com"),
			holding(deployment("beta", "squatter", 99, &v1alpha1.DataAPI{CustomDomain: "new.data.acme.example.com"}), "new.data.acme.example.com"),
			holding(deployment("beta", "restored", 99, &v1alpha1.DataAPI{CustomDomain: "twice.acme.com"}), "twice.acme.com"),
			holding(deployment("acme", "restored", 1, &v1alpha1.DataAPI{CustomDomain: "twice.acme.com"}), "twice.acme.com"),
			deployment("late", "sales", 1, nil),
			deployment("late", "own", 1, nil),
			deployment("nobody", "sales", 99, nil),
			deployment("acme", "empty", 1, nil),
		},
		Environments: []v1alpha1.Environment{
			environment("acme", "sales-production", "sales", production, ""),
			environment("acme", "sales-stg", "sales", staging, "sales-feature"),
			environment("acme", "sales-dev", "sales", development, "sales-dev-ann"),
			environment("acme", "sales-dev-2", "sales", development, "sales-feature"),
			environment("acme", "custom-production", "custom", production, ""),
			environment("acme", "odd-production", "odd", production, ""),
			environment("acme", "odd-stg", "odd", staging, "odd-x"),
			environment("acme", "another-name", "empty", production, ""),
			environment("acme", "sales-stray", "sales", staging, "odd-x"),
			environment("beta", "sales-production", "sales", production, ""),
			environment("beta", "taker-production", "taker", production, ""),
			environment("beta", "squatter-production", "squatter", production, ""),
			environment("late", "sales-production", "sales", production, ""),
			environment("late", "own-production", "own", production, ""),
			environment("nobody", "sales-production", "sales", production, ""),
		},
		Branches: []v1alpha1.Branch{
			branch("acme", "sales-feature", "sales", "feature/ä b"),
			branch("acme", "sales-dev-ann", "sales", "dev-ann"),
			branch("acme", "odd-x", "odd", "x"),
			branch("beta", "sales-secret", "sales", "secret"),
		},
	}
}

type httpCase struct {
	host, path, want string
	rest             string
	webSocket        bool
	err              error
}

func testHTTP(t *testing.T, cases map[string]httpCase) {
	t.Helper()
	table := route.NewTable(objects())
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			target, err := table.HTTP(tc.host, tc.path, tc.webSocket)
			if !errors.Is(err, tc.err) {
				t.Fatalf("error %v, want %v", err, tc.err)
			}
			if err != nil {
				return
			}
			if got := target.Namespace + "/" + target.Name + " " + target.Path; got != tc.want || target.Rest != tc.rest {
				t.Errorf("%s and %q, want %s and %q", got, target.Rest, tc.want, tc.rest)
			}
		})
	}
}

func TestHTTPBelowTheBasePath(t *testing.T) {
	testHTTP(t, map[string]httpCase{
		"production":          {host: "sales.data.acme.example.com", path: "/cubejs-api/v1/load", want: "acme/sales-production /cubejs-api/v1/load", rest: "/v1/load"},
		"with a port":         {host: "sales.data.acme.example.com:8443", path: "/cubejs-api/v1/load", want: "acme/sales-production /cubejs-api/v1/load", rest: "/v1/load"},
		"upper case, dot":     {host: "SALES.data.Acme.example.com.", path: "/cubejs-api/v1/load", want: "acme/sales-production /cubejs-api/v1/load", rest: "/v1/load"},
		"base path alone":     {host: "sales.data.acme.example.com", path: "/cubejs-api", want: "acme/sales-production /cubejs-api"},
		"base path and slash": {host: "sales.data.acme.example.com", path: "/cubejs-api/", want: "acme/sales-production /cubejs-api/", rest: "/"},
		"encoding stays":      {host: "sales.data.acme.example.com", path: "/cubejs-api/v1/x%2Fy//%41", want: "acme/sales-production /cubejs-api/v1/x%2Fy//%41", rest: "/v1/x%2Fy//%41"},
		"longer segment":      {host: "sales.data.acme.example.com", path: "/cubejs-apis/v1/load", err: route.ErrPath},
		"health":              {host: "sales.data.acme.example.com", path: "/readyz", err: route.ErrPath},
		"system":              {host: "sales.data.acme.example.com", path: "/cubejs-system/v1/context", err: route.ErrPath},
		"parent segment":      {host: "sales.data.acme.example.com", path: "/cubejs-api/../readyz", err: route.ErrPath},
		"parent, encoded":     {host: "sales.data.acme.example.com", path: "/cubejs-api/%2e%2E/readyz", err: route.ErrPath},
		"parent, backslash":   {host: "sales.data.acme.example.com", path: "/cubejs-api/..%5Creadyz", err: route.ErrPath},
		"other dots":          {host: "sales.data.acme.example.com", path: "/cubejs-api/v1/..a", want: "acme/sales-production /cubejs-api/v1/..a", rest: "/v1/..a"},
	})
}

func TestHTTPBranches(t *testing.T) {
	testHTTP(t, map[string]httpCase{
		"branch":                {host: "sales.data.acme.example.com", path: "/dev-mode/feature%2F%C3%A4%20b/cubejs-api/v1/meta", want: "acme/sales-stg /cubejs-api/v1/meta", rest: "/v1/meta"},
		"escapes in lower case": {host: "sales.data.acme.example.com", path: "/dev-mode/feature%2f%c3%a4%20b/cubejs-api/v1/meta", want: "acme/sales-stg /cubejs-api/v1/meta", rest: "/v1/meta"},
		"personal branch":       {host: "sales.data.acme.example.com", path: "/dev-mode/dev-ann/cubejs-api/v1/meta", want: "acme/sales-dev /cubejs-api/v1/meta", rest: "/v1/meta"},
		"branch not escaped":    {host: "sales.data.acme.example.com", path: "/dev-mode/feature/a/cubejs-api/v1/meta", err: route.ErrBranch},
		"without the base path": {host: "sales.data.acme.example.com", path: "/dev-mode/dev-ann/v1/meta", err: route.ErrPath},
		"unknown branch":        {host: "sales.data.acme.example.com", path: "/dev-mode/x/cubejs-api/v1/meta", err: route.ErrBranch},
		"other tenant's branch": {host: "sales.data.acme.example.com", path: "/dev-mode/secret/cubejs-api/v1/meta", err: route.ErrBranch},
		"other deployment's":    {host: "sales.data.acme.example.com", path: "/dev-mode/odd/cubejs-api/v1/meta", err: route.ErrBranch},
		"malformed escape":      {host: "sales.data.acme.example.com", path: "/dev-mode/%zz/cubejs-api", err: route.ErrBranch},
		"empty branch":          {host: "sales.data.acme.example.com", path: "/dev-mode//cubejs-api", err: route.ErrBranch},
		"base path of dev-mode": {host: "odd.data.acme.example.com", path: "/dev-mode/v1/load", want: "acme/odd-production /cubejs-api/v1/load", rest: "/v1/load"},
		"dev-mode of dev-mode":  {host: "odd.data.acme.example.com", path: "/dev-mode/x/dev-mode/v1/load", want: "acme/odd-stg /cubejs-api/v1/load", rest: "/v1/load"},
		"no production":         {host: "empty.data.acme.example.com", path: "/cubejs-api/v1/load", err: route.ErrEnvironment},
	})
}

func TestHTTPHosts(t *testing.T) {
	testHTTP(t, map[string]httpCase{
		"custom domain":             {host: "metrics.acme.com", path: "/a/b/v1/load", want: "acme/custom-production /cubejs-api/v1/load", rest: "/v1/load"},
		"first host also works":     {host: "custom.data.acme.example.com", path: "/a/b/v1/load", want: "acme/custom-production /cubejs-api/v1/load", rest: "/v1/load"},
		"default base path":         {host: "metrics.acme.com", path: "/cubejs-api/v1/load", err: route.ErrPath},
		"data domain":               {host: "sales.bi.example.org", path: "/cubejs-api/v1/load", want: "beta/sales-production /cubejs-api/v1/load", rest: "/v1/load"},
		"held twice":                {host: "twice.acme.com", path: "/cubejs-api/v1/load", err: route.ErrHost},
		"requested, not held":       {host: "other.acme.com", path: "/cubejs-api/v1/load", err: route.ErrHost},
		"squatter's host":           {host: "new.data.acme.example.com", path: "/cubejs-api/v1/load", err: route.ErrHost},
		"nested data domains":       {host: "own.data.acme.example.com", path: "/cubejs-api/v1/load", want: "late/own-production /cubejs-api/v1/load", rest: "/v1/load"},
		"no deployment":             {host: "other.data.acme.example.com", path: "/cubejs-api/v1/load", err: route.ErrHost},
		"only the domain":           {host: "data.acme.example.com", path: "/cubejs-api/v1/load", err: route.ErrHost},
		"tenant host":               {host: "acme.example.com", path: "/cubejs-api/v1/load", err: route.ErrHost},
		"SQL host":                  {host: "sales.sql.data.acme.example.com", path: "/cubejs-api/v1/load", err: route.ErrHost},
		"namespace without account": {host: "sales.data.nobody.example.com", path: "/cubejs-api/v1/load", err: route.ErrHost},
		"namespace of another":      {host: "sales.data.thief.example.com", path: "/cubejs-api/v1/load", err: route.ErrHost},
		"no host":                   {host: "", path: "/cubejs-api/v1/load", err: route.ErrHost},
	})
}

func TestHTTPWebSockets(t *testing.T) {
	testHTTP(t, map[string]httpCase{
		"WebSocket at the root":    {host: "sales.data.acme.example.com", path: "/", webSocket: true, want: "acme/sales-production /"},
		"WebSocket of a branch":    {host: "sales.data.acme.example.com", path: "/dev-mode/dev-ann", webSocket: true, want: "acme/sales-dev /"},
		"WebSocket at base path":   {host: "sales.data.acme.example.com", path: "/cubejs-api/", webSocket: true, want: "acme/sales-production /cubejs-api/", rest: "/"},
		"WebSocket elsewhere":      {host: "sales.data.acme.example.com", path: "/livez", webSocket: true, err: route.ErrPath},
		"no WebSocket at the root": {host: "sales.data.acme.example.com", path: "/", err: route.ErrPath},
	})
}

func TestSQL(t *testing.T) {
	table := route.NewTable(objects())
	for host, want := range map[string]string{
		"sales.sql.data.acme.example.com": "acme/sales-production",
		"SALES.sql.data.acme.example.com": "acme/sales-production",
		"metrics.acme.com":                "acme/custom-production",
		"sales.sql.bi.example.org":        "beta/sales-production",
		"sales.data.acme.example.com":     "",
		"empty.sql.data.acme.example.com": "",
		"new.data.acme.example.com":       "",
		"":                                "",
	} {
		e, err := table.SQL(host)
		if got := e.Namespace + "/" + e.Name; err == nil && got != want || err != nil && want != "" {
			t.Errorf("%q: %s, %v; want %s", host, got, err, want)
		}
	}
}

// TestAddressesAreServed: the gateway serves the addresses in the status of environments.
func TestAddressesAreServed(t *testing.T) {
	objects := objects()
	table := route.NewTable(objects)
	accounts := map[string]*v1alpha1.Account{"acme": &objects.Accounts[0]}
	names := map[string]string{}
	for _, b := range objects.Branches {
		names[b.Namespace+"/"+b.Name] = b.Spec.Name
	}
	deployments := map[string]*v1alpha1.Deployment{}
	for i := range objects.Deployments {
		deployments[objects.Deployments[i].Namespace+"/"+objects.Deployments[i].Name] = &objects.Deployments[i]
	}
	for i := range objects.Environments {
		e := &objects.Environments[i]
		if accounts[e.Namespace] == nil || strings.HasSuffix(e.Name, "-2") || e.Name == "sales-stray" || e.Name == "another-name" {
			continue
		}
		gitBranch := ""
		if e.Spec.BranchRef != nil {
			gitBranch = names[e.Namespace+"/"+e.Spec.BranchRef.Name]
		}
		address := engine.Addresses(accounts[e.Namespace], deployments[e.Namespace+"/"+e.Spec.DeploymentRef.Name], e, gitBranch, 5432)
		host, path, _ := strings.Cut(strings.TrimPrefix(address.REST.URL, "https://"), "/")
		target, err := table.HTTP(host, "/"+path+"/v1/load", false)
		if err != nil || target.Name != e.Name || target.Path != "/cubejs-api/v1/load" {
			t.Errorf("%s is routed to %q %s, %v; want %q", address.REST.URL, target.Name, target.Path, err, e.Name)
		}
	}
}

// TestEnvironments: the environments are those of deployments that are served, also without a route of their own.
func TestEnvironments(t *testing.T) {
	table := route.NewTable(objects())
	for name, want := range map[types.NamespacedName]bool{
		{Namespace: "acme", Name: "sales-production"}:   true,
		{Namespace: "acme", Name: "sales-dev-2"}:        true,
		{Namespace: "nobody", Name: "sales-production"}: false,
		{Namespace: "acme", Name: "sales"}:              false,
	} {
		if got := table.HasEnvironment(name); got != want {
			t.Errorf("%s: %t, want %t", name, got, want)
		}
	}
}

// FuzzHTTP: every target is below the server's base path, except for the root of a WebSocket.
func FuzzHTTP(f *testing.F) {
	for _, seed := range []string{"/cubejs-api/v1/load", "/dev-mode/dev-ann/cubejs-api/../../readyz", "/cubejs-api/%2e%2e%2freadyz", "/"} {
		f.Add("sales.data.acme.example.com", seed, true)
	}
	table := route.NewTable(objects())
	f.Fuzz(func(t *testing.T, host, path string, webSocket bool) {
		target, err := table.HTTP(host, path, webSocket)
		if err != nil {
			return
		}
		if !strings.HasPrefix(target.Path, engine.BasePath) && (!webSocket || target.Path != "/") {
			t.Errorf("%q is routed to %q", path, target.Path)
		}
		if strings.Contains(target.Path, "/../") {
			t.Errorf("%q leaves the base path: %q", path, target.Path)
		}
	})
}

func BenchmarkHTTP(b *testing.B) {
	table := route.NewTable(objects())
	b.ReportAllocs()
	for b.Loop() {
		if _, err := table.HTTP("sales.data.acme.example.com:8443", "/cubejs-api/v1/load", false); err != nil {
			b.Fatal(err)
		}
	}
}
