package plugin

import (
	"fmt"
	"strings"
	"testing"

	"github.com/quoin-dev/quoin/plugin/bundle/bundletest"
)

// An archive has the logs of Quoin even if there are more logs of accounts than the limit, and names the limit.
func TestBundleLimitsLogs(t *testing.T) {
	const pod = `{"metadata":{"name":%q,"namespace":%q},"status":{"containerStatuses":[%s]}}`
	containers := strings.TrimSuffix(strings.Repeat(`{"name":"c"},`, maxLogs+1), ",")
	url := kubernetes(t, map[string]string{
		"/version":                                         `{"gitVersion":"v1.36.0"}`,
		"/api/v1/namespaces/demo/pods":                     `{"items":[` + fmt.Sprintf(pod, "many", "demo", containers) + `]}`,
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
