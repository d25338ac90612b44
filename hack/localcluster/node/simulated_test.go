package node

import (
	"strings"
	"testing"
)

func TestSimulatedNodeManifest(t *testing.T) {
	manifest := simulatedNodeManifest(4)
	for _, want := range []string{"name: node-3", "topology.kubernetes.io/zone: zone-2", `pods: "10000"`, "address: 172.31.0.4"} {
		if !strings.Contains(manifest, want) {
			t.Errorf("no %q in\n%s", want, manifest)
		}
	}
	if strings.Count(manifest, "kind: Node\n") != 4 {
		t.Error("want 4 nodes")
	}
	for index, want := range map[int]string{0: "10.128.0.0/18", 3: "10.128.192.0/18", 4: "10.129.0.0/18", 499: "10.252.192.0/18"} {
		if got := simulatedNodeCIDR(index); got != want {
			t.Errorf("node %d has %s, want %s", index, got, want)
		}
	}
}
