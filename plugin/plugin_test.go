package plugin

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

// kubernetes is a stand-in for kube-apiserver: it answers requests that begin with a path, and 404 to
// others as kube-apiserver does for unknown groups.
func kubernetes(t *testing.T, answers map[string]string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for path, body := range answers {
			if r.URL.Path == path {
				w.Header().Set("Content-Type", "application/json")
				_, _ = w.Write([]byte(body))
				return
			}
		}
		http.Error(w, "404 page not found", http.StatusNotFound)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// runPlugin runs the plugin with an empty kubeconfig.
func runPlugin(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	t.Setenv("KUBECONFIG", t.TempDir()+"/none")
	t.Setenv("HOME", t.TempDir())
	var out, err bytes.Buffer
	code = Run(t.Context(), args, Options{Version: "v1.0.0", Stdin: strings.NewReader("body"), Stdout: &out, Stderr: &err, Now: func() time.Time { return time.Unix(0, 0) }})
	return code, out.String(), err.String()
}

func TestInvoked(t *testing.T) {
	for name, want := range map[string]string{
		"kubectl-quoin": "a b", "/usr/bin/kubectl-quoin": "a b", "kubectl-quoin.exe": "a b", "kubectl_complete-quoin": "__complete a b", "quoin": "", "kubectl": "",
	} {
		args, ok := Invoked([]string{name, "a", "b"})
		if got := strings.Join(args, " "); got != want || ok != (want != "") {
			t.Errorf("%s: %q, %v; want %q", name, got, ok, want)
		}
	}
}

// A cluster without Quoin, or with an API of another release, is one line.
func TestWithoutQuoin(t *testing.T) {
	url := kubernetes(t, map[string]string{"/version": `{"gitVersion":"v1.36.0"}`})
	for _, args := range [][]string{{"status"}, {"get", "-A"}, {"why", "sales"}, {"versions"}, {"pin", "sales", "1.2.3"}, {"users"}, {"promote", "1.2.3", "--channel", "x"}, {"psql", "sales"}} {
		code, stdout, stderr := runPlugin(t, append(args, "-s", url)...)
		if code != exitFailed || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, "Quoin is not installed, or of a release that does not match this plugin (v1.0.0)") {
			t.Errorf("%v: %d, %q, %q", args, code, stdout, stderr)
		}
	}
}

// The status of a cluster with the CRDs of an earlier release names the kinds that it lacks, and has the others.
func TestStatusWithoutANewerKind(t *testing.T) {
	const group = "/apis/platform.quoin.dev/v1alpha1/"
	answers := map[string]string{
		"/version": `{"gitVersion":"v1.36.0"}`,
		"/apis/apps/v1/namespaces/quoin-system/deployments": `{"items":[]}`,
	}
	for _, kind := range v1alpha1.Kinds {
		answers[group+kind.Plural] = `{"items":[]}`
	}
	answers[group+"accounts"] = `{"items":[{"metadata":{"name":"acme"}}]}`
	delete(answers, group+"agents")
	url := kubernetes(t, answers)
	code, stdout, stderr := runPlugin(t, "status", "-s", url)
	if code != exitDone || !strings.Contains(stdout, "\nThe CRDs are of an earlier release than this plugin, and lack: agents\n") || !strings.Contains(stdout, "NotReported: 1") {
		t.Errorf("%d, %q, %q", code, stdout, stderr)
	}
	if code, stdout, stderr = runPlugin(t, "status", "-s", url, "-o", "json"); code != exitDone || !strings.Contains(stdout, `"missing": [`) {
		t.Errorf("%d, %q, %q", code, stdout, stderr)
	}
}

// A deployment is behind if another version of its channel is due, as for the metric.
func TestDeploymentsThatAreBehind(t *testing.T) {
	c := &v1alpha1.ReleaseChannel{ObjectMeta: metav1.ObjectMeta{Name: "stable"}}
	for _, v := range []string{"2.0.0", "1.2.4", "1.2.3"} {
		c.Status.Versions = append(c.Status.Versions, v1alpha1.ChannelVersion{Version: v, Image: "cube:v" + v})
	}
	c.Status.LatestVersion = "2.0.0"
	c.Status.Rollouts = []v1alpha1.VersionRollout{{Version: "1.2.4", State: v1alpha1.VersionStopped}}
	for name, test := range map[string]struct {
		version string
		spec    v1alpha1.DeploymentSpec
		behind  int
	}{
		"follows":                {"1.2.3", v1alpha1.DeploymentSpec{}, 1},
		"newest":                 {"2.0.0", v1alpha1.DeploymentSpec{}, 0},
		"first install":          {"", v1alpha1.DeploymentSpec{}, 0},
		"pinned":                 {"1.2.3", v1alpha1.DeploymentSpec{ReleaseChannelVersion: "1.2.3"}, 0},
		"held":                   {"1.2.3", v1alpha1.DeploymentSpec{Hold: ptr.To(true)}, 0},
		"suspended":              {"1.2.3", v1alpha1.DeploymentSpec{Suspend: ptr.To(true)}, 0},
		"patch, next is stopped": {"1.2.3", v1alpha1.DeploymentSpec{UpgradePolicy: v1alpha1.UpgradePatch}, 0},
		"patch, runs stopped":    {"1.2.4", v1alpha1.DeploymentSpec{UpgradePolicy: v1alpha1.UpgradePatch}, 0},
	} {
		d := v1alpha1.Deployment{Spec: test.spec}
		d.Spec.ReleaseChannel = "stable"
		if test.version != "" {
			d.Status.CurrentVersion = test.version
			d.Status.History = []v1alpha1.VersionRun{{Version: test.version, ReleaseChannel: "stable", Image: "cube:v" + test.version}}
		}
		if sum := summarize(c, []v1alpha1.Deployment{d}); sum.Deployments != 1 || sum.Behind != test.behind {
			t.Errorf("%s: %d of %d are behind, want %d", name, sum.Behind, sum.Deployments, test.behind)
		}
	}
}

// An address that is not that of Kubernetes is one line.
func TestNotKubernetes(t *testing.T) {
	url := kubernetes(t, map[string]string{"/version": `<html>`})
	if code, _, stderr := runPlugin(t, "status", "-s", url); code != exitFailed || !strings.Contains(stderr, "does not answer as a Kubernetes API server") {
		t.Errorf("%d, %q", code, stderr)
	}
}

// The aggregated API is called below the account of the namespace.
func TestCurlThroughTheAggregatedAPI(t *testing.T) {
	url := kubernetes(t, map[string]string{
		"/apis/platform.quoin.dev/v1alpha1/accounts":                                   `{"items":[{"metadata":{"name":"acme"},"spec":{"namespace":"demo"}}]}`,
		"/apis/api.platform.quoin.dev/v1/accounts/acme/proxy/api/v1/users/me":          `{"id":1}`,
		"/apis/api.platform.quoin.dev/v1/accounts/other/proxy/api/v1/users/me":         `{"id":2}`,
		"/apis/api.platform.quoin.dev/v1/accounts/acme/proxy/api/v1/audit-logs/export": "",
	})
	for _, c := range []struct{ args, want string }{{"-n demo", "{\"id\":1}\n"}, {"-n demo --account other", "{\"id\":2}\n"}} {
		args := append([]string{"curl", "/api/v1/users/me", "-s", url}, strings.Fields(c.args)...)
		if code, stdout, stderr := runPlugin(t, args...); code != exitDone || stdout != c.want {
			t.Errorf("%s: %d, %q, %q", c.args, code, stdout, stderr)
		}
	}
	if code, _, stderr := runPlugin(t, "curl", "/api/v1/users/me", "-s", url, "-n", "elsewhere"); code != exitFailed || !strings.Contains(stderr, `no Account has the namespace "elsewhere"`) {
		t.Errorf("%d, %q", code, stderr)
	}
	if code, _, stderr := runPlugin(t, "audit", "-s", url, "-n", "demo"); code != exitFailed || !strings.Contains(stderr, "the export of the audit log has no header") {
		t.Errorf("%d, %q", code, stderr)
	}
}

// A change that conflicts with another one begins from the object as the other has written it: here from a list whose
// first version, with its digest, was removed.
func TestConflictingChange(t *testing.T) {
	for _, refused := range []string{`"reason":"Conflict","code":409`, `"reason":"Invalid","code":422`} {
		t.Run(refused, func(t *testing.T) { testConflictingChange(t, refused) })
	}
}

func testConflictingChange(t *testing.T, refused string) {
	t.Helper()
	const path = "/apis/platform.quoin.dev/v1alpha1/releasechannels"
	channel := func(resourceVersion, versions string) string {
		return `{"metadata":{"name":"stable","resourceVersion":"` + resourceVersion + `"},"spec":{"imageRepository":"r.example.com/cube","versions":[` + versions + `]}}`
	}
	before := channel("1", `{"version":"1.2.3","digest":"sha256:3"},{"version":"1.2.4"}`)
	after := channel("2", `{"version":"1.2.4"}`)
	var patches []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.Method == http.MethodPatch && len(patches) == 0:
			patches = append(patches, "conflict")
			w.WriteHeader(http.StatusConflict)
			_, _ = io.WriteString(w, `{"apiVersion":"v1","kind":"Status","status":"Failure",`+refused+`}`)
		case r.Method == http.MethodPatch:
			patch, _ := io.ReadAll(r.Body)
			patches = append(patches, string(patch))
			_, _ = io.WriteString(w, after)
		case r.URL.Path == path:
			_, _ = io.WriteString(w, `{"items":[`+before+`]}`)
		case r.URL.Path == path+"/stable" && len(patches) == 0:
			_, _ = io.WriteString(w, before)
		case r.URL.Path == path+"/stable":
			_, _ = io.WriteString(w, after)
		default:
			_, _ = io.WriteString(w, `{"items":[]}`)
		}
	}))
	t.Cleanup(server.Close)
	code, stdout, stderr := runPlugin(t, "promote", "1.2.5", "--channel", "stable", "-s", server.URL)
	if code != exitDone || len(patches) != 2 {
		t.Fatalf("%d, %q, %q, %v", code, stdout, stderr, patches)
	}
	const want = `[{"op":"replace","path":"/metadata/resourceVersion","value":"2"},{"op":"add","path":"/spec/versions/1","value":{"version":"1.2.5"}}]`
	if patches[1] != want {
		t.Errorf("the second patch is\n%s, want\n%s", patches[1], want)
	}
}

// Invalid values are refused before any request.
func TestInvalidUsage(t *testing.T) {
	for args, want := range map[string]string{
		"curl api/v1/x":                          "must begin with a slash",
		"curl /x -X TRACE":                       `--request is "TRACE"`,
		"curl /x --url https://demo.example.com": "--url needs an API key in $QUOIN_API_KEY",
		"curl /x -d @/does/not/exist":            "no such file",
		"get -w":                                 "need the name of a deployment",
		"get sales -w --timeout 1m":              "--timeout needs --wait",
		"get sales --timeout 1m":                 "--timeout needs --wait",
		"get sales --wait --timeout -1m":         "--timeout is -1m0s, must not be negative",
		"audit --limit -5":                       "--limit is -5, must not be negative",
		"export workbok sales":                   `unknown command "workbok"`,
		"promote 1.2.3":                          `required flag(s) "channel" not set`,
		"promote one --channel x":                `"one" is not a version such as 1.2.3`,
		"psql sales -- -c 1":                     "arguments of psql need --exec",
		"token sales --security-context []":      "--security-context must be a JSON object",
		"status -o wide":                         "must be one of table, json, yaml",
		"keys create ci --expires -1h":           "--expires is -1h0m0s, must not be negative",
		"keys create ci -o wide":                 "must be one of table, json, yaml",
	} {
		t.Setenv("QUOIN_API_KEY", "")
		code, stdout, stderr := runPlugin(t, append(strings.Fields(args), "-s", "https://127.0.0.1:1")...)
		if code == exitDone || stdout != "" || !strings.Contains(stderr, want) || strings.Count(stderr, "\n") > 2 {
			t.Errorf("%s: %d, %q, %q; want %q", args, code, stdout, stderr, want)
		}
	}
}

// The gateway serves SQL of production only: the address of another environment is that of production.
func TestPsqlOfStaging(t *testing.T) {
	const namespace = "/apis/platform.quoin.dev/v1alpha1/namespaces/demo"
	environment := func(kind string) string {
		return `{"metadata":{"name":"x","namespace":"demo"},"spec":{"type":"` + kind + `","deploymentRef":{"name":"sales"}},` +
			`"status":{"credentialsSecret":"x-credentials","apiCredentials":{"rest":{"url":"https://x"},"sql":{"host":"sales.sql.example.com","port":5432}}}}`
	}
	url := kubernetes(t, map[string]string{
		namespace + "/deployments/sales":             `{"metadata":{"name":"sales","namespace":"demo"}}`,
		namespace + "/environments/sales-production": environment("production"),
		namespace + "/environments/sales-stg":        environment("staging"),
	})
	if code, stdout, stderr := runPlugin(t, "psql", "sales", "-n", "demo", "-s", url); code != exitDone || !strings.Contains(stdout, "host=sales.sql.example.com port=5432") {
		t.Errorf("production: %d, %q, %q", code, stdout, stderr)
	}
	if code, stdout, stderr := runPlugin(t, "psql", "sales", "-n", "demo", "--environment", "sales-stg", "-s", url); code != exitFailed || stdout != "" || !strings.Contains(stderr, "use --exec") {
		t.Errorf("staging: %d, %q, %q", code, stdout, stderr)
	}
}

// Every command has help with an example, and it needs no cluster.
func TestHelpHasExamples(t *testing.T) {
	for _, c := range newRoot(&session{Options: Options{Now: time.Now}}).Commands() {
		code, stdout, stderr := runPlugin(t, c.Name(), "-h")
		if code != exitDone || stderr != "" || !strings.Contains(stdout, "Usage:\n  kubectl quoin "+c.Name()) {
			t.Errorf("%s: %d, %q, %q", c.Name(), code, stdout, stderr)
		}
		if !c.HasSubCommands() && !strings.Contains(stdout, "Examples:") {
			t.Errorf("%s: no examples", c.Name())
		}
	}
}

// A limit keeps the newest events.
func TestAuditEvents(t *testing.T) {
	events, err := auditEvents([]byte("time,event,ip\n3,c,\n1,a,\n2,\"b\nb\",10.0.0.1\n"), 2)
	got, _ := json.Marshal(events)
	if err != nil || string(got) != `[{"event":"b\nb","ip":"10.0.0.1","time":"2"},{"event":"c","time":"3"}]` {
		t.Errorf("%s, %v", got, err)
	}
}

// A response that is larger than the limit is an error, not its beginning.
func TestLargeResponse(t *testing.T) {
	const limit = 1 << 20
	for size, want := range map[int]string{limit: "", limit + 1: "it is larger than 1 MiB"} {
		body, err := readAll(strings.NewReader(strings.Repeat("x", size)), limit)
		if want == "" && (err != nil || len(body) != size) || want != "" && (err == nil || body != nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%d bytes: %d bytes, %v; want %q", size, len(body), err, want)
		}
	}
}
