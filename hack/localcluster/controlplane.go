package main

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// tokenLife bounds how long a service account token may live: long enough for
// a cluster that a developer leaves running for days.
const tokenLife = 30 * 24 * time.Hour

// etcd stores the cluster. Without fsync a crash of the machine loses data,
// which a cluster that every up makes anew does not mind; it is several times
// faster on a slow disk. Never do this in production.
func (c *cluster) etcd() component {
	client, peer := "http://"+loopback(c.Ports[portEtcd]), "http://"+loopback(c.Ports[portEtcdPeer])
	return component{
		daemon: daemon{name: "etcd", path: c.binary("etcd"), args: []string{
			"--name=local",
			"--data-dir=" + c.path("etcd"),
			"--listen-client-urls=" + client,
			"--advertise-client-urls=" + client,
			"--listen-peer-urls=" + peer,
			"--initial-advertise-peer-urls=" + peer,
			"--initial-cluster=local=" + peer,
			"--unsafe-no-fsync",
			"--quota-backend-bytes=" + strconv.Itoa(8<<30),
			"--log-level=warn",
		}},
		port:     portEtcd,
		deadline: 30 * time.Second,
		ready:    httpProbe(http.DefaultClient, client+"/health"),
	}
}

// apiServer is the kube-apiserver. Aggregated API servers work: it presents
// callers to them with the front-proxy certificate.
func (c *cluster) apiServer(client *http.Client) component {
	args := []string{
		"--etcd-servers=http://" + loopback(c.Ports[portEtcd]),
		"--bind-address=" + c.Address,
		"--advertise-address=" + c.Address,
		"--secure-port=" + strconv.Itoa(c.Ports[portAPIServer]),
		"--tls-cert-file=" + c.pki("kube-apiserver.crt"),
		"--tls-private-key-file=" + c.pki("kube-apiserver.key"),
		"--client-ca-file=" + c.pki("ca.crt"),
		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction",
		"--allow-privileged=true",
		"--service-cluster-ip-range=" + serviceCIDR,
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=" + c.pki("service-account.pub"),
		"--service-account-signing-key-file=" + c.pki("service-account.key"),
		"--service-account-max-token-expiration=" + tokenLife.String(),
		"--requestheader-client-ca-file=" + c.pki("front-proxy-ca.crt"),
		"--requestheader-allowed-names=front-proxy-client",
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + c.pki("front-proxy-client.crt"),
		"--proxy-client-key-file=" + c.pki("front-proxy-client.key"),
		"--kubelet-client-certificate=" + c.pki("kube-apiserver-kubelet-client.crt"),
		"--kubelet-client-key=" + c.pki("kube-apiserver-kubelet-client.key"),
		"--kubelet-certificate-authority=" + c.pki("ca.crt"),
		"--kubelet-preferred-address-types=InternalIP",
		"--profiling=false",
	}
	if c.Nodes == nodesSimulated {
		// Endpoints must not be loopback addresses, and no pod is there to use
		// them: the Service "kubernetes" goes without.
		args = append(args, "--endpoint-reconciler-type=none")
	}
	return component{
		daemon:   daemon{name: "kube-apiserver", path: c.binary("kube-apiserver"), args: args},
		port:     portAPIServer,
		address:  c.Address,
		deadline: 90 * time.Second,
		ready:    httpProbe(client, c.apiServerURL()+"/readyz"),
	}
}

// controllerManager is the kube-controller-manager. Its request rates are
// raised because the default of 20 a second makes it, and not what is tested,
// the bottleneck with some hundred workloads.
func (c *cluster) controllerManager(client *http.Client) component {
	kubeconfig := c.userKubeconfig("kube-controller-manager")
	port := c.Ports[portControllerManager]
	podCIDR, mask, nodeGrace := simulatedPodCIDR, simulatedMask, 5*time.Minute
	if c.Nodes == nodesReal {
		podCIDR, mask, nodeGrace = realPodCIDR, realPodMask, 50*time.Second
	}
	return component{
		daemon: daemon{name: "kube-controller-manager", path: c.binary("kube-controller-manager"), args: []string{
			"--kubeconfig=" + kubeconfig,
			"--authentication-kubeconfig=" + kubeconfig,
			"--authorization-kubeconfig=" + kubeconfig,
			"--bind-address=127.0.0.1",
			"--secure-port=" + strconv.Itoa(port),
			"--tls-cert-file=" + c.pki("controlplane-serving.crt"),
			"--tls-private-key-file=" + c.pki("controlplane-serving.key"),
			"--leader-elect=false",
			"--use-service-account-credentials=true",
			"--service-account-private-key-file=" + c.pki("service-account.key"),
			"--root-ca-file=" + c.pki("ca.crt"),
			"--cluster-signing-cert-file=" + c.pki("ca.crt"),
			"--cluster-signing-key-file=" + c.pki("ca.key"),
			"--service-cluster-ip-range=" + serviceCIDR,
			"--allocate-node-cidrs=true",
			"--cluster-cidr=" + podCIDR,
			"--node-cidr-mask-size=" + strconv.Itoa(mask),
			// Simulated nodes do not fail; a busy machine must not look like it.
			"--node-monitor-grace-period=" + nodeGrace.String(),
			"--kube-api-qps=500",
			"--kube-api-burst=1000",
			"--profiling=false",
		}},
		port:     portControllerManager,
		deadline: 60 * time.Second,
		ready:    httpProbe(client, fmt.Sprintf("https://%s/healthz", loopback(port))),
	}
}

// schedulerConfiguration raises the request rates, as for the controllers.
const schedulerConfiguration = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection:
  kubeconfig: %s
  qps: 500
  burst: 1000
leaderElection:
  leaderElect: false
`

// scheduler is the kube-scheduler.
func (c *cluster) scheduler(client *http.Client) (component, error) {
	kubeconfig := c.userKubeconfig("kube-scheduler")
	port := c.Ports[portScheduler]
	if err := c.writeFile(fmt.Appendf(nil, schedulerConfiguration, kubeconfig), 0o644, "manifests", "scheduler.yaml"); err != nil {
		return component{}, err
	}
	return component{
		daemon: daemon{name: "kube-scheduler", path: c.binary("kube-scheduler"), args: []string{
			"--config=" + c.path("manifests", "scheduler.yaml"),
			"--authentication-kubeconfig=" + kubeconfig,
			"--authorization-kubeconfig=" + kubeconfig,
			"--bind-address=127.0.0.1",
			"--secure-port=" + strconv.Itoa(port),
			"--tls-cert-file=" + c.pki("controlplane-serving.crt"),
			"--tls-private-key-file=" + c.pki("controlplane-serving.key"),
		}},
		port:     portScheduler,
		deadline: 60 * time.Second,
		ready:    httpProbe(client, fmt.Sprintf("https://%s/readyz", loopback(port))),
	}, nil
}

// startControlPlane starts everything but the nodes.
func (c *cluster) startControlPlane(ctx context.Context) error {
	client, err := probeClient(c.pki("ca.crt"))
	if err != nil {
		return err
	}
	registry, err := c.registry()
	if err != nil {
		return err
	}
	scheduler, err := c.scheduler(client)
	if err != nil {
		return err
	}
	for _, group := range [][]component{
		{c.etcd(), registry},
		{c.apiServer(client)},
		{c.controllerManager(client), scheduler},
	} {
		if err := c.startAll(ctx, group); err != nil {
			return err
		}
	}
	return nil
}
