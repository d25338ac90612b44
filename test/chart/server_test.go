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

// cluster is an API server without controllers and nodes.
type cluster struct {
	client.Client
	kubeconfig string
}

// newCluster starts an API server for the test. Where the binaries are missing the test is
// skipped; in CI it fails, because there nobody would see it.
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

// kubectl runs the kubectl of the API server's version.
func (c *cluster) kubectl(t *testing.T, args ...string) string {
	t.Helper()
	binary := filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kubectl")
	output, err := exec.CommandContext(t.Context(), binary, append([]string{"--kubeconfig", c.kubeconfig}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, output)
	}
	return string(output)
}

// TestAPIServerTakesEveryObject sends every object as a dry run: defaults, validation and
// field names are those of Kubernetes.
func TestAPIServerTakesEveryObject(t *testing.T) {
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

// TestPodSecurityAdmission asks Kubernetes whether the pods are restricted.
func TestPodSecurityAdmission(t *testing.T) {
	c := newCluster(t)
	c.namespaces(t, releaseNamespace)
	create := func(deployment *appsv1.Deployment, change func(*corev1.PodSpec)) error {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "controller", Namespace: releaseNamespace}, Spec: deployment.Spec.Template.Spec}
		change(&pod.Spec)
		// What the cluster would have to know for it.
		pod.Spec.PriorityClassName = ""
		return c.Create(t.Context(), pod, client.DryRunAll)
	}
	asIs := func(*corev1.PodSpec) {}
	eachValues(t, func(t *testing.T, args []string) {
		for _, object := range render(t, args...).ofKind("Deployment") {
			if err := create(convert[appsv1.Deployment](t, object), asIs); err != nil {
				t.Error(err)
			}
		}
	})
	for _, file := range components {
		if err := create(only[appsv1.Deployment](t, readConfig(t, "manager/"+file+".yaml"), "Deployment"), asIs); err != nil {
			t.Error(err)
		}
	}
	config := only[appsv1.Deployment](t, readConfig(t, "manager/controller.yaml"), "Deployment")
	err := create(config, func(pod *corev1.PodSpec) { pod.SecurityContext.SeccompProfile = nil })
	if !errors.IsForbidden(err) || !strings.Contains(err.Error(), "PodSecurity") {
		t.Errorf("a pod that is not restricted: %v", err)
	}
}

// TestKustomizeTreeApplies applies each folder as its README says.
func TestKustomizeTreeApplies(t *testing.T) {
	c := newCluster(t)
	// Without --server-side too, where a CRD has to fit into an annotation.
	c.kubectl(t, "apply", "--dry-run=server", "-k", filepath.Join(root, "config", "crd"))
	for _, folder := range []string{"crd", "rbac", "aggregation", "audit", "default", "prometheus", "network-policy"} {
		// Twice: nothing may change the second time.
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

// TestLifeOfARelease installs, upgrades, uninstalls and installs again.
func TestLifeOfARelease(t *testing.T) {
	c := newCluster(t)
	c.namespaces(t, releaseNamespace, "tenant-a", "tenant-b")

	old := copyChart(t, "quoin")
	outdate(t, old)
	c.helm(t, "install", releaseName, old)
	c.wantRights(t, "quoin-controller", right{"tenant-a", "secrets", "get", false}, right{releaseNamespace, "secrets", "get", true})
	c.wantRights(t, "quoin-gateway", right{"tenant-a", "secrets", "get", false})
	c.wantRights(t, "quoin-apiserver", right{"tenant-a", "secrets", "get", false}, right{"tenant-a", "secrets", "create", false})
	account := c.createAccount(t)

	// An upgrade brings CRDs up to date; "helm.sh/resource-policy: keep" must not stop it.
	c.helm(t, "upgrade", releaseName, chartFolder, "--set", "controller.replicas=2,accountNamespaces={tenant-a}")
	if got := c.crd(t, "claims.platform.quoin.dev").Spec.Names.ShortNames; len(got) != 1 || got[0] != "qclaim" {
		t.Errorf("short names after the upgrade: %v", got)
	}
	deployment := &appsv1.Deployment{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: releaseNamespace, Name: "quoin-controller"}, deployment); err != nil || *deployment.Spec.Replicas != 2 {
		t.Errorf("after the upgrade: %v, %v replicas", err, *deployment.Spec.Replicas)
	}
	for _, account := range []string{"quoin-controller", "quoin-gateway", "quoin-apiserver"} {
		c.wantRights(t, account,
			right{"tenant-a", "secrets", "get", true},
			right{"tenant-a", "secrets", "list", false},
			right{"tenant-a", "secrets", "watch", false},
			right{"tenant-b", "secrets", "get", false},
			right{"", "secrets", "get", false},
			right{"", "secrets", "list", false},
			right{"tenant-b", "deployments", "list", true},
		)
	}
	c.wantRights(t, "quoin-gateway",
		right{releaseNamespace, "secrets", "create", true},
		right{releaseNamespace, "secrets", "get", false},
		right{"tenant-a", "secrets", "create", false},
		right{"tenant-a", "environments", "patch", true},
		right{"tenant-a", "environments/status", "patch", false},
		right{"tenant-a", "deployments", "patch", false},
		right{"", "accounts", "patch", false},
	)
	c.wantRights(t, "quoin-apiserver",
		right{releaseNamespace, "secrets", "create", true},
		right{releaseNamespace, "secrets", "get", false},
		right{releaseNamespace, "secrets", "patch", false},
		right{"tenant-a", "secrets", "create", true},
		right{"tenant-a", "secrets", "patch", true},
		right{"tenant-a", "secrets", "update", false},
		right{"tenant-a", "secrets", "delete", false},
		right{"tenant-b", "secrets", "create", false},
		right{"tenant-b", "secrets", "patch", false},
		right{"", "secrets", "create", false},
	)
	c.wantRights(t, "quoin-controller",
		right{"tenant-b", "deployments/status", "patch", true},
		right{"", "accounts", "watch", true},
		right{"", "accounts", "delete", false},
	)

	// What users have stays when the release goes, and is there when it comes back.
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

	// Unless somebody says otherwise.
	c.helm(t, "uninstall", releaseName)
	c.waitForNoCRDs(t)
}

// outdate makes the chart one that an earlier release might have been.
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

// createAccount makes an object of ours, with as little as the CRD asks for.
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

// right is what a program may or may not do with a resource.
type right struct {
	namespace, resource, verb string
	allowed                   bool
}

// wantRights asks the API server what an account of the release may do.
func (c *cluster) wantRights(t *testing.T, account string, rights ...right) {
	t.Helper()
	for _, r := range rights {
		resource, subresource, _ := strings.Cut(r.resource, "/")
		group := "platform.quoin.dev"
		if resource == "secrets" {
			group = ""
		}
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User:   "system:serviceaccount:" + releaseNamespace + ":" + account,
			Groups: []string{"system:serviceaccounts", "system:authenticated"},
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: r.namespace, Verb: r.verb, Group: group, Resource: resource, Subresource: subresource,
			},
		}}
		// The authorizer learns of new roles by a watch.
		c.eventually(t, "the rights are as wanted", func(ctx context.Context) bool {
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

// waitForNoCRDs waits until the CRDs of ours are gone, with everything of their kinds.
func (c *cluster) waitForNoCRDs(t *testing.T) {
	t.Helper()
	c.eventually(t, "the CRDs are gone", func(ctx context.Context) bool {
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

// eventually waits for what the API server does a moment later.
func (c *cluster) eventually(t *testing.T, what string, happened func(ctx context.Context) bool, details ...string) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for !happened(t.Context()) {
		if time.Now().After(deadline) {
			t.Errorf("not within a minute: %s %s", what, strings.Join(details, " "))
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}
