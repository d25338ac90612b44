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

// realPodSubnet is the first node's part of cluster.RealPodCIDR.
const realPodSubnet = "10.244.0.0/24"

// Network has the names of the resources that a real node creates on the
// machine. They derive from the cluster's folder, so that a cluster can clean
// up its own resources after a crash and no other's.
type Network struct {
	id      string // hash of the cluster's folder
	Address string // of the node; the API server also listens on it, for pods
}

// NewNetwork returns the network of the cluster in dir.
func NewNetwork(dir string) Network {
	sum := sha256.Sum256([]byte(dir))
	return Network{
		id:      hex.EncodeToString(sum[:])[:6],
		Address: fmt.Sprintf("172.30.%d.1", 1+int(sum[3])%254),
	}
}

// Prefixes of names on the machine, followed by the id of a network.
const (
	nodeBridgePrefix     = "qln"
	podBridgePrefix      = "qlp"
	stateDirectoryPrefix = "/var/lib/quoin-localcluster-"
	runDirectoryPrefix   = "/run/quoin-localcluster-"
)

// nodeBridge returns the interface with the node's address, which must not be a
// loopback address.
func (n Network) nodeBridge() string { return nodeBridgePrefix + n.id }

// podBridge returns the interface that connects the pods.
func (n Network) podBridge() string { return podBridgePrefix + n.id }

// name returns the network's name in the CNI configuration and in comments of
// iptables rules.
func (n Network) name() string { return "quoin-" + n.id }

// StateDirectory returns the folder of containerd's and the kubelet's files. It
// is not below the cluster's folder: the paths of sockets would exceed the
// limit of 108 bytes, and mounts would affect tools that walk the source tree.
func (n Network) StateDirectory() string { return stateDirectoryPrefix + n.id }

// runDirectory returns the folder of containerd's socket and run-time state.
func (n Network) runDirectory() string { return runDirectoryPrefix + n.id }

// containerdSocket returns the path of containerd's socket.
func (n Network) containerdSocket() string { return n.runDirectory() + "/containerd.sock" }

// Create creates the bridge with the node's address, and enables IP forwarding.
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
			return fmt.Errorf("create the node's bridge: %w", err)
		}
	}
	return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1\n"), 0o644)
}

// remove deletes the bridges. The pods' interfaces were deleted with their
// namespaces.
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

// cniConfiguration connects pods with a bridge; portmap implements hostPort.
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
