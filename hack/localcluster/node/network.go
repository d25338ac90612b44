package node

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"os"

	"github.com/quoin-dev/quoin/hack/localcluster/host"
)

// realPodSubnet is the first node's part of realPodCIDR.
const realPodSubnet = "10.244.0.0/24"

// Network names what a real node makes on the machine. The names come from
// the cluster's folder, so that a cluster finds its own after a crash and no
// other cluster's.
type Network struct {
	id      string // short name of the cluster's folder
	Address string // of the node; the API server listens there too, for pods
}

func NewNetwork(dir string) Network {
	sum := sha256.Sum256([]byte(dir))
	return Network{
		id:      hex.EncodeToString(sum[:])[:6],
		Address: fmt.Sprintf("172.30.%d.1", 1+int(sum[3])%254),
	}
}

// Beginnings of names on the machine; a network's id follows.
const (
	nodeBridgePrefix     = "qln"
	podBridgePrefix      = "qlp"
	stateDirectoryPrefix = "/var/lib/quoin-localcluster-"
	runDirectoryPrefix   = "/run/quoin-localcluster-"
)

// nodeBridge carries the node's address: it must not be a loopback one.
func (n Network) nodeBridge() string { return nodeBridgePrefix + n.id }

// podBridge connects the pods.
func (n Network) podBridge() string { return podBridgePrefix + n.id }

// name is the network's name in the CNI configuration and in iptables comments.
func (n Network) name() string { return "quoin-" + n.id }

// StateDirectory holds containerd's and the kubelet's files. It is not below
// the cluster's folder: sockets there would exceed the 108 bytes of a socket
// path, and mounts would trip whoever walks a source tree.
func (n Network) StateDirectory() string { return stateDirectoryPrefix + n.id }

// runDirectory holds containerd's socket and run-time state.
func (n Network) runDirectory() string { return runDirectoryPrefix + n.id }

// containerdSocket is where containerd listens.
func (n Network) containerdSocket() string { return n.runDirectory() + "/containerd.sock" }

// Create makes the bridge that carries the node's address, and lets the kernel
// forward between pods and the world.
func (n Network) Create(ctx context.Context) error {
	if _, err := net.InterfaceByName(n.nodeBridge()); err == nil {
		if err := n.remove(ctx); err != nil {
			return err
		}
	}
	for _, args := range [][]string{
		{"link", "add", n.nodeBridge(), "type", "bridge"},
		{"address", "add", n.Address + "/24", "dev", n.nodeBridge()},
		{"link", "set", n.nodeBridge(), "up"},
	} {
		if err := host.Run(ctx, "ip", args...); err != nil {
			return fmt.Errorf("make the node's bridge: %w", err)
		}
	}
	return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1\n"), 0o644)
}

// remove deletes the bridges. Pods' interfaces are gone with their namespaces.
func (n Network) remove(ctx context.Context) error {
	for _, bridge := range []string{n.podBridge(), n.nodeBridge()} {
		if _, err := net.InterfaceByName(bridge); err != nil {
			continue
		}
		if err := host.Run(ctx, "ip", "link", "delete", bridge); err != nil {
			return err
		}
	}
	return nil
}

// cniConfiguration connects pods by a bridge; portmap serves hostPort.
const cniConfiguration = `{
  "cniVersion": "0.4.0",
  "name": %q,
  "plugins": [
    {
      "type": "bridge",
      "bridge": %q,
      "isGateway": true,
      "ipMasq": true,
      "hairpinMode": true,
      "ipam": {
        "type": "host-local",
        "dataDir": %q,
        "ranges": [[{"subnet": %q}]],
        "routes": [{"dst": "0.0.0.0/0"}]
      }
    },
    {"type": "portmap", "capabilities": {"portMappings": true}}
  ]
}
`

func (n Network) cniConfiguration() string {
	return fmt.Sprintf(cniConfiguration, n.name(), n.podBridge(), n.StateDirectory()+"/addresses", realPodSubnet)
}
