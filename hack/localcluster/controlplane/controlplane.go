// Package controlplane starts etcd, the Kubernetes control plane and the OCI
// registry.
package controlplane

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/quoin-dev/quoin/hack/localcluster/cluster"
	"github.com/quoin-dev/quoin/hack/localcluster/process"
)

// TokenLifetime is the maximum lifetime of service account tokens: long enough
// for a cluster that runs for days.
const TokenLifetime = 30 * 24 * time.Hour

// etcd returns the component of etcd. It runs without fsync, which is several
// times faster on a slow disk: a crash of the machine loses data, but every up
// creates a new cluster. Do not do this in production.
func etcd(c *cluster.Cluster) cluster.Component {
	client, peer := "http://"+cluster.Loopback(c.Ports[cluster.PortEtcd]), "http://"+cluster.Loopback(c.Ports[cluster.PortEtcdPeer])
	return cluster.Component{
		Daemon: process.Daemon{Name: "etcd", Path: c.Binary("etcd"), Args: []string{
			"--name=local",
			"--data-dir=" + c.Path("etcd"),
			"--listen-client-urls=" + client,
			"--advertise-client-urls=" + client,
			"--listen-peer-urls=" + peer,
			"--initial-advertise-peer-urls=" + peer,
			"--initial-cluster=local=" + peer,
			"--unsafe-no-fsync",
			"--quota-backend-bytes=" + strconv.Itoa(8<<30),
			"--log-level=warn",
		}},
		Port:    cluster.PortEtcd,
		Timeout: 30 * time.Second,
		Ready:   process.HTTPProbe(http.DefaultClient, client+"/health"),
	}
}

// apiServer returns the component of the kube-apiserver, with the aggregation
// layer configured.
func apiServer(c *cluster.Cluster, client *http.Client) cluster.Component {
	args := []string{
		"--etcd-servers=http://" + cluster.Loopback(c.Ports[cluster.PortEtcd]),
		"--bind-address=" + c.Address,
		"--advertise-address=" + c.Address,
		"--secure-port=" + strconv.Itoa(c.Ports[cluster.PortAPIServer]),
		"--tls-cert-file=" + c.PKI("kube-apiserver.crt"),
		"--tls-private-key-file=" + c.PKI("kube-apiserver.key"),
		"--client-ca-file=" + c.PKI("ca.crt"),
		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction",
		"--allow-privileged=true",
		"--service-cluster-ip-range=" + cluster.ServiceCIDR,
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=" + c.PKI("service-account.pub"),
		"--service-account-signing-key-file=" + c.PKI("service-account.key"),
		"--service-account-max-token-expiration=" + TokenLifetime.String(),
		"--requestheader-client-ca-file=" + c.PKI("front-proxy-ca.crt"),
		"--requestheader-allowed-names=front-proxy-client",
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + c.PKI("front-proxy-client.crt"),
		"--proxy-client-key-file=" + c.PKI("front-proxy-client.key"),
		"--kubelet-client-certificate=" + c.PKI("kube-apiserver-kubelet-client.crt"),
		"--kubelet-client-key=" + c.PKI("kube-apiserver-kubelet-client.key"),
		"--kubelet-certificate-authority=" + c.PKI("ca.crt"),
		"--kubelet-preferred-address-types=InternalIP",
		"--profiling=false",
	}
	if c.Nodes == cluster.NodesSimulated {
		// Endpoints must not be loopback addresses, and no pods use them: the
		// Service "kubernetes" has none.
		args = append(args, "--endpoint-reconciler-type=none")
	}
	if c.AuditLog != "" {
		args = append(args, "--audit-policy-file="+c.AuditPolicy, "--audit-log-path="+c.AuditLog)
	}
	return cluster.Component{
		Daemon:  process.Daemon{Name: "kube-apiserver", Path: c.Binary("kube-apiserver"), Args: args},
		Port:    cluster.PortAPIServer,
		Address: c.Address,
		Timeout: 90 * time.Second,
		Ready:   process.HTTPProbe(client, c.APIServerURL()+"/readyz"),
	}
}

// controllerManager returns the component of the kube-controller-manager. Its
// QPS is raised: with the default of 20 it would be the bottleneck with some
// hundred workloads.
func controllerManager(c *cluster.Cluster, client *http.Client) cluster.Component {
	kubeconfig := c.UserKubeconfig("kube-controller-manager")
	port := c.Ports[cluster.PortControllerManager]
	podCIDR, mask, nodeGrace := cluster.SimulatedPodCIDR, cluster.SimulatedMask, 5*time.Minute
	if c.Nodes == cluster.NodesReal {
		podCIDR, mask, nodeGrace = cluster.RealPodCIDR, cluster.RealPodMask, 50*time.Second
	}
	return cluster.Component{
		Daemon: process.Daemon{Name: "kube-controller-manager", Path: c.Binary("kube-controller-manager"), Args: []string{
			"--kubeconfig=" + kubeconfig,
			"--authentication-kubeconfig=" + kubeconfig,
			"--authorization-kubeconfig=" + kubeconfig,
			"--bind-address=127.0.0.1",
			"--secure-port=" + strconv.Itoa(port),
			"--tls-cert-file=" + c.PKI("controlplane-serving.crt"),
			"--tls-private-key-file=" + c.PKI("controlplane-serving.key"),
			"--leader-elect=false",
			"--use-service-account-credentials=true",
			"--service-account-private-key-file=" + c.PKI("service-account.key"),
			"--root-ca-file=" + c.PKI("ca.crt"),
			"--cluster-signing-cert-file=" + c.PKI("ca.crt"),
			"--cluster-signing-key-file=" + c.PKI("ca.key"),
			"--service-cluster-ip-range=" + cluster.ServiceCIDR,
			"--allocate-node-cidrs=true",
			"--cluster-cidr=" + podCIDR,
			"--node-cidr-mask-size=" + strconv.Itoa(mask),
			// Simulated nodes do not fail; avoid false positives on a busy
			// machine.
			"--node-monitor-grace-period=" + nodeGrace.String(),
			"--kube-api-qps=500",
			"--kube-api-burst=1000",
			"--profiling=false",
		}},
		Port:    cluster.PortControllerManager,
		Timeout: 60 * time.Second,
		Ready:   process.HTTPProbe(client, fmt.Sprintf("https://%s/healthz", cluster.Loopback(port))),
	}
}

// schedulerConfiguration raises the QPS, as for the controller manager.
const schedulerConfiguration = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection:
  kubeconfig: %s
  qps: 500
  burst: 1000
leaderElection:
  leaderElect: false
`

// scheduler returns the component of the kube-scheduler.
func scheduler(c *cluster.Cluster, client *http.Client) (cluster.Component, error) {
	kubeconfig := c.UserKubeconfig("kube-scheduler")
	port := c.Ports[cluster.PortScheduler]
	if err := c.WriteFile(fmt.Appendf(nil, schedulerConfiguration, kubeconfig), 0o644, "manifests", "scheduler.yaml"); err != nil {
		return cluster.Component{}, err
	}
	return cluster.Component{
		Daemon: process.Daemon{Name: "kube-scheduler", Path: c.Binary("kube-scheduler"), Args: []string{
			"--config=" + c.Path("manifests", "scheduler.yaml"),
			"--authentication-kubeconfig=" + kubeconfig,
			"--authorization-kubeconfig=" + kubeconfig,
			"--bind-address=127.0.0.1",
			"--secure-port=" + strconv.Itoa(port),
			"--tls-cert-file=" + c.PKI("controlplane-serving.crt"),
			"--tls-private-key-file=" + c.PKI("controlplane-serving.key"),
		}},
		Port:    cluster.PortScheduler,
		Timeout: 60 * time.Second,
		Ready:   process.HTTPProbe(client, fmt.Sprintf("https://%s/readyz", cluster.Loopback(port))),
	}, nil
}

// Start starts all components except the nodes.
func Start(ctx context.Context, c *cluster.Cluster) error {
	client, err := process.ProbeClient(c.PKI("ca.crt"))
	if err != nil {
		return err
	}
	registry, err := registry(c)
	if err != nil {
		return err
	}
	scheduler, err := scheduler(c, client)
	if err != nil {
		return err
	}
	for _, group := range [][]cluster.Component{
		{etcd(c), registry},
		{apiServer(c, client)},
		{controllerManager(c, client), scheduler},
	} {
		if err := c.StartAll(ctx, group); err != nil {
			return err
		}
	}
	return nil
}
