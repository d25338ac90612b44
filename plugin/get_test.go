package plugin

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// A watch continues after the API server has been unavailable, and its screens in YAML are documents.
func TestWaitWhileUnavailable(t *testing.T) {
	const path = "/apis/platform.quoin.dev/v1alpha1/namespaces/demo/deployments"
	object := func(ready, reason string) string {
		return `{"apiVersion":"platform.quoin.dev/v1alpha1","kind":"Deployment","metadata":{"name":"sales","namespace":"demo","generation":1},` +
			`"spec":{"releaseChannel":"stable"},"status":{"conditions":[{"type":"Ready","status":"` + ready + `","reason":"` + reason + `","observedGeneration":1}]}}`
	}
	var reads atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.URL.Path == path && r.URL.Query().Has("watch"):
			for r.Context().Err() == nil { // changes, so that the test does not wait for the longest pause
				fmt.Fprintf(w, `{"type":"MODIFIED","object":%s}`+"\n", object("Unknown", "RollingOut"))
				_ = http.NewResponseController(w).Flush()
				time.Sleep(50 * time.Millisecond)
			}
		case r.URL.Path != path+"/sales":
			_, _ = io.WriteString(w, `{"items":[]}`)
		case reads.Add(1) == 1:
			_, _ = io.WriteString(w, object("Unknown", "RollingOut"))
		case reads.Load() < 4:
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, `{"apiVersion":"v1","kind":"Status","status":"Failure","reason":"ServiceUnavailable","message":"restarting","code":503}`)
		default:
			_, _ = io.WriteString(w, object("True", "Succeeded"))
		}
	}))
	t.Cleanup(server.Close)
	code, stdout, stderr := runPlugin(t, "get", "sales", "-n", "demo", "--wait", "-o", "yaml", "-s", server.URL)
	if code != exitDone || strings.Count(stderr, "\n") != 1 || !strings.HasSuffix(stderr, "; trying again\n") {
		t.Errorf("%d, %q, %q", code, stdout, stderr)
	}
	before, after, found := strings.Cut(stdout, "\n---\n")
	if !found || !strings.Contains(before, "reason: RollingOut") || !strings.Contains(after, "reason: Succeeded") {
		t.Errorf("the output is not two documents:\n%s", stdout)
	}
}
