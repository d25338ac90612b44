package cluster

import (
	"encoding/base64"
	"fmt"
	"os"
)

// AdminUser is the file name of the cluster admin's credentials.
const AdminUser = "admin"

// kubeconfigTemplate embeds the certificates, so that the file can be copied to
// any folder.
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

// WriteKubeconfig writes a kubeconfig; credential is the YAML of the user's
// credentials.
func (c *Cluster) WriteKubeconfig(path, user, credential string) error {
	ca, err := os.ReadFile(c.PKI("ca.crt"))
	if err != nil {
		return err
	}
	text := fmt.Sprintf(kubeconfigTemplate, c.APIServerURL(), base64.StdEncoding.EncodeToString(ca), user, credential)
	return os.WriteFile(path, []byte(text), 0o600)
}

// UserKubeconfig returns the path of a user's kubeconfig.
func (c *Cluster) UserKubeconfig(file string) string {
	if file == AdminUser {
		return c.Path("kubeconfig")
	}
	return c.Path("kubeconfigs", file)
}
