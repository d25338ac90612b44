package node

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/quoin-dev/quoin/hack/localcluster/cluster"
	"github.com/quoin-dev/quoin/hack/localcluster/host"
	"github.com/quoin-dev/quoin/hack/localcluster/process"
	"github.com/quoin-dev/quoin/hack/localcluster/progress"
)

// realNodeOwner holds the folder of the cluster that has the machine's real
// node. Two kube-proxies on one machine would delete each other's rules, so
// there is one real node at a time.
const realNodeOwner = "/run/quoin-localcluster-owner"

// CheckReal says early and plainly why this machine cannot be a node.
func CheckReal(ctx context.Context, dir string, packages []host.Package, install bool) error {
	if runtime.GOOS != "linux" {
		return errors.New("--nodes real needs Linux; use --nodes simulated")
	}
	if os.Geteuid() != 0 {
		return errors.New("--nodes real needs root (containers, mounts, iptables); run it with sudo, or use --nodes simulated")
	}
	if err := claimRealNode(ctx, realNodeOwner, dir); err != nil {
		return err
	}
	if err := host.EnsurePackages(ctx, packages, install); err != nil {
		return err
	}
	if pids := podProcesses(); len(pids) > 0 {
		return fmt.Errorf("containers of another kubelet run here (process %d and others): stop them first", pids[0])
	}
	return removeDeadNodes(ctx, NewNetwork(dir))
}

// claimRealNode writes into the file who has the machine's real node, unless
// another cluster has it: one whose kubelet runs, or that is being started or
// stopped, during which its own lock is held. Two kubelets would kill each
// other's containers.
func claimRealNode(ctx context.Context, file, dir string) error {
	unlock, err := process.Lock(ctx, file+".lock", "another localcluster asks for the real node: waiting for it")
	if err != nil {
		return err
	}
	defer unlock()
	owner, err := os.ReadFile(file)
	if err == nil && string(owner) != dir {
		other := &cluster.Cluster{Dir: string(owner)}
		if other.Daemons().Running("kubelet") || other.IsLocked() {
			return fmt.Errorf("this machine's real node belongs to the cluster in %s; one machine has one: localcluster down --dir %[1]s", other.Dir)
		}
	}
	return os.WriteFile(file, []byte(dir), 0o644)
}

// StartReal starts containerd, kubelet and kube-proxy and waits until the
// node is Ready.
func StartReal(ctx context.Context, c *cluster.Cluster) error {
	n := NewNetwork(c.Dir)
	containerd, err := containerd(c, n)
	if err != nil {
		return err
	}
	if err := c.StartAll(ctx, []cluster.Component{containerd}); err != nil {
		return err
	}
	if err := progress.Step("sandbox image", func() error { return importPause(ctx, c, n) }); err != nil {
		return err
	}
	kubelet, err := kubelet(c, n)
	if err != nil {
		return err
	}
	if err := c.StartAll(ctx, []cluster.Component{kubelet, kubeProxy(c)}); err != nil {
		return err
	}
	return progress.Step("node "+cluster.NodeName, func() error {
		return process.WaitReady(ctx, "kubelet", c.Daemons().LogPath("kubelet"), nil, time.Minute, nodesReady(c, 1))
	})
}

// kubeletConfiguration makes the kubelet run on machines that are small, have
// swap, have cgroup v1 or nearly full disks: a developer's.
const kubeletConfiguration = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: %[1]s
port: %[2]d
healthzBindAddress: 127.0.0.1
healthzPort: %[3]d
readOnlyPort: 0
tlsCertFile: %[4]s
tlsPrivateKeyFile: %[5]s
authentication:
  anonymous: {enabled: false}
  webhook: {enabled: true}
  x509: {clientCAFile: %[6]s}
authorization: {mode: Webhook}
containerRuntimeEndpoint: unix://%[7]s
cgroupDriver: cgroupfs
failCgroupV1: false
failSwapOn: false
clusterDNS: [10.96.0.10]
clusterDomain: cluster.local
resolvConf: %[8]s
podLogsDir: %[9]s
maxPods: 250
evictionHard: {imagefs.available: 1%%, memory.available: 50Mi, nodefs.available: 1%%, nodefs.inodesFree: 1%%}
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
enforceNodeAllocatable: [pods]
`

// kubelet runs the pods of the node.
func kubelet(c *cluster.Cluster, n Network) (cluster.Component, error) {
	resolvConf := c.Path("resolv.conf")
	text := fmt.Sprintf(kubeletConfiguration, n.Address, c.Ports[cluster.PortKubelet], c.Ports[cluster.PortKubeletHealth],
		c.PKI("kubelet-serving.crt"), c.PKI("kubelet-serving.key"), c.PKI("ca.crt"), n.containerdSocket(),
		resolvConf, filepath.Join(n.StateDirectory(), "pod-logs"))
	err := errors.Join(
		c.WriteFile([]byte(text), 0o644, "manifests", "kubelet.yaml"),
		c.WriteFile([]byte("nameserver 127.0.0.1\n"), 0o644, "resolv.conf"),
	)
	if err != nil {
		return cluster.Component{}, err
	}
	return cluster.Component{
		Daemon: process.Daemon{
			Name: "kubelet",
			Path: c.Binary("kubelet"),
			Args: []string{
				"--config=" + c.Path("manifests", "kubelet.yaml"),
				"--kubeconfig=" + c.UserKubeconfig("kubelet"),
				"--root-dir=" + filepath.Join(n.StateDirectory(), "kubelet"),
				"--hostname-override=" + cluster.NodeName,
				"--node-ip=" + n.Address,
			},
			Environment: []string{systemPath()},
		},
		Port:    cluster.PortKubelet,
		Address: n.Address,
		Timeout: time.Minute,
		Ready:   process.HTTPProbe(http.DefaultClient, "http://"+cluster.Loopback(c.Ports[cluster.PortKubeletHealth])+"/healthz"),
	}, nil
}

// kubeProxy makes Services answer. It masquerades all their traffic: replies
// between two pods on one bridge would otherwise not pass the rules that undo
// the translation, where the kernel lacks br_netfilter.
func kubeProxy(c *cluster.Cluster) cluster.Component {
	health := cluster.Loopback(c.Ports[cluster.PortProxyHealth])
	return cluster.Component{
		Daemon: process.Daemon{
			Name: "kube-proxy",
			Path: c.Binary("kube-proxy"),
			Args: []string{
				"--kubeconfig=" + c.UserKubeconfig("kube-proxy"),
				"--hostname-override=" + cluster.NodeName,
				"--proxy-mode=iptables",
				"--cluster-cidr=" + cluster.RealPodCIDR,
				"--masquerade-all=true",
				"--iptables-localhost-nodeports=false",
				"--conntrack-max-per-core=0", // leaves the machine's limits as they are
				"--conntrack-tcp-timeout-established=0",
				"--conntrack-tcp-timeout-close-wait=0",
				"--healthz-bind-address=" + health,
				"--metrics-bind-address=" + cluster.Loopback(c.Ports[cluster.PortProxyMetrics]),
			},
			Environment: []string{systemPath()},
		},
		Port:    cluster.PortProxyHealth,
		Timeout: time.Minute,
		Ready:   process.HTTPProbe(http.DefaultClient, "http://"+health+"/livez"),
	}
}

// systemPath makes sure that daemons find ip and iptables: a root shell made
// by su has no sbin in its PATH.
func systemPath() string {
	path := os.Getenv("PATH")
	for _, folder := range []string{"/usr/sbin", "/sbin"} {
		if !strings.Contains(":"+path+":", ":"+folder+":") {
			path += ":" + folder
		}
	}
	return "PATH=" + path
}
