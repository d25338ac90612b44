package node

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/quoin-dev/quoin/hack/localcluster/cluster"
	"github.com/quoin-dev/quoin/hack/localcluster/process"
)

func TestNodeNetworkNames(t *testing.T) {
	a, b := NewNetwork("/home/a/.local"), NewNetwork("/home/b/.local")
	if a == b || a.nodeBridge() == b.nodeBridge() {
		t.Errorf("two folders have the same names: %+v", a)
	}
	if a != NewNetwork("/home/a/.local") {
		t.Error("the names of a folder are not deterministic")
	}
	for _, name := range []string{a.nodeBridge(), a.podBridge()} {
		if len(name) > 15 {
			t.Errorf("interface name %s exceeds Linux's limit", name)
		}
	}
	if len(a.containerdSocket()) > 100 {
		t.Errorf("socket path %s exceeds Linux's limit", a.containerdSocket())
	}
}

// Every resource of a dead node identifies its network; other names do not
// match.
func TestNetworksOf(t *testing.T) {
	dead := NewNetwork("/home/a/.local")
	for _, name := range []string{dead.nodeBridge(), dead.podBridge(), dead.StateDirectory(), dead.runDirectory()} {
		got := networksOf([]string{"lo", "eth0", name, name})
		if len(got) != 1 || got[0].id != dead.id {
			t.Errorf("%s: got %+v", name, got)
		}
	}
	others := []string{"qlnetwork", "qln", "xqln" + dead.id, dead.nodeBridge() + "0", dead.StateDirectory() + "/etc", realNodeOwner, realNodeOwner + ".lock"}
	if got := networksOf(others); len(got) != 0 {
		t.Errorf("matched as resources of a node: %+v", got)
	}
}

func TestMountsBelow(t *testing.T) {
	mountinfo := `22 1 254:0 / / rw - ext4 /dev/vda rw
30 22 0:30 / /run/q/containerd/rootfs rw - overlay overlay rw
31 22 0:31 / /run/quiet rw - tmpfs tmpfs rw
32 22 0:32 / /var/lib/q/pods/a\040b rw - tmpfs tmpfs rw
`
	got := mountsBelow(mountinfo, "/var/lib/q", "/run/q")
	if want := []string{"/run/q/containerd/rootfs", "/var/lib/q/pods/a b"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

const savedRules = `*nat
:PREROUTING ACCEPT [0:0]
:POSTROUTING ACCEPT [0:0]
:DOCKER - [0:0]
:KUBE-SERVICES - [0:0]
:CNI-aaaa - [0:0]
:CNI-bbbb - [0:0]
:CNI-DN-aaaa - [0:0]
:CNI-HOSTPORT-DNAT - [0:0]
-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A PREROUTING -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT
-A PREROUTING -j DOCKER
-A POSTROUTING -s 10.244.0.2/32 -m comment --comment "name: \"quoin-abc\" id: \"1\"" -j CNI-aaaa
-A POSTROUTING -s 10.88.0.2/32 -m comment --comment "name: \"podman\" id: \"2\"" -j CNI-bbbb
-A CNI-aaaa -j MASQUERADE
-A CNI-DN-aaaa -p tcp -j DNAT --to-destination 10.244.0.2:80
-A CNI-HOSTPORT-DNAT -p tcp -m comment --comment "dnat name: \"quoin-abc\" id: \"1\"" -j CNI-DN-aaaa
COMMIT
`

func TestWithoutClusterRules(t *testing.T) {
	want := `*nat
:PREROUTING ACCEPT [0:0]
:POSTROUTING ACCEPT [0:0]
:DOCKER - [0:0]
:CNI-bbbb - [0:0]
-A PREROUTING -j DOCKER
-A POSTROUTING -s 10.88.0.2/32 -m comment --comment "name: \"podman\" id: \"2\"" -j CNI-bbbb
COMMIT
`
	if got := withoutClusterRules(savedRules, "quoin-abc"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// The chains for host ports are shared: they are kept for another network's
// host port.
func TestWithoutClusterRulesKeepsSharedChains(t *testing.T) {
	rules := strings.Replace(savedRules, "COMMIT\n", `:CNI-DN-bbbb - [0:0]
-A CNI-HOSTPORT-DNAT -p tcp -m comment --comment "dnat name: \"podman\" id: \"2\"" -j CNI-DN-bbbb
COMMIT
`, 1)
	got := withoutClusterRules(rules, "quoin-abc")
	for _, want := range []string{":CNI-HOSTPORT-DNAT", "-j CNI-HOSTPORT-DNAT", "-j CNI-DN-bbbb"} {
		if !strings.Contains(got, want) {
			t.Errorf("%s was removed:\n%s", want, got)
		}
	}
	if strings.Contains(got, "CNI-DN-aaaa") {
		t.Errorf("the cluster's host port was kept:\n%s", got)
	}
}

// Clusters that start at the same time must not both own the node: neither has
// a kubelet yet.
func TestClaimRealNode(t *testing.T) {
	owner := filepath.Join(t.TempDir(), "owner")
	first, second := &cluster.Cluster{Dir: t.TempDir()}, &cluster.Cluster{Dir: t.TempDir()}
	unlock, err := first.Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := claimRealNode(t.Context(), owner, first.Dir); err != nil {
		t.Fatal(err)
	}
	if err := claimRealNode(t.Context(), owner, second.Dir); err == nil || !strings.Contains(err.Error(), first.Dir) {
		t.Errorf("claimed from a starting cluster: %v", err)
	}
	if err := claimRealNode(t.Context(), owner, first.Dir); err != nil {
		t.Errorf("the owner cannot claim it again: %v", err)
	}
	unlock()
	if err := claimRealNode(t.Context(), owner, second.Dir); err != nil {
		t.Errorf("not claimed from a stopped cluster: %v", err)
	}
	kubelet := process.Daemon{Name: "kubelet", Path: "/bin/sh", Args: []string{"-c", "exec sleep 60"}}
	if _, err := second.Daemons().Start(kubelet); err != nil {
		t.Fatal(err)
	}
	if err := claimRealNode(t.Context(), owner, first.Dir); err == nil {
		t.Error("claimed from a running cluster")
	}
	if _, err := second.Daemons().Stop(t.Context(), "kubelet", process.StopTimeout); err != nil {
		t.Fatal(err)
	}
}
