package main

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"path/filepath"
	"slices"
	"strconv"
)

// portName names one listener of a cluster.
type portName string

// The listeners. The names appear in cluster.json and in messages.
const (
	portRegistry          portName = "registry"
	portEtcd              portName = "etcd"
	portEtcdPeer          portName = "etcd-peer"
	portAPIServer         portName = "kube-apiserver"
	portControllerManager portName = "kube-controller-manager"
	portScheduler         portName = "kube-scheduler"
	portKubelet           portName = "kubelet"
	portKubeletHealth     portName = "kubelet-health"
	portProxyHealth       portName = "kube-proxy"
	portProxyMetrics      portName = "kube-proxy-metrics"
	portQuoinHealth       portName = "quoin-controller"
	portQuoinMetrics      portName = "quoin-controller-metrics"
	portFrontEnd          portName = "quoin-apiserver"
	portFrontEndHealth    portName = "quoin-apiserver-health"
	portFrontEndMetrics   portName = "quoin-apiserver-metrics"
	portGateway           portName = "quoin-gateway"
	portGatewaySQL        portName = "quoin-gateway-sql"
	portGatewayHealth     portName = "quoin-gateway-health"
	portGatewayMetrics    portName = "quoin-gateway-metrics"
	portWarehouse         portName = "warehouse"
	portGit               portName = "git"
)

// defaultPorts are unusual on purpose: a developer's machine often runs
// something on 6443, 2379 and 5000. They stay clear of the ephemeral range.
var defaultPorts = map[portName]int{
	portRegistry:          15000,
	portEtcd:              12379,
	portEtcdPeer:          12380,
	portAPIServer:         16443,
	portControllerManager: 16257,
	portScheduler:         16259,
	portKubelet:           16250,
	portKubeletHealth:     16248,
	portProxyHealth:       16256,
	portProxyMetrics:      16249,
	portQuoinHealth:       18081,
	portQuoinMetrics:      18080,
	portFrontEnd:          18443,
	portFrontEndHealth:    18083,
	portFrontEndMetrics:   18082,
	portGateway:           18444,
	portGatewaySQL:        15432,
	portGatewayHealth:     18085,
	portGatewayMetrics:    18084,
	portWarehouse:         15433,
	portGit:               15080,
}

// The range that --auto-ports picks blocks from: below Linux's ephemeral ports
// (32768 and up), so that no outgoing connection takes one between the check
// and the start.
const (
	autoPortsFirst = 20000
	autoPortsLast  = 32000
	autoPortsBlock = 30
)

// sortedPortNames gives the ports of a block their order.
func sortedPortNames() []portName { return slices.Sorted(maps.Keys(defaultPorts)) }

// pickPorts finds a block of free ports. The block stays claimed by a lock
// file until release is called: by then the daemons listen, and clusters that
// start at the same moment have not been given the same block.
func pickPorts(cache string) (ports map[portName]int, release func(), err error) {
	blocks := (autoPortsLast - autoPortsFirst) / autoPortsBlock
	first := rand.IntN(blocks)
	for i := range blocks {
		base := autoPortsFirst + (first+i)%blocks*autoPortsBlock
		release, err := tryLock(filepath.Join(cache, "ports", strconv.Itoa(base)+".lock"))
		if errors.Is(err, errLocked) {
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		ports := portBlock(base)
		if len(takenPorts(ports)) == 0 {
			return ports, release, nil
		}
		release()
	}
	return nil, nil, fmt.Errorf("no %d free ports in a row between %d and %d", autoPortsBlock, autoPortsFirst, autoPortsLast)
}

// portBlock lays the listeners out from base upwards.
func portBlock(base int) map[portName]int {
	ports := map[portName]int{}
	for i, name := range sortedPortNames() {
		ports[name] = base + i
	}
	return ports
}

// takenPorts returns the names of the ports that cannot be listened on.
func takenPorts(ports map[portName]int) []portName {
	var taken []portName
	for _, name := range sortedPortNames() {
		listener, err := net.Listen("tcp", loopback(ports[name]))
		if err != nil {
			taken = append(taken, name)
			continue
		}
		listener.Close()
	}
	return taken
}

// checkPorts fails when a port is taken and says by whom and what to do.
func checkPorts(ports map[portName]int) error {
	var problems []error
	for _, name := range takenPorts(ports) {
		problems = append(problems, fmt.Errorf("port %d (for %s) is taken by %s", ports[name], name, portOwner(ports[name])))
	}
	if len(problems) == 0 {
		return nil
	}
	return fmt.Errorf("%w\nend that process, stop the other cluster (localcluster down --dir <its folder>), or start with --auto-ports",
		errors.Join(problems...))
}

// loopback is the address of a port on 127.0.0.1.
func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
