package main

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
)

// realNodeOwner holds the folder of the cluster that has the machine's real
// node. Two kube-proxies on one machine would delete each other's rules, so
// there is one real node at a time.
const realNodeOwner = "/run/quoin-localcluster-owner"

// checkRealNode says early and plainly why this machine cannot be a node.
func checkRealNode(ctx context.Context, dir string, packages []hostPackage, install bool) error {
	if runtime.GOOS != "linux" {
		return errors.New("--nodes real needs Linux; use --nodes simulated")
	}
	if os.Geteuid() != 0 {
		return errors.New("--nodes real needs root (containers, mounts, iptables); run it with sudo, or use --nodes simulated")
	}
	if err := claimRealNode(ctx, realNodeOwner, dir); err != nil {
		return err
	}
	if err := ensurePackages(ctx, packages, install); err != nil {
		return err
	}
	if pids := podProcesses(); len(pids) > 0 {
		return fmt.Errorf("containers of another kubelet run here (process %d and others): stop them first", pids[0])
	}
	return removeDeadNodes(ctx, newNodeNetwork(dir))
}

// claimRealNode writes into the file who has the machine's real node, unless
// another cluster has it: one whose kubelet runs, or that is being started or
// stopped, during which its own lock is held. Two kubelets would kill each
// other's containers.
func claimRealNode(ctx context.Context, file, dir string) error {
	unlock, err := acquireLock(ctx, file+".lock", "another localcluster asks for the real node: waiting for it")
	if err != nil {
		return err
	}
	defer unlock()
	owner, err := os.ReadFile(file)
	if err == nil && string(owner) != dir {
		other := &cluster{Dir: string(owner)}
		if other.processes().running("kubelet") || other.isLocked() {
			return fmt.Errorf("this machine's real node belongs to the cluster in %s; one machine has one: localcluster down --dir %[1]s", other.Dir)
		}
	}
	return os.WriteFile(file, []byte(dir), 0o644)
}

// startRealNode starts containerd, kubelet and kube-proxy and waits until the
// node is Ready.
func (c *cluster) startRealNode(ctx context.Context) error {
	n := newNodeNetwork(c.Dir)
	containerd, err := c.containerd(n)
	if err != nil {
		return err
	}
	if err := c.startAll(ctx, []component{containerd}); err != nil {
		return err
	}
	if err := step("sandbox image", func() error { return c.importPause(ctx, n) }); err != nil {
		return err
	}
	kubelet, err := c.kubelet(n)
	if err != nil {
		return err
	}
	if err := c.startAll(ctx, []component{kubelet, c.kubeProxy()}); err != nil {
		return err
	}
	return step("node "+nodeName, func() error {
		return awaitReady(ctx, "kubelet", c.processes().logPath("kubelet"), nil, time.Minute, c.nodesReady(1))
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
func (c *cluster) kubelet(n nodeNetwork) (component, error) {
	resolvConf := c.path("resolv.conf")
	text := fmt.Sprintf(kubeletConfiguration, n.address, c.Ports[portKubelet], c.Ports[portKubeletHealth],
		c.pki("kubelet-serving.crt"), c.pki("kubelet-serving.key"), c.pki("ca.crt"), n.containerdSocket(),
		resolvConf, filepath.Join(n.stateDirectory(), "pod-logs"))
	err := errors.Join(
		c.writeFile([]byte(text), 0o644, "manifests", "kubelet.yaml"),
		c.writeFile([]byte("nameserver 127.0.0.1\n"), 0o644, "resolv.conf"),
	)
	if err != nil {
		return component{}, err
	}
	return component{
		daemon: daemon{
			name: "kubelet",
			path: c.binary("kubelet"),
			args: []string{
				"--config=" + c.path("manifests", "kubelet.yaml"),
				"--kubeconfig=" + c.userKubeconfig("kubelet"),
				"--root-dir=" + filepath.Join(n.stateDirectory(), "kubelet"),
				"--hostname-override=" + nodeName,
				"--node-ip=" + n.address,
			},
			environment: []string{systemPath()},
		},
		port:     portKubelet,
		address:  n.address,
		deadline: time.Minute,
		ready:    httpProbe(http.DefaultClient, "http://"+loopback(c.Ports[portKubeletHealth])+"/healthz"),
	}, nil
}

// kubeProxy makes Services answer. It masquerades all their traffic: replies
// between two pods on one bridge would otherwise not pass the rules that undo
// the translation, where the kernel lacks br_netfilter.
func (c *cluster) kubeProxy() component {
	health := loopback(c.Ports[portProxyHealth])
	return component{
		daemon: daemon{
			name: "kube-proxy",
			path: c.binary("kube-proxy"),
			args: []string{
				"--kubeconfig=" + c.userKubeconfig("kube-proxy"),
				"--hostname-override=" + nodeName,
				"--proxy-mode=iptables",
				"--cluster-cidr=" + realPodCIDR,
				"--masquerade-all=true",
				"--iptables-localhost-nodeports=false",
				"--conntrack-max-per-core=0", // leaves the machine's limits as they are
				"--conntrack-tcp-timeout-established=0",
				"--conntrack-tcp-timeout-close-wait=0",
				"--healthz-bind-address=" + health,
				"--metrics-bind-address=" + loopback(c.Ports[portProxyMetrics]),
			},
			environment: []string{systemPath()},
		},
		port:     portProxyHealth,
		deadline: time.Minute,
		ready:    httpProbe(http.DefaultClient, "http://"+health+"/livez"),
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
