package plugin

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// The event of a pod is found in a namespace whose events are more than one page: pages are in the order of names.
func TestWhyReadsAllWarnings(t *testing.T) {
	const (
		group = "/apis/platform.quoin.dev/v1alpha1/namespaces/demo"
		event = `{"metadata":{"name":"e"},"type":"Warning","reason":"FailedScheduling","lastTimestamp":"2026-01-01T00:00:00Z","involvedObject":`
	)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		query := r.URL.Query()
		answer := `{"items":[]}`
		switch {
		case r.URL.Path == group+"/deployments/sales":
			answer = `{"metadata":{"name":"sales","namespace":"demo"},"spec":{"releaseChannel":"stable"}}`
		case r.URL.Path == group+"/environments":
			answer = `{"items":[{"metadata":{"name":"sales-production","namespace":"demo"},"spec":{"type":"production","deploymentRef":{"name":"sales"}}}]}`
		case r.URL.Path == "/api/v1/namespaces/demo/pods":
			answer = `{"items":[{"metadata":{"name":"sales-production-api-1","namespace":"demo","labels":{"platform.quoin.dev/environment":"sales-production"}},` +
				`"status":{"conditions":[{"type":"PodScheduled","status":"False","reason":"Unschedulable","message":"0/3 nodes are available"}]}}]}`
		case r.URL.Path != "/api/v1/namespaces/demo/events":
		case query.Get("fieldSelector") != "type=Warning":
			t.Errorf("events are selected by %q", query.Get("fieldSelector"))
		case query.Get("continue") == "":
			answer = `{"metadata":{"continue":"next"},"items":[` + event + `{"kind":"Pod","name":"another"},"message":"of another pod"}]}`
		default:
			answer = `{"items":[` + event + `{"kind":"Pod","name":"sales-production-api-1"},"message":"no node has the memory"}]}`
		}
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(server.Close)
	code, stdout, stderr := runPlugin(t, "why", "sales", "-n", "demo", "-s", server.URL)
	if code != exitNotReady || !strings.Contains(stdout, "Event Pod/sales-production-api-1: FailedScheduling\n") || strings.Contains(stdout, "of another pod") {
		t.Errorf("%d, %q, %q", code, stdout, stderr)
	}
}
