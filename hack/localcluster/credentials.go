package main

import (
	"encoding/base64"
	"fmt"
	"os"
)

// makeCredentials makes the cluster's certificates and kubeconfigs. There are
// two authorities: clients of the API server are signed by "ca"; "front-proxy"
// signs only the certificate with which the API server presents the identity
// of a caller to an aggregated API server. One authority for both would let
// any client pose as the aggregator.
func (c *cluster) makeCredentials() error {
	ca, err := newAuthority(c.path("pki"), "ca")
	if err != nil {
		return err
	}
	frontProxy, err := newAuthority(c.path("pki"), "front-proxy-ca")
	if err != nil {
		return err
	}
	if err := frontProxy.issue(certificateRequest{file: "front-proxy-client", user: "front-proxy-client"}); err != nil {
		return err
	}
	if err := newServiceAccountKey(c.path("pki")); err != nil {
		return err
	}
	for _, request := range c.certificates() {
		if err := ca.issue(request); err != nil {
			return err
		}
	}
	return c.writeKubeconfigs()
}

// certificates lists what the cluster's authority signs.
func (c *cluster) certificates() []certificateRequest {
	apiServerHosts := []string{
		"127.0.0.1", "localhost", serviceAddress, "kubernetes", "kubernetes.default",
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
	for _, user := range c.users() {
		requests = append(requests, certificateRequest{file: user.file, user: user.name, groups: user.groups})
	}
	if c.Nodes == nodesReal {
		requests = append(requests, certificateRequest{
			file: "kubelet-serving", user: "system:node:" + nodeName, groups: []string{"system:nodes"},
			hosts: []string{c.Address, "127.0.0.1", nodeName}, isServingOnly: true,
		})
	}
	return requests
}

// clusterUser is a client of the API server with a kubeconfig of its own.
type clusterUser struct {
	file   string
	name   string
	groups []string
}

func (c *cluster) users() []clusterUser {
	users := []clusterUser{
		{adminUser, "localcluster-admin", []string{"system:masters"}},
		{"kube-controller-manager", "system:kube-controller-manager", nil},
		{"kube-scheduler", "system:kube-scheduler", nil},
	}
	if c.Nodes == nodesReal {
		return append(users,
			clusterUser{"kubelet", "system:node:" + nodeName, []string{"system:nodes"}},
			clusterUser{"kube-proxy", "system:kube-proxy", nil})
	}
	// KWOK writes the status of every node and pod: no predefined role fits.
	return append(users, clusterUser{"kwok", "localcluster-kwok", []string{"system:masters"}})
}

func (c *cluster) writeKubeconfigs() error {
	if err := os.MkdirAll(c.path("kubeconfigs"), 0o700); err != nil {
		return err
	}
	for _, user := range c.users() {
		certificate, err := os.ReadFile(c.pki(user.file + ".crt"))
		if err != nil {
			return err
		}
		key, err := os.ReadFile(c.pki(user.file + ".key"))
		if err != nil {
			return err
		}
		credential := fmt.Sprintf("client-certificate-data: %s\n    client-key-data: %s",
			base64.StdEncoding.EncodeToString(certificate), base64.StdEncoding.EncodeToString(key))
		if err := c.writeKubeconfig(c.userKubeconfig(user.file), user.name, credential); err != nil {
			return err
		}
	}
	return nil
}
