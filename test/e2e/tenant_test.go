package e2e_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/test/e2e/internal/recording"
	"github.com/quoin-dev/quoin/test/e2e/internal/servers"
)

// tenant is the account of a journey. Its namespace and channel have the same name.
type tenant struct {
	name string
	// digests are the digests of the pushed images, by tag.
	digests map[string]string
	// server is true if the images are of the real server instead of the sample server.
	server bool
	// registry is the address of the registry for the controller of the Helm chart, which is in a pod. It is empty if the
	// default controller serves the account.
	registry string
}

// tenants are the existing tenants, for the report of a failure.
var tenants []*tenant

// tenantManifest is the manifest of a new account. The namespace enforces the Pod Security Standard "restricted". The channel
// has a short scan interval.
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
  host: %[3]s
  dataDomain: data.%[1]s.quoin.localhost:%[4]d
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
  insecure: %[5]t # not needed for a registry on loopback
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

// newTenant creates an account whose channel has the tags, and deletes it after the journey.
func newTenant(ctx context.Context, name string, tags ...string) *tenant {
	return startTenant(ctx, &tenant{name: name, digests: map[string]string{}}, tags)
}

// newServerTenant creates an account whose channel has the real server, in the versions of the tags.
func newServerTenant(ctx context.Context, name string, tags ...string) *tenant {
	return startTenant(ctx, &tenant{name: name, digests: map[string]string{}, server: true}, tags)
}

func startTenant(ctx context.Context, t *tenant, tags []string) *tenant {
	t.register()
	t.push(ctx, tags...)
	t.awaitRemoval(ctx)
	apply(ctx, fmt.Sprintf(tenantManifest, t.name, t.repository(), t.host(), world.GatewayPort(), t.registry != ""))
	kubectl(ctx, "wait", "acct/"+t.name, "relch/"+t.name, "--for=condition=Ready", "--timeout=60s")
	return t
}

// register deletes the tenant after the journey.
func (t *tenant) register() {
	tenants = append(tenants, t)
	DeferCleanup(t.remove)
}

// remove deletes all objects of the journey.
func (t *tenant) remove(ctx SpecContext) {
	if t.registry == "" {
		runDefaultController(ctx) // removes the finalizer of the account
	}
	kubectl(ctx, "delete", "acct/"+t.name, "relch/"+t.name, "--ignore-not-found", "--timeout=5m") // of a fleet too
	kubectl(ctx, "delete", "namespace", t.name, "--ignore-not-found", "--wait=false")
	tenants = slices.DeleteFunc(tenants, func(other *tenant) bool { return other == t })
}

// awaitRemoval waits until the namespace of a journey before, whose account had the same name, has been deleted.
func (t *tenant) awaitRemoval(ctx context.Context) {
	GinkgoHelper()
	Eventually(func() bool {
		err := world.API.Get(ctx, client.ObjectKey{Name: t.name}, &corev1.Namespace{})
		return apierrors.IsNotFound(err)
	}).WithContext(ctx).WithTimeout(2*time.Minute).Should(BeTrue(), "namespace %s is deleted", t.name)
}

// repository returns the image repository of the channel.
func (t *tenant) repository() string {
	return cmp.Or(t.registry, world.Env["QUOIN_REGISTRY"]) + "/" + t.images()
}

// images returns the name of the repository. The versions of the real server and of the sample server are in different ones,
// because journeys with the same account run one after the other.
func (t *tenant) images() string {
	if t.server {
		return t.name + "/server"
	}
	return t.name + "/cube"
}

// host returns the host of the account, with the port of the REST and SCIM server.
func (t *tenant) host() string { return fmt.Sprintf("%s.quoin.localhost:%d", t.name, world.RESTPort()) }

// startREST starts the REST and SCIM server with additional flags, and a client of the account's host.
func startREST(ctx context.Context, t *tenant, flags ...string) *servers.REST {
	GinkgoHelper()
	return servers.StartREST(ctx, world, t.name, t.host(), flags...)
}

// key creates an API key with a spec in YAML, and returns its token.
func (t *tenant) key(ctx context.Context, name, spec string) string {
	GinkgoHelper()
	apply(ctx, fmt.Sprintf("apiVersion: platform.quoin.dev/v1alpha1\nkind: ApiKey\nmetadata: {name: %s, namespace: %s}\nspec: {%s}\n", name, t.name, spec))
	kubectl(ctx, "wait", "qkey/"+name, "-n", t.name, "--for=condition=Ready", "--timeout=60s")
	secret := &corev1.Secret{}
	Expect(world.API.Get(ctx, client.ObjectKey{Namespace: t.name, Name: name + "-token"}, secret)).To(Succeed())
	return string(secret.Data["token"])
}

// push pushes images with the tags, which report their version. Images with -broken in the tag never become ready, on
// simulated and real nodes.
func (t *tenant) push(ctx context.Context, tags ...string) {
	GinkgoHelper()
	for _, tag := range tags {
		args := []string{"push", t.images(), tag}
		if t.server {
			args = append(args, "--server", "--install-packages")
		}
		if strings.Contains(tag, "-broken") {
			args = append(args, "--broken")
		}
		reference, err := world.Localcluster(ctx, args...)
		Expect(err).NotTo(HaveOccurred())
		_, t.digests[tag], _ = strings.Cut(strings.TrimSpace(reference), "@")
	}
}

// image returns the reference of a tag, with its digest, that pods use.
func (t *tenant) image(tag string) string {
	return t.repository() + ":" + tag + "@" + t.digests[tag]
}

// setting changes the spec of a deployment.
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

// create creates a deployment that follows the tenant's channel. Its resource requests are small.
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
	Expect(world.API.Create(ctx, d)).To(Succeed())
}

// install creates a deployment and waits until it is Ready.
func (t *tenant) install(ctx context.Context, name string, settings ...setting) {
	t.create(ctx, name, settings...)
	kubectl(ctx, "wait", "qdep/"+name, "-n", t.name, "--for=condition=Ready", "--timeout=90s")
}

// patch patches a spec with kubectl.
func (t *tenant) patch(ctx context.Context, object, spec string) {
	kubectl(ctx, "patch", object, "-n", t.name, "--type=merge", "-p", `{"spec":`+spec+`}`)
}

// all lists the objects of a kind in the tenant's namespace.
func (t *tenant) all(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return world.API.List(ctx, list, append(opts, client.InNamespace(t.name))...)
}

// snapshot is the state between two writes of a recording.
type snapshot = recording.Snapshot

// record starts a recording of the tenant's Quoin Deployments and of the objects in the lists.
func (t *tenant) record(ctx context.Context, lists ...client.ObjectList) *recording.Recording {
	GinkgoHelper()
	return recording.Start(ctx, world.API, t.name, lists...)
}
