package chart_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// cluster is a kube-apiserver without controllers and nodes.
type cluster struct {
	client.Client
	kubeconfig string
}

// newCluster starts a kube-apiserver. If the binaries are missing, it skips the test, or fails it in CI.
func newCluster(t *testing.T) *cluster {
	t.Helper()
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		const help = "KUBEBUILDER_ASSETS is not set: no API server to test with. Get one by\n" +
			"  export KUBEBUILDER_ASSETS=\"$(cd hack/localcluster && go run . binaries --nodes none)\""
		if os.Getenv("CI") == "true" {
			t.Fatal(help)
		}
		t.Skip("SKIPPED: " + help)
	}
	log.SetLogger(logr.Discard())
	environment := &envtest.Environment{CRDDirectoryPaths: []string{"testdata/crds"}, ErrorIfCRDPathMissing: true}
	config, err := environment.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := environment.Stop(); err != nil {
			t.Errorf("stop the API server: %v", err)
		}
	})
	types := scheme.Scheme
	if err := apiextensionsv1.AddToScheme(types); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(config, client.Options{Scheme: types})
	if err != nil {
		t.Fatal(err)
	}
	admin, err := environment.AddUser(envtest.User{Name: "admin", Groups: []string{"system:masters"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig, err := admin.KubeConfig()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, kubeconfig, 0o600); err != nil {
		t.Fatal(err)
	}
	return &cluster{Client: client.WithFieldValidation(c, metav1.FieldValidationStrict), kubeconfig: path}
}

// namespaces creates namespaces that enforce the Pod Security Standard "restricted".
func (c *cluster) namespaces(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Name:   name,
			Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
		}}
		if err := c.Create(t.Context(), namespace); err != nil {
			t.Fatal(err)
		}
	}
}

// helm runs Helm against the cluster.
func (c *cluster) helm(t *testing.T, args ...string) string {
	t.Helper()
	return mustHelm(t, append(args, "--kubeconfig", c.kubeconfig, "--namespace", releaseNamespace)...)
}

// kubectl runs kubectl in the version of kube-apiserver.
func (c *cluster) kubectl(t *testing.T, args ...string) string {
	t.Helper()
	binary := filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kubectl")
	output, err := exec.CommandContext(t.Context(), binary, append([]string{"--kubeconfig", c.kubeconfig}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, output)
	}
	return string(output)
}

// TestEveryObjectIsValid creates every object as a dry run, with strict validation.
func TestEveryObjectIsValid(t *testing.T) {
	c := newCluster(t)
	c.namespaces(t, releaseNamespace, "tenant-a", "tenant-b")
	eachValues(t, func(t *testing.T, args []string) {
		for _, object := range render(t, args...) {
			if err := c.Create(t.Context(), object, client.DryRunAll); err != nil {
				t.Errorf("%s %s: %v", object.GetKind(), object.GetName(), err)
			}
		}
	})
}

// The pods comply with the Pod Security Standard "restricted".
func TestPodsComplyWithPodSecurity(t *testing.T) {
	c := newCluster(t)
	c.namespaces(t, releaseNamespace)
	create := func(deployment *appsv1.Deployment, change func(*corev1.PodSpec)) error {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "controller", Namespace: releaseNamespace}, Spec: deployment.Spec.Template.Spec}
		change(&pod.Spec)
		// The PriorityClass and the RuntimeClass do not exist.
		pod.Spec.PriorityClassName, pod.Spec.RuntimeClassName = "", nil
		return c.Create(t.Context(), pod, client.DryRunAll)
	}
	unchanged := func(*corev1.PodSpec) {}
	eachValues(t, func(t *testing.T, args []string) {
		for _, object := range render(t, args...).ofKind("Deployment") {
			deployment := convert[appsv1.Deployment](t, object)
			err := create(deployment, unchanged)
			if forbidden := deployment.Spec.Template.Spec.HostNetwork; forbidden != (err != nil) || forbidden && !strings.Contains(err.Error(), "host namespaces") {
				t.Errorf("host network %t: %v", forbidden, err)
			}
		}
	})
	for _, file := range components {
		if err := create(only[appsv1.Deployment](t, readConfig(t, "manager/"+file+".yaml"), "Deployment"), unchanged); err != nil {
			t.Error(err)
		}
	}
	config := only[appsv1.Deployment](t, readConfig(t, "manager/controller.yaml"), "Deployment")
	err := create(config, func(pod *corev1.PodSpec) { pod.SecurityContext.SeccompProfile = nil })
	if !errors.IsForbidden(err) || !strings.Contains(err.Error(), "PodSecurity") {
		t.Errorf("a pod without a seccomp profile: %v", err)
	}
}

// TestKustomizeTreeIsApplied applies each folder as config/README.md describes.
func TestKustomizeTreeIsApplied(t *testing.T) {
	c := newCluster(t)
	// Client-side apply stores the CRD in an annotation of limited size.
	c.kubectl(t, "apply", "--dry-run=server", "-k", filepath.Join(root, "config", "crd"))
	for _, folder := range []string{"crd", "rbac", "aggregation", "audit", "default", "prometheus", "network-policy"} {
		// The second time must not fail.
		args := []string{"apply", "--server-side", "-k", filepath.Join(root, "config", folder)}
		c.kubectl(t, args...)
		c.kubectl(t, args...)
	}
	deployment := &appsv1.Deployment{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: releaseNamespace, Name: "quoin-controller"}, deployment); err != nil {
		t.Fatal(err)
	}
	container := deployment.Spec.Template.Spec.Containers[0]
	if got := variable(container, "QUOIN_IMAGE"); got != container.Image || !strings.HasPrefix(got, "ghcr.io/") {
		t.Errorf("QUOIN_IMAGE %q, image %q", got, container.Image)
	}
	namespace := &corev1.Namespace{}
	if err := c.Get(t.Context(), client.ObjectKey{Name: releaseNamespace}, namespace); err != nil {
		t.Fatal(err)
	}
	if namespace.Labels["pod-security.kubernetes.io/enforce"] != "restricted" {
		t.Errorf("labels of the namespace: %v", namespace.Labels)
	}
}

// TestReleaseIsUpgradedAndReinstalled installs an old chart, upgrades, uninstalls and installs again.
func TestReleaseIsUpgradedAndReinstalled(t *testing.T) {
	c := newCluster(t)
	c.namespaces(t, releaseNamespace, "tenant-a", "tenant-b")

	old := copyChart(t, "quoin")
	outdate(t, old)
	c.helm(t, "install", releaseName, old)
	c.wantPermissions(t, "quoin-controller", permission{"tenant-a", "secrets", "get", false}, permission{releaseNamespace, "secrets", "get", true})
	c.wantPermissions(t, "quoin-gateway", permission{"tenant-a", "secrets", "get", false})
	c.wantPermissions(t, "quoin-apiserver", permission{"tenant-a", "secrets", "get", false}, permission{"tenant-a", "secrets", "create", false})
	account := c.createAccount(t)

	// An upgrade updates the CRDs, in spite of "helm.sh/resource-policy: keep".
	c.helm(t, "upgrade", releaseName, chartFolder, "--set", "controller.replicas=2,accountNamespaces={tenant-a}")
	if got := c.crd(t, "claims.platform.quoin.dev").Spec.Names.ShortNames; len(got) != 1 || got[0] != "qclaim" {
		t.Errorf("short names after the upgrade: %v", got)
	}
	deployment := &appsv1.Deployment{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: releaseNamespace, Name: "quoin-controller"}, deployment); err != nil || *deployment.Spec.Replicas != 2 {
		t.Errorf("after the upgrade: %v, %v replicas", err, *deployment.Spec.Replicas)
	}
	c.testPermissions(t)

	// Objects of users survive uninstalling.
	c.helm(t, "uninstall", releaseName)
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(deployment), deployment); !errors.IsNotFound(err) {
		t.Errorf("the controller after uninstalling: %v", err)
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(account), account); err != nil {
		t.Errorf("an account after uninstalling: %v", err)
	}
	c.helm(t, "install", releaseName, chartFolder, "--set", "crds.keep=false")
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(account), account); err != nil {
		t.Errorf("an account after installing again: %v", err)
	}

	// With crds.keep=false they do not.
	c.helm(t, "uninstall", releaseName)
	c.waitForNoCRDs(t)
}

// testPermissions checks the permissions of a release with accountNamespaces={tenant-a}.
func (c *cluster) testPermissions(t *testing.T) {
	t.Helper()
	for _, account := range []string{"quoin-controller", "quoin-gateway", "quoin-apiserver"} {
		c.wantPermissions(t, account,
			permission{"tenant-a", "secrets", "get", true},
			permission{"tenant-a", "secrets", "list", false},
			permission{"tenant-a", "secrets", "watch", false},
			permission{"tenant-b", "secrets", "get", false},
			permission{"", "secrets", "get", false},
			permission{"", "secrets", "list", false},
			permission{"tenant-b", "deployments", "list", true},
		)
	}
	c.wantPermissions(t, "quoin-gateway",
		permission{releaseNamespace, "secrets", "create", false},
		permission{releaseNamespace, "secrets", "get", false},
		permission{"tenant-a", "secrets", "create", false},
		permission{"tenant-a", "environments", "patch", true},
		permission{"tenant-a", "environments/status", "patch", false},
		permission{"tenant-a", "deployments", "patch", false},
		permission{"", "accounts", "patch", false},
	)
	c.wantPermissions(t, "quoin-apiserver",
		permission{releaseNamespace, "secrets", "create", false},
		permission{releaseNamespace, "secrets", "get", true}, // the API keys of ModelEndpoints
		permission{releaseNamespace, "secrets", "list", false},
		permission{releaseNamespace, "secrets", "patch", false},
		permission{"tenant-a", "secrets", "create", true},
		permission{"tenant-a", "secrets", "patch", true},
		permission{"tenant-a", "secrets", "update", false},
		permission{"tenant-a", "secrets", "delete", false},
		permission{"tenant-b", "secrets", "create", false},
		permission{"tenant-b", "secrets", "patch", false},
		permission{"", "secrets", "create", false},
	)
	c.wantPermissions(t, "quoin-controller",
		permission{releaseNamespace, "secrets", "create", true},
		permission{"tenant-b", "deployments/status", "patch", true},
		permission{"", "accounts", "watch", true},
		permission{"", "accounts", "delete", false},
	)
}

// outdate changes a CRD of the chart, as an earlier release might have had it.
func outdate(t *testing.T, chart string) {
	t.Helper()
	path := filepath.Join(chart, "templates", "crds", "platform.quoin.dev_claims.yaml")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(text), "    - qclaim\n", "    - qcl\n", 1)
	if changed == string(text) {
		t.Fatal("the CRD of claims has no short name to change")
	}
	writeFile(t, path, changed)
}

// createAccount creates an Account with the required fields.
func (c *cluster) createAccount(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	account := &unstructured.Unstructured{Object: map[string]any{
		"spec": map[string]any{"host": "a.example.com", "namespace": "tenant-a"},
	}}
	account.SetGroupVersionKind(schema.GroupVersionKind{Group: "platform.quoin.dev", Version: "v1alpha1", Kind: "Account"})
	account.SetName("a")
	c.eventually(t, "the API server serves accounts", func(ctx context.Context) bool {
		return c.Create(ctx, account) == nil
	})
	return account
}

// permission is a verb on a resource that a ServiceAccount has or does not have, such as deployments.apps or deployments of Quoin.
type permission struct {
	namespace, resource, verb string
	allowed                   bool
}

// wantPermissions checks the permissions of a ServiceAccount of the release.
func (c *cluster) wantPermissions(t *testing.T, account string, permissions ...permission) {
	t.Helper()
	for _, r := range permissions {
		resource, subresource, _ := strings.Cut(r.resource, "/")
		resource, group, found := strings.Cut(resource, ".")
		switch {
		case found:
		case resource == "secrets" || resource == "pods":
			group = ""
		default:
			group = "platform.quoin.dev"
		}
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User:   "system:serviceaccount:" + releaseNamespace + ":" + account,
			Groups: []string{"system:serviceaccounts", "system:authenticated"},
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: r.namespace, Verb: r.verb, Group: group, Resource: resource, Subresource: subresource,
			},
		}}
		// The authorizer watches roles.
		c.eventually(t, "the permissions are as expected", func(ctx context.Context) bool {
			if err := c.Create(ctx, review); err != nil {
				t.Fatal(err)
			}
			return review.Status.Allowed == r.allowed
		}, account, r.verb, r.resource, "in", r.namespace)
	}
}

func (c *cluster) crd(t *testing.T, name string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := c.Get(t.Context(), client.ObjectKey{Name: name}, crd); err != nil {
		t.Fatal(err)
	}
	return crd
}

// waitForNoCRDs waits until Quoin's CRDs have been deleted.
func (c *cluster) waitForNoCRDs(t *testing.T) {
	t.Helper()
	c.eventually(t, "the CRDs are deleted", func(ctx context.Context) bool {
		crds := &apiextensionsv1.CustomResourceDefinitionList{}
		if err := c.List(ctx, crds); err != nil {
			t.Fatal(err)
		}
		for _, crd := range crds.Items {
			if crd.Spec.Group == "platform.quoin.dev" {
				return false
			}
		}
		return true
	})
}

// eventually waits until a condition is true, or fails the test after a minute.
func (c *cluster) eventually(t *testing.T, what string, condition func(ctx context.Context) bool, details ...string) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for !condition(t.Context()) {
		if time.Now().After(deadline) {
			t.Errorf("not within a minute: %s %s", what, strings.Join(details, " "))
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}
