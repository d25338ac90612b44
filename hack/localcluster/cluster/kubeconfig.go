package cluster

import (
	"encoding/base64"
	"fmt"
	"os"
)

const AdminUser = "admin"

// kubeconfigTemplate embeds all it refers to, so that a copy of the file works
// from any folder.
const kubeconfigTemplate = `apiVersion: v1
kind: Config
clusters:
- name: localcluster
  cluster:
    server: %s
    certificate-authority-data: %s
users:
- name: %s
  user:
    %s
contexts:
- name: localcluster
  context:
    cluster: localcluster
    user: %[3]s
current-context: localcluster
`

// WriteKubeconfig writes a kubeconfig; credential is the YAML of its user.
func (c *Cluster) WriteKubeconfig(path, user, credential string) error {
	ca, err := os.ReadFile(c.PKI("ca.crt"))
	if err != nil {
		return err
	}
	text := fmt.Sprintf(kubeconfigTemplate, c.ApiServerURL(), base64.StdEncoding.EncodeToString(ca), user, credential)
	return os.WriteFile(path, []byte(text), 0o600)
}

// UserKubeconfig is the path of a user's kubeconfig: the admin's is at the top.
func (c *Cluster) UserKubeconfig(file string) string {
	if file == AdminUser {
		return c.Path("kubeconfig")
	}
	return c.Path("kubeconfigs", file)
}
