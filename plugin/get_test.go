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

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/plugin/view"
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

// TestReadyForAWait: --wait does not end while production gets another version, although the deployment is still Ready of the last one.
func TestReadyForAWait(t *testing.T) {
	ready := func(status metav1.ConditionStatus) v1alpha1.CommonStatus {
		return v1alpha1.CommonStatus{Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: status}}}
	}
	for name, tc := range map[string]struct {
		deployment, production metav1.ConditionStatus
		// runs is the version of production in its status.
		runs string
		// change changes the deployment; may be nil.
		change func(*v1alpha1.Deployment)
		want   bool
	}{
		"ready":                      {metav1.ConditionTrue, metav1.ConditionTrue, "1.2.3", nil, true},
		"a new version":              {metav1.ConditionTrue, metav1.ConditionUnknown, "1.2.2", nil, false},
		"a pod is restarted":         {metav1.ConditionTrue, metav1.ConditionUnknown, "1.2.3", nil, true},
		"the deployment is not":      {metav1.ConditionFalse, metav1.ConditionTrue, "1.2.3", nil, false},
		"suspended before a version": {metav1.ConditionTrue, metav1.ConditionUnknown, "1.2.2", func(d *v1alpha1.Deployment) { d.Spec.Suspend = ptr.To(true) }, true},
	} {
		v := &view.View{Deployment: &v1alpha1.Deployment{Status: v1alpha1.DeploymentStatus{CommonStatus: ready(tc.deployment)}}, Environments: []v1alpha1.Environment{{
			Spec:   v1alpha1.EnvironmentSpec{Type: v1alpha1.EnvironmentProduction, Version: "1.2.3"},
			Status: v1alpha1.EnvironmentStatus{CommonStatus: ready(tc.production), Version: tc.runs},
		}}}
		if tc.change != nil {
			tc.change(v.Deployment)
		}
		if got := isReady(v); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
