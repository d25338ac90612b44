package clustertest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	"github.com/quoin-dev/quoin/internal/serving/certificates"
	"github.com/quoin-dev/quoin/test/internal/apiclient"
)

// The subcommands of `quoin` that have a ServiceAccount.
const (
	Controller = "controller"
	APIServer  = "apiserver"
	Gateway    = "gateway"
)

// User returns the name of the user of a subcommand's ServiceAccount.
func User(command string) string {
	return "system:serviceaccount:" + Namespace + ":quoin-" + command
}

// As returns the configuration of a subcommand's user: it has the permissions that config/rbac grants to its ServiceAccount.
func (c *Cluster) As(command string) *rest.Config { return rest.CopyConfig(c.users[command]) }

func (c *Cluster) kubeconfigOf(command string) string {
	return filepath.Join(c.Folder, command+".kubeconfig")
}

// install creates the namespace of Quoin, the roles, the users of the processes, and the Secrets of the certificates, which
// `quoin controller` creates otherwise.
func (c *Cluster) install(ctx context.Context) error {
	if err := c.create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: Namespace}}); err != nil {
		return err
	}
	files, err := filepath.Glob(config("rbac", "*.yaml"))
	if err != nil {
		return err
	}
	bindings, err := filepath.Glob(config("aggregation", "*_binding.yaml"))
	if err != nil {
		return err
	}
	for _, file := range append(files, bindings...) {
		if slices.Contains([]string{"namespace.yaml", "kustomization.yaml"}, filepath.Base(file)) {
			continue
		}
		if err := c.createFile(ctx, file, ""); err != nil {
			return err
		}
	}
	if err := (&certificates.EmptySecrets{Reader: c.Client, Writer: c.Client, Namespace: Namespace}).Once(ctx); err != nil {
		return err
	}
	c.users = map[string]*rest.Config{}
	for _, command := range []string{Controller, APIServer, Gateway} {
		if err := c.addUser(ctx, command); err != nil {
			return fmt.Errorf("user of %s: %w", command, err)
		}
	}
	return nil
}

// addUser creates a user with a client certificate, and waits until it has its permissions.
func (c *Cluster) addUser(ctx context.Context, command string) error {
	user, err := c.env.AddUser(envtest.User{Name: User(command), Groups: []string{"system:serviceaccounts"}}, nil)
	if err != nil {
		return err
	}
	kubeconfig, err := user.KubeConfig()
	if err != nil {
		return err
	}
	if err := os.WriteFile(c.kubeconfigOf(command), kubeconfig, 0o600); err != nil {
		return err
	}
	c.users[command] = rest.CopyConfig(user.Config())
	c.users[command].QPS = -1
	// The authorizer watches roles.
	return c.awaitPermission(ctx, command, authorizationv1.ResourceAttributes{Verb: "list", Group: "platform.quoin.dev", Resource: "accounts"})
}

// Grant creates the RoleBindings that an administrator creates in the namespace of an account, and waits until they apply.
func (c *Cluster) Grant(ctx context.Context, namespace string) error {
	if err := c.createFile(ctx, config("samples", "50-rolebinding.yaml"), namespace); err != nil {
		return err
	}
	for _, command := range []string{Controller, APIServer, Gateway} {
		if err := c.awaitPermission(ctx, command, authorizationv1.ResourceAttributes{Namespace: namespace, Verb: "get", Resource: "secrets", Name: "any"}); err != nil {
			return err
		}
	}
	return nil
}

// awaitPermission waits until a subcommand's user has a permission.
func (c *Cluster) awaitPermission(ctx context.Context, command string, permission authorizationv1.ResourceAttributes) error {
	clientset, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		return err
	}
	return apiclient.Eventually(func() error {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: User(command), ResourceAttributes: &permission}}
		review, err := clientset.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		if !review.Status.Allowed {
			return fmt.Errorf("%s may not %s %s in %q", User(command), permission.Verb, permission.Resource, permission.Namespace)
		}
		return nil
	})
}

// config returns the path of a file in the kustomize tree.
func config(elements ...string) string {
	_, here, _, _ := runtime.Caller(0)
	return filepath.Join(append([]string{filepath.Dir(here), "..", "..", "..", "config"}, elements...)...)
}

// createFile creates the objects in a file, in another namespace unless it is empty.
func (c *Cluster) createFile(ctx context.Context, file, namespace string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	for document := range strings.SplitSeq(strings.TrimPrefix(string(text), "---\n"), "\n---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
			return fmt.Errorf("%s: %w", filepath.Base(file), err)
		}
		if namespace != "" {
			object.SetNamespace(namespace)
		}
		// Another account may be in the same namespace.
		if err := client.IgnoreAlreadyExists(c.Client.Create(ctx, object)); err != nil {
			return fmt.Errorf("%s: %w", filepath.Base(file), err)
		}
	}
	return nil
}
