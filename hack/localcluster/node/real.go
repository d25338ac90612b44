// Package node starts and stops the nodes of a cluster: simulated ones or one
// real node.
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

// realNodeOwner is the file with the folder of the cluster that owns the
// machine's real node. Two kube-proxies on one machine would delete each
// other's rules, so there is at most one real node.
const realNodeOwner = "/run/quoin-localcluster-owner"

// CheckReal returns an error if this machine cannot run a real node. It
// installs missing packages if install is set, and claims the machine's real
// node for the cluster in dir.
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

// claimRealNode writes the owner of the machine's real node to the file, unless
// another cluster owns it whose kubelet runs or whose lock is held, because it
// is being started or stopped. Two kubelets would kill each other's containers.
func claimRealNode(ctx context.Context, file, dir string) error {
	unlock, err := process.Lock(ctx, file+".lock", "another localcluster is claiming the real node: waiting for it")
	if err != nil {
		return err
	}
	defer unlock()
	owner, err := os.ReadFile(file)
	if err == nil && string(owner) != dir {
		other := &cluster.Cluster{Dir: string(owner)}
		if other.Daemons().Running("kubelet") || other.IsLocked() {
			return fmt.Errorf("this machine's real node belongs to the cluster in %s; a machine has at most one: localcluster down --dir %[1]s", other.Dir)
		}
	}
	return os.WriteFile(file, []byte(dir), 0o644)
}

// StartReal starts containerd, kubelet, kube-proxy and CoreDNS and waits until the node
// is Ready.
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
	if err := startDNS(ctx, c); err != nil {
		return err
	}
	return progress.Step("node "+cluster.NodeName, func() error {
		return process.WaitReady(ctx, "kubelet", c.Daemons().LogPath("kubelet"), nil, time.Minute, nodesReady(c, 1))
	})
}

// kubeletConfiguration supports developers' machines: small, with swap, cgroup
// v1 or nearly full disks.
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
clusterDNS: [%[10]s]
clusterDomain: %[11]s
resolvConf: %[8]s
podLogsDir: %[9]s
maxPods: 250
evictionHard: {imagefs.available: 1%%, memory.available: 50Mi, nodefs.available: 1%%, nodefs.inodesFree: 1%%}
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
enforceNodeAllocatable: [pods]
`

// kubelet returns the component of the kubelet.
func kubelet(c *cluster.Cluster, n Network) (cluster.Component, error) {
	resolvConf := c.Path("resolv.conf")
	text := fmt.Sprintf(kubeletConfiguration, n.Address, c.Ports[cluster.PortKubelet], c.Ports[cluster.PortKubeletHealth],
		c.PKI("kubelet-serving.crt"), c.PKI("kubelet-serving.key"), c.PKI("ca.crt"), n.containerdSocket(),
		resolvConf, filepath.Join(n.StateDirectory(), "pod-logs"), cluster.DNSAddress, dnsDomain)
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

// kubeProxy returns the component of kube-proxy. It masquerades all traffic to
// Services: if the kernel lacks br_netfilter, replies between two pods on one
// bridge would bypass the rules that reverse the translation.
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
				"--conntrack-max-per-core=0", // keeps the machine's limits
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

// systemPath returns PATH with the folders of ip and iptables: the PATH of a
// root shell from su may lack sbin.
func systemPath() string {
	path := os.Getenv("PATH")
	for _, folder := range []string{"/usr/sbin", "/sbin"} {
		if !strings.Contains(":"+path+":", ":"+folder+":") {
			path += ":" + folder
		}
	}
	return "PATH=" + path
}
