package node

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/quoin-dev/quoin/hack/localcluster/cluster"
	"github.com/quoin-dev/quoin/hack/localcluster/process"
)

// dnsDomain is the domain of the cluster's Services.
const dnsDomain = "cluster.local"

// dnsManifest lets CoreDNS read what its names are made of, and creates the
// Service through which pods reach it: it runs on this machine, so that the
// Service has no selector.
const dnsManifest = `apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: "system:coredns"}
rules:
- {apiGroups: [""], resources: [namespaces, services], verbs: [list, watch]}
- {apiGroups: [discovery.k8s.io], resources: [endpointslices], verbs: [list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: "system:coredns"}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "system:coredns"}
subjects:
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: "system:coredns"}
---
apiVersion: v1
kind: Service
metadata: {name: kube-dns, namespace: kube-system}
spec:
  clusterIP: %[1]s
  ports:
  - {name: dns, protocol: UDP, port: 53}
  - {name: dns-tcp, protocol: TCP, port: 53}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: kube-dns-local, namespace: kube-system, labels: {kubernetes.io/service-name: kube-dns}}
addressType: IPv4
ports:
- {name: dns, protocol: UDP, port: %[2]d}
- {name: dns-tcp, protocol: TCP, port: %[2]d}
endpoints:
- {addresses: [%[3]s]}
`

// dnsConfiguration answers for names of the cluster; others are refused.
// Without a TTL, pods see a new Service immediately.
const dnsConfiguration = `%[1]s.:%[2]d {
    bind %[3]s
    ready %[4]s
    errors
    kubernetes %[1]s {
        kubeconfig %[5]q
        ttl 0
    }
}
`

// startDNS starts the DNS server of the pods.
func startDNS(ctx context.Context, c *cluster.Cluster) error {
	manifest := fmt.Sprintf(dnsManifest, cluster.DNSAddress, c.Ports[cluster.PortDNS], c.Address)
	if _, err := c.Kubectl(ctx, manifest, "apply", "--server-side", "-f", "-"); err != nil {
		return err
	}
	ready := cluster.Loopback(c.Ports[cluster.PortDNSReady])
	configuration := fmt.Sprintf(dnsConfiguration, dnsDomain, c.Ports[cluster.PortDNS], c.Address, ready, c.UserKubeconfig("coredns"))
	if err := c.WriteFile([]byte(configuration), 0o644, "manifests", "Corefile"); err != nil {
		return err
	}
	return c.StartAll(ctx, []cluster.Component{{
		Daemon:  process.Daemon{Name: "coredns", Path: c.Binary("coredns"), Args: []string{"-conf", c.Path("manifests", "Corefile")}},
		Port:    cluster.PortDNS,
		Address: c.Address,
		Timeout: 30 * time.Second,
		Ready:   process.HTTPProbe(http.DefaultClient, "http://"+ready+"/ready"),
	}})
}
