package plugin

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/quoin-dev/quoin/plugin/bundle/bundletest"
)

// An archive has the logs of Quoin even if there are more logs of accounts than the limit, and names the limit.
func TestBundleLimitsLogs(t *testing.T) {
	const pod = `{"metadata":{"name":%q,"namespace":%q},"status":{"containerStatuses":[%s]}}`
	var containers []string
	for i := range maxLogs + 1 {
		containers = append(containers, fmt.Sprintf(`{"name":"c%d"}`, i))
	}
	url := kubernetes(t, map[string]string{
		"/version":                                         `{"gitVersion":"v1.36.0"}`,
		"/api/v1/namespaces/demo/pods":                     `{"items":[` + fmt.Sprintf(pod, "many", "demo", strings.Join(containers, ",")) + `]}`,
		"/api/v1/namespaces/demo/pods/many/log":            "a line\n",
		"/api/v1/namespaces/quoin-system/pods":             `{"items":[` + fmt.Sprintf(pod, "gateway", "quoin-system", `{"name":"quoin"}`) + `]}`,
		"/api/v1/namespaces/quoin-system/pods/gateway/log": "the log of Quoin\n",
	})
	code, stdout, stderr := runPlugin(t, "bundle", "-n", "demo", "-f", "-", "-s", url)
	if code != exitDone {
		t.Fatalf("%d, %q", code, stderr)
	}
	files, err := bundletest.Files(strings.NewReader(stdout))
	if err != nil {
		t.Fatal(err)
	}
	const root = "quoin-bundle-19700101T000000Z/"
	if text := files[root+"namespaces/quoin-system/logs/gateway/quoin.log"]; text != "the log of Quoin\n" {
		t.Errorf("the log of Quoin is %q", text)
	}
	if text := files[root+"problems.txt"]; !strings.Contains(text, "logs: only the first 200\n") {
		t.Errorf("problems.txt does not name the limit:\n%s", text)
	}
}

// An archive hides the values of all Secrets of a namespace, also of those that the API server returns in a further page.
func TestBundleHidesAllSecrets(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.URL.Path == "/version":
			_, _ = io.WriteString(w, `{"gitVersion":"v1.36.0"}`)
		case r.URL.Path == "/api/v1/namespaces/demo/secrets" && r.URL.Query().Get("continue") == "":
			_, _ = io.WriteString(w, `{"metadata":{"continue":"next"},"items":[{"data":{"key":"Zmlyc3QtdmFsdWU="}}]}`)
		case r.URL.Path == "/api/v1/namespaces/demo/secrets":
			_, _ = io.WriteString(w, `{"items":[{"data":{"key":"c2Vjb25kLXZhbHVl"}}]}`)
		case r.URL.Path == "/api/v1/namespaces/demo/events":
			_, _ = io.WriteString(w, `{"items":[{"metadata":{"name":"e"},"message":"it rejects first-value and second-value"}]}`)
		default:
			_, _ = io.WriteString(w, `{"items":[]}`)
		}
	}))
	t.Cleanup(server.Close)
	code, stdout, stderr := runPlugin(t, "bundle", "-n", "demo", "-f", "-", "-s", server.URL)
	if code != exitDone {
		t.Fatalf("%d, %q", code, stderr)
	}
	files, err := bundletest.Files(strings.NewReader(stdout))
	if err != nil {
		t.Fatal(err)
	}
	const want = "it rejects [HIDDEN] and [HIDDEN]"
	if events := files["quoin-bundle-19700101T000000Z/namespaces/demo/events.yaml"]; !strings.Contains(events, want) {
		t.Errorf("the events do not have %q:\n%s", want, events)
	}
}

// An archive has each file once: of the namespace of Quoin, which is always in it, and of one that two accounts name.
func TestBundleHasEachFileOnce(t *testing.T) {
	const pods = `{"items":[{"metadata":{"name":"one"}}]}`
	url := kubernetes(t, map[string]string{
		"/version": `{"gitVersion":"v1.36.0"}`,
		"/apis/platform.quoin.dev/v1alpha1/accounts": `{"items":[{"metadata":{"name":"a"},"spec":{"namespace":"demo"}},{"metadata":{"name":"b"},"spec":{"namespace":"demo"}}]}`,
		"/api/v1/namespaces/demo/pods":               pods,
		"/api/v1/namespaces/quoin-system/pods":       pods,
	})
	for _, selected := range []string{"-nquoin-system", "-A"} {
		code, stdout, stderr := runPlugin(t, "bundle", selected, "-f", "-", "-s", url)
		if code != exitDone {
			t.Fatalf("%s: %d, %q", selected, code, stderr)
		}
		files, err := bundletest.Files(strings.NewReader(stdout))
		if err != nil {
			t.Errorf("%s: %v", selected, err)
			continue
		}
		if _, found := files["quoin-bundle-19700101T000000Z/namespaces/quoin-system/pods.yaml"]; !found {
			t.Errorf("%s: the pods of Quoin are missing", selected)
		}
	}
}
