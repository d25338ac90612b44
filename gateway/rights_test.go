package gateway_test

import (
	"os"
	"path/filepath"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

// restricted is the API server as somebody sees it who has the rights of the generated role and
// no others: what every test of this package runs with.
func (w *world) restricted(config *rest.Config) *rest.Config {
	w.Helper()
	file := filepath.Join("..", "config", "rbac", "gateway_role.yaml")
	data, err := os.ReadFile(file)
	if os.IsNotExist(err) {
		w.Logf("%s is not generated yet: the gateway runs with all rights", file)
		return config
	}
	if err != nil {
		w.Fatal(err)
	}
	user := rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "gateway-" + w.namespace}
	for document := range strings.SplitSeq(string(data), "---\n") {
		if strings.TrimSpace(document) == "" {
			continue
		}
		var kind metav1.TypeMeta
		var clusterRole rbacv1.ClusterRole
		var role rbacv1.Role
		if err := yaml.Unmarshal([]byte(document), &kind); err != nil {
			w.Fatal(err)
		}
		switch kind.Kind {
		case "ClusterRole":
			if err := yaml.UnmarshalStrict([]byte(document), &clusterRole); err != nil {
				w.Fatal(err)
			}
			clusterRole.Name = user.Name
			w.create(&clusterRole)
			w.create(&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: user.Name}, Subjects: []rbacv1.Subject{user},
				RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: user.Name}})
		case "Role":
			if err := yaml.UnmarshalStrict([]byte(document), &role); err != nil {
				w.Fatal(err)
			}
			role.Namespace = w.namespace // the tests keep the certificate here
			w.create(&role)
			w.create(&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: role.Name}, Subjects: []rbacv1.Subject{user},
				RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name}})
		}
	}
	confined := rest.CopyConfig(config)
	confined.Impersonate.UserName = user.Name
	return confined
}
