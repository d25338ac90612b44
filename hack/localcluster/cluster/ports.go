package cluster

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/quoin-dev/quoin/hack/localcluster/process"
)

// PortName identifies a listener of a cluster.
type PortName string

// The names of the listeners, as in cluster.json and in messages.
const (
	PortRegistry               PortName = "registry"
	PortEtcd                   PortName = "etcd"
	PortEtcdPeer               PortName = "etcd-peer"
	PortAPIServer              PortName = "kube-apiserver"
	PortControllerManager      PortName = "kube-controller-manager"
	PortScheduler              PortName = "kube-scheduler"
	PortKubelet                PortName = "kubelet"
	PortKubeletHealth          PortName = "kubelet-health"
	PortProxyHealth            PortName = "kube-proxy"
	PortProxyMetrics           PortName = "kube-proxy-metrics"
	PortQuoinControllerHealth  PortName = "quoin-controller"
	PortQuoinControllerMetrics PortName = "quoin-controller-metrics"
	PortQuoinAPIServer         PortName = "quoin-apiserver"
	PortQuoinAPIServerHealth   PortName = "quoin-apiserver-health"
	PortQuoinAPIServerMetrics  PortName = "quoin-apiserver-metrics"
	PortGateway                PortName = "quoin-gateway"
	PortGatewaySQL             PortName = "quoin-gateway-sql"
	PortGatewayHealth          PortName = "quoin-gateway-health"
	PortGatewayMetrics         PortName = "quoin-gateway-metrics"
	PortWarehouse              PortName = "warehouse"
	PortGit                    PortName = "git"
	PortModelServer            PortName = "model-server"
	PortDNS                    PortName = "coredns"
	PortDNSReady               PortName = "coredns-ready"
)

// DefaultPorts avoid 6443, 2379 and 5000, which are often in use on developers'
// machines, and the ephemeral range.
var DefaultPorts = map[PortName]int{
	PortRegistry:               15000,
	PortEtcd:                   12379,
	PortEtcdPeer:               12380,
	PortAPIServer:              16443,
	PortControllerManager:      16257,
	PortScheduler:              16259,
	PortKubelet:                16250,
	PortKubeletHealth:          16248,
	PortProxyHealth:            16256,
	PortProxyMetrics:           16249,
	PortQuoinControllerHealth:  18081,
	PortQuoinControllerMetrics: 18080,
	PortQuoinAPIServer:         18443,
	PortQuoinAPIServerHealth:   18083,
	PortQuoinAPIServerMetrics:  18082,
	PortGateway:                18444,
	PortGatewaySQL:             15432,
	PortGatewayHealth:          18085,
	PortGatewayMetrics:         18084,
	PortWarehouse:              15433,
	PortGit:                    15080,
	PortModelServer:            18086,
	PortDNS:                    15053,
	PortDNSReady:               15054,
}

// The range of ports for --auto-ports: below Linux's ephemeral ports (32768 and
// up), so that no outgoing connection takes a port between the check and the
// start.
const (
	autoPortsFirst = 20000
	autoPortsLast  = 32000
	autoPortsBlock = 30
)

// sortedPortNames returns the names in the order of a block.
func sortedPortNames() []PortName { return slices.Sorted(maps.Keys(DefaultPorts)) }

// PickPorts returns a block of free ports. A lock file reserves the block until
// the caller calls release, when the daemons listen, so that clusters that
// start at the same time get different blocks.
func PickPorts(cache string) (ports map[PortName]int, release func(), err error) {
	blocks := (autoPortsLast - autoPortsFirst) / autoPortsBlock
	first := rand.IntN(blocks)
	for i := range blocks {
		base := autoPortsFirst + (first+i)%blocks*autoPortsBlock
		release, err := process.TryLock(filepath.Join(cache, "ports", strconv.Itoa(base)+".lock"))
		if errors.Is(err, process.ErrLocked) {
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		ports := PortBlock(base)
		if len(takenPorts(ports)) == 0 {
			return ports, release, nil
		}
		release()
	}
	return nil, nil, fmt.Errorf("no block of %d free ports between %d and %d", autoPortsBlock, autoPortsFirst, autoPortsLast)
}

// PortBlock returns the ports of a block that starts at base.
func PortBlock(base int) map[PortName]int {
	ports := map[PortName]int{}
	for i, name := range sortedPortNames() {
		ports[name] = base + i
	}
	return ports
}

// takenPorts returns the names of the ports that are in use.
func takenPorts(ports map[PortName]int) []PortName {
	var taken []PortName
	for _, name := range sortedPortNames() {
		listener, err := net.Listen("tcp", Loopback(ports[name]))
		if err != nil {
			taken = append(taken, name)
			continue
		}
		listener.Close()
	}
	return taken
}

// CheckPorts returns an error if ports are in use, with their owners and how to
// proceed.
func CheckPorts(ports map[PortName]int) error {
	var problems []error
	for _, name := range takenPorts(ports) {
		problems = append(problems, fmt.Errorf("port %d (for %s) is in use by %s", ports[name], name, process.PortOwner(ports[name])))
	}
	if len(problems) == 0 {
		return nil
	}
	return fmt.Errorf("%w\nstop that process or the other cluster (localcluster down --dir <its folder>), or start with --auto-ports",
		errors.Join(problems...))
}

// Loopback returns the address of a port on 127.0.0.1.
func Loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
