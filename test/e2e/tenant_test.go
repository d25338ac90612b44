package e2e_test

import (
	"context"
	"fmt"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

// tenant is the account of a journey. Its namespace, its release channel and its image
// repository have the account's name.
type tenant struct {
	name string
	// digests of the images that were pushed, by tag.
	digests map[string]string
	// server says that the images are of the real server, and not of the sample one.
	server bool
}

// tenants are those that have not been removed: what a failure is about.
var tenants []*tenant

// tenantManifest is what an administrator applies for a new account. The namespace admits
// only pods that keep to the restricted Pod Security Standard. The channel looks often: the
// tests wait for it.
const tenantManifest = `
apiVersion: v1
kind: Namespace
metadata:
  name: %[1]s
  labels:
    pod-security.kubernetes.io/enforce: restricted
---
apiVersion: platform.quoin.dev/v1alpha1
kind: Account
metadata:
  name: %[1]s
spec:
  host: %[1]s.quoin.localhost
  namespace: %[1]s
---
apiVersion: platform.quoin.dev/v1alpha1
kind: ReleaseChannel
metadata:
  name: %[1]s
spec:
  imageRepository: %[2]s
  policy:
    preReleases: true # a broken version is named 1.2.5-broken
  interval: 1s
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: model
  namespace: %[1]s
data:
  orders.yml: "cubes: [{name: orders, sql_table: public.orders}]"
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: quoin-account
  namespace: %[1]s
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: quoin-account
subjects:
  - kind: ServiceAccount
    name: quoin-controller
    namespace: quoin-system
  - kind: ServiceAccount
    name: quoin-gateway
    namespace: quoin-system
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: quoin-account-apiserver
  namespace: %[1]s
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: quoin-account-apiserver
subjects:
  - kind: ServiceAccount
    name: quoin-apiserver
    namespace: quoin-system
`

// newTenant makes an account whose channel holds the given tags, and removes it after the journey.
func newTenant(ctx context.Context, name string, tags ...string) *tenant {
	return startTenant(ctx, &tenant{name: name, digests: map[string]string{}}, tags)
}

// newServerTenant is one whose channel holds the real server, in the versions that tags name.
func newServerTenant(ctx context.Context, name string, tags ...string) *tenant {
	return startTenant(ctx, &tenant{name: name, digests: map[string]string{}, server: true}, tags)
}

func startTenant(ctx context.Context, t *tenant, tags []string) *tenant {
	tenants = append(tenants, t)
	DeferCleanup(t.remove)
	t.push(ctx, tags...)
	apply(ctx, fmt.Sprintf(tenantManifest, t.name, t.repository()))
	kubectl(ctx, "wait", "acct/"+t.name, "relch/"+t.name, "--for=condition=Ready", "--timeout=60s")
	return t
}

// remove takes away all that the journey has left, so that the next one has the cluster for itself.
func (t *tenant) remove(ctx SpecContext) {
	runUsualController(ctx) // it lets the account go
	kubectl(ctx, "delete", "acct/"+t.name, "relch/"+t.name, "--ignore-not-found", "--timeout=60s")
	kubectl(ctx, "delete", "namespace", t.name, "--ignore-not-found", "--wait=false")
	tenants = slices.DeleteFunc(tenants, func(other *tenant) bool { return other == t })
}

// repository is where the channel looks for versions.
func (t *tenant) repository() string { return world.env["QUOIN_REGISTRY"] + "/" + t.name + "/cube" }

// push puts versions into the repository: images that say which version they are.
// One with -broken in its tag never becomes ready, on simulated nodes as on a real one.
func (t *tenant) push(ctx context.Context, tags ...string) {
	GinkgoHelper()
	for _, tag := range tags {
		args := []string{"push", t.name + "/cube", tag}
		if t.server {
			args = append(args, "--server", "--install-packages")
		}
		if strings.Contains(tag, "-broken") {
			args = append(args, "--broken")
		}
		reference, err := world.localcluster(ctx, args...)
		Expect(err).NotTo(HaveOccurred())
		_, t.digests[tag], _ = strings.Cut(strings.TrimSpace(reference), "@")
	}
}

// image is the reference by which pods run a tag: nobody can change what it means.
func (t *tenant) image(tag string) string {
	return t.repository() + ":" + tag + "@" + t.digests[tag]
}

// setting changes what a deployment of a journey asks for.
type setting func(*v1alpha1.DeploymentSpec)

func replicas(n int32) setting {
	return func(s *v1alpha1.DeploymentSpec) { s.Replicas = &n }
}

func progressDeadline(seconds int32) setting {
	return func(s *v1alpha1.DeploymentSpec) {
		s.Rollout = &v1alpha1.RolloutPolicy{ProgressDeadlineSeconds: &seconds}
	}
}

func pinnedTo(version string) setting {
	return func(s *v1alpha1.DeploymentSpec) { s.ReleaseChannelVersion = version }
}

func modelIn(git v1alpha1.GitSource) setting {
	return func(s *v1alpha1.DeploymentSpec) { s.Model = v1alpha1.ModelSource{Git: &git} }
}

// create makes a deployment that follows the tenant's channel. Its pods ask for little, so
// that many fit on one machine.
func (t *tenant) create(ctx context.Context, name string, settings ...setting) {
	GinkgoHelper()
	d := &v1alpha1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: t.name, Name: name},
		Spec: v1alpha1.DeploymentSpec{
			ReleaseChannel: t.name,
			Model:          v1alpha1.ModelSource{ConfigMapRef: &v1alpha1.LocalReference{Name: "model"}},
			Resources: &v1alpha1.ComponentResources{API: &v1alpha1.Resources{Requests: v1alpha1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("16Mi"),
			}}},
		},
	}
	for _, set := range settings {
		set(&d.Spec)
	}
	Expect(world.api.Create(ctx, d)).To(Succeed())
}

// install makes a deployment and waits until it runs.
func (t *tenant) install(ctx context.Context, name string, settings ...setting) {
	t.create(ctx, name, settings...)
	kubectl(ctx, "wait", "qdep/"+name, "-n", t.name, "--for=condition=Ready", "--timeout=90s")
}

// patch is kubectl patch of a spec: what people type who change one thing.
func (t *tenant) patch(ctx context.Context, object, spec string) {
	kubectl(ctx, "patch", object, "-n", t.name, "--type=merge", "-p", `{"spec":`+spec+`}`)
}

// all lists the objects of a kind in the tenant's namespace.
func (t *tenant) all(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return world.api.List(ctx, list, append(opts, client.InNamespace(t.name))...)
}
