package product

import (
	"slices"
	"strings"
	"testing"

	"github.com/quoin-dev/quoin/hack/localcluster/cluster"
)

// TestNextSteps: a command that asks the pods is printed only if they run the server.
func TestNextSteps(t *testing.T) {
	for dataplane, tag := range map[bool]string{true: "v0.35.82", false: "v1.2.4"} {
		steps := strings.Join(nextSteps(&cluster.Cluster{Dir: "/tmp/x", Dataplane: dataplane}), "\n")
		if strings.Contains(steps, "/v1/meta") != dataplane || !strings.Contains(steps, "push cube "+tag+" --dir /tmp/x") || !strings.HasPrefix(steps, "  . /tmp/x/env ") {
			t.Errorf("data plane %t:\n%s", dataplane, steps)
		}
	}
}

// TestControllerIsElected: kubectl quoin status shows the leader.
func TestControllerIsElected(t *testing.T) {
	args := controllerArgs(&cluster.Cluster{Dir: "/tmp/x", Nodes: cluster.NodesSimulated}, map[string]string{quoinImageVariable: "registry/quoin@sha256:1"}, "127.0.0.1:1")
	if !slices.Contains(args, "--leader-elect") || !slices.Contains(args, "--warm-up=false") || !slices.Contains(args, "--quoin-image=registry/quoin@sha256:1") {
		t.Errorf("flags %q", args)
	}
}

func TestAggregationManifest(t *testing.T) {
	got, err := aggregationManifest("spec:\n  service:\n    name: quoin-apiserver\n    port: 443\n", 20212)
	if err != nil {
		t.Fatal(err)
	}
	want := "spec:\n  service:\n    name: quoin-apiserver\n    port: 20212\n---\napiVersion: v1\nkind: Service\n" +
		"metadata:\n  name: quoin-apiserver\n  namespace: quoin-system\nspec:\n  type: ExternalName\n  externalName: localhost\n"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if _, err := aggregationManifest("spec: {}\n", 1); err == nil {
		t.Error("no error although there is no port to replace")
	}
}

func TestNotReady(t *testing.T) {
	list := `{"items": [
	  {"kind": "Account", "metadata": {"name": "demo"}, "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "Ready", "message": ""}]}},
	  {"kind": "Deployment", "metadata": {"namespace": "demo", "name": "sales"}, "status": {"conditions": [
	    {"type": "Available", "status": "True", "reason": "x", "message": "x"},
	    {"type": "Ready", "status": "False", "reason": "RollingOut", "message": "1 of 3"}]}},
	  {"kind": "Branch", "metadata": {"namespace": "demo", "name": "main"}},
	  {"kind": "Environment", "metadata": {"namespace": "demo", "name": "dev", "generation": 2}, "status": {"conditions": [
	    {"type": "Ready", "status": "True", "reason": "Ready", "message": "", "observedGeneration": 1}]}}]}`
	got, err := notReady([]byte(list))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"Deployment demo/sales: RollingOut: 1 of 3", "Branch demo/main: no status yet",
		"Environment demo/dev: the condition is that of an earlier spec"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if _, err := notReady([]byte(`{"items": []}`)); err == nil {
		t.Error("an empty list is considered ready")
	}
}
