package controlplane

import (
	"encoding/base64"
	"fmt"
	"os"

	"github.com/quoin-dev/quoin/hack/localcluster/cluster"
)

// MakeCredentials creates the cluster's certificates and kubeconfigs. There are
// two CAs: "ca" signs the clients of the API server; "front-proxy-ca" signs
// only the certificate that authenticates the API server to aggregated API
// servers. With a single CA, any client could impersonate the API server there.
func MakeCredentials(c *cluster.Cluster) error {
	ca, err := newAuthority(c.Path("pki"), "ca")
	if err != nil {
		return err
	}
	frontProxy, err := newAuthority(c.Path("pki"), "front-proxy-ca")
	if err != nil {
		return err
	}
	if err := frontProxy.issue(certificateRequest{file: "front-proxy-client", user: "front-proxy-client"}); err != nil {
		return err
	}
	if err := newServiceAccountKey(c.Path("pki")); err != nil {
		return err
	}
	for _, request := range certificates(c) {
		if err := ca.issue(request); err != nil {
			return err
		}
	}
	return writeKubeconfigs(c)
}

// certificates returns the certificates that the cluster's CA signs.
func certificates(c *cluster.Cluster) []certificateRequest {
	apiServerHosts := []string{
		"127.0.0.1", "localhost", cluster.ServiceAddress, "kubernetes", "kubernetes.default",
		"kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
	}
	if c.Address != "127.0.0.1" {
		apiServerHosts = append(apiServerHosts, c.Address)
	}
	serving := []string{"127.0.0.1", "localhost"}
	requests := []certificateRequest{
		{file: "kube-apiserver", user: "kube-apiserver", hosts: apiServerHosts, isServingOnly: true},
		{file: "controlplane-serving", user: "controlplane-serving", hosts: serving, isServingOnly: true},
		{file: "kube-apiserver-kubelet-client", user: "kube-apiserver-kubelet-client", groups: []string{"system:masters"}},
	}
	for _, user := range users(c) {
		requests = append(requests, certificateRequest{file: user.file, user: user.name, groups: user.groups})
	}
	if c.Nodes == cluster.NodesReal {
		requests = append(requests, certificateRequest{
			file: "kubelet-serving", user: "system:node:" + cluster.NodeName, groups: []string{"system:nodes"},
			hosts: []string{c.Address, "127.0.0.1", cluster.NodeName}, isServingOnly: true,
		})
	}
	return requests
}

// clusterUser is a client of the API server with its own kubeconfig.
type clusterUser struct {
	file   string
	name   string
	groups []string
}

func users(c *cluster.Cluster) []clusterUser {
	users := []clusterUser{
		{cluster.AdminUser, "localcluster-admin", []string{"system:masters"}},
		{"kube-controller-manager", "system:kube-controller-manager", nil},
		{"kube-scheduler", "system:kube-scheduler", nil},
	}
	if c.Nodes == cluster.NodesReal {
		return append(users,
			clusterUser{"kubelet", "system:node:" + cluster.NodeName, []string{"system:nodes"}},
			clusterUser{"kube-proxy", "system:kube-proxy", nil},
			clusterUser{"coredns", "system:coredns", nil})
	}
	// KWOK writes the status of every node and pod: no predefined role allows
	// that.
	return append(users, clusterUser{"kwok", "localcluster-kwok", []string{"system:masters"}})
}

func writeKubeconfigs(c *cluster.Cluster) error {
	if err := os.MkdirAll(c.Path("kubeconfigs"), 0o700); err != nil {
		return err
	}
	for _, user := range users(c) {
		certificate, err := os.ReadFile(c.PKI(user.file + ".crt"))
		if err != nil {
			return err
		}
		key, err := os.ReadFile(c.PKI(user.file + ".key"))
		if err != nil {
			return err
		}
		credential := fmt.Sprintf("client-certificate-data: %s\n    client-key-data: %s",
			base64.StdEncoding.EncodeToString(certificate), base64.StdEncoding.EncodeToString(key))
		if err := c.WriteKubeconfig(c.UserKubeconfig(user.file), user.name, credential); err != nil {
			return err
		}
	}
	return nil
}
