package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/test/e2e/internal/backups"
	"github.com/quoin-dev/quoin/test/e2e/internal/cluster"
	"github.com/quoin-dev/quoin/test/e2e/internal/servers"
	"github.com/quoin-dev/quoin/test/internal/keycloak"
)

// release is the name of the release of the chart.
const release = "quoin"

// chartNamespace is the namespace of Quoin.
const chartNamespace = `
apiVersion: v1
kind: Namespace
metadata: {name: quoin-system, labels: {pod-security.kubernetes.io/enforce: restricted}}
`

// chartNamespaces are the namespaces of Quoin and of the account, and the volume that a storage class would create.
const chartNamespaces = chartNamespace + `---
apiVersion: v1
kind: Namespace
metadata: {name: %[1]s, labels: {pod-security.kubernetes.io/enforce: restricted}}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: quoin-apiserver}
spec:
  capacity: {storage: 10Gi}
  accessModes: [ReadWriteOnce]
  persistentVolumeReclaimPolicy: Retain
  local: {path: %[2]s}
  nodeAffinity:
    required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/os, operator: In, values: [linux]}]}]}
`

// chartAccount are an account with an audit log and a deployment. The controller in a pod reaches the registry at its proxy.
const chartAccount = `
apiVersion: platform.quoin.dev/v1alpha1
kind: Account
metadata: {name: %[1]s}
spec: {host: %[1]s.example.com, namespace: %[1]s, plan: Enterprise, auditLog: {enabled: true}}
---
apiVersion: platform.quoin.dev/v1alpha1
kind: ReleaseChannel
metadata: {name: %[1]s}
spec: {imageRepository: %[2]s, interval: 1s, insecure: true}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: model, namespace: %[1]s}
data: {orders.yml: "cubes: [{name: orders, sql_table: public.orders}]"}
---
apiVersion: platform.quoin.dev/v1alpha1
kind: Deployment
metadata: {name: analytics, namespace: %[1]s}
spec: {releaseChannel: %[1]s, model: {configMapRef: {name: model}}}
`

// labelledEnvironment is a change of an Environment that the gateway must not make.
const labelledEnvironment = `
apiVersion: platform.quoin.dev/v1alpha1
kind: Environment
metadata: {name: %s, namespace: %s, labels: {by: gateway}}
`

// An administrator installs, changes and removes the Helm chart. All processes of Quoin are pods.
var _ = Describe("The Helm chart", Ordered, Label(ownQuoin), func() {
	const (
		aggregated = "v1.api.platform.quoin.dev"
		export     = "/api/v1/audit-logs/export"
		// testTimeout is the time in which the start-up check expects a response of a component.
		testTimeout = "15"
	)
	var (
		t       = &tenant{name: "chart", digests: map[string]string{}}
		i       = &installation{}
		install []string // arguments of helm install
		rest    *servers.REST
		data    *servers.Gateways
		url     string // of the data API
		token   string // of the data API
	)

	BeforeAll(func(ctx SpecContext) {
		onlyReal("simulated nodes run no containers")
		t.push(ctx, "v1.2.2", "v1.2.3")
		t.register()
		takeOver(ctx)
		i.registry = world.ProxyRegistry()
		volume := filepath.Join(world.Dir, "chart-volume")
		Expect(os.Mkdir(volume, 0o700)).To(Succeed())
		apply(ctx, fmt.Sprintf(chartNamespaces, t.name, volume))
		install = helmInstall("accountNamespaces={" + t.name + "},startupCheck.timeoutSeconds=" + testTimeout)
	})

	// deployments returns the numbers of ready pods.
	deployments := func(ctx context.Context) (map[string]int32, error) {
		list := &appsv1.DeploymentList{}
		err := world.API.List(ctx, list, client.InNamespace(cluster.Namespace))
		ready := map[string]int32{}
		for _, d := range list.Items {
			ready[d.Name] = d.Status.ReadyReplicas
		}
		return ready, err
	}
	// meta asks the data API.
	meta := func(ctx context.Context) servers.Reply {
		return data.Ask(ctx, http.MethodGet, url+"/v1/meta", token, "")
	}

	It("runs every component in pods of a namespace that enforces the Pod Security Standard restricted", func(ctx SpecContext) {
		world.MustHelm(ctx, install...)
		Expect(deployments(ctx)).To(Equal(map[string]int32{"quoin-apiserver": 1, "quoin-controller": 1, "quoin-gateway": 2}))
		pods := &corev1.PodList{}
		Expect(world.API.List(ctx, pods, client.InNamespace(cluster.Namespace))).To(Succeed())
		for _, pod := range pods.Items {
			Expect(pod.Spec.Containers).To(HaveEach(HaveField("Image", quoinImage())), pod.Name)
			Expect(pod.Status.ContainerStatuses).To(HaveEach(HaveField("RestartCount", BeZero())), pod.Name)
		}
		kubectl(ctx, "wait", "apiservice/"+aggregated, "--for=condition=Available", "--timeout=60s")
	})

	It("passes helm test", func(ctx SpecContext) {
		Expect(world.MustHelm(ctx, "test", release, "--logs", "--timeout=2m")).To(And(
			ContainSubstring("quoin-apiserver.quoin-system.svc:443 is ready"), ContainSubstring("quoin-controller-metrics.quoin-system.svc:8443 is ready"),
			ContainSubstring("quoin-gateway.quoin-system.svc:443 is ready"), ContainSubstring("quoin-gateway.quoin-system.svc:5432 is ready")))
	})

	It("runs a deployment, whose data API the gateway serves", func(ctx SpecContext) {
		apply(ctx, fmt.Sprintf(chartAccount, t.name, i.registry+"/"+t.images()))
		kubectl(ctx, "wait", "acct/"+t.name, "qdep/analytics", "-n", t.name, "--for=condition=Ready", "--timeout=90s")
		rest = servers.InstalledREST(ctx, world, t.name, t.name+".example.com")
		data = servers.InstalledGateways(ctx, world)
		url = t.dataURL(ctx, v1alpha1.ProductionName("analytics"))
		token = t.issue(ctx, rest, "tokens", v1alpha1.ProductionName("analytics"))
		Expect(url).To(HavePrefix("https://analytics.data.chart.example.com/"))
		Eventually(meta).WithContext(ctx).Should(And(servers.HaveStatus(http.StatusOK), HaveField("Text", ContainSubstring(`"cubes"`))))
	})

	It("creates, updates and deletes a deployment over REST, with a data model that Quoin keeps, consistently with kubectl", func(ctx SpecContext) {
		path := t.createOverREST(ctx, rest)
		Expect(t.pods(ctx, "sales")).To(ConsistOf(HaveField("Spec.InitContainers", ConsistOf(HaveField("Name", "model-fetch")))))
		t.changeVersions(ctx, rest, path)
		t.useAggregation(ctx, path)
		t.deleteOverREST(ctx, rest, path)
		kubectl(ctx, "delete", "qdep/from-kubectl", "-n", t.name, "--timeout=60s")
		Eventually(t.branches).WithContext(ctx).Should(BeEmpty())
		Eventually(t.deployment("analytics")).WithContext(ctx).Should(run("1.2.4"))
	}, SpecTimeout(5*time.Minute))

	It("provisions users and groups over SCIM with client credentials, consistently with kubectl", func(ctx SpecContext) {
		entraID.connect(ctx, t, rest).provision(ctx)
	}, SpecTimeout(3*time.Minute))

	Context("with the data model of a deployment in Git", t.followBranches)

	Context("with data models over REST", i.deployModels)

	Context("with access policies in a data model", i.seeTheirRows)

	It("rejects invalid objects, and changes that the gateway must not make", func(ctx SpecContext) {
		_, err := world.Kubectl(ctx, "", "patch", "qdep/analytics", "-n", t.name, "--type=merge", "-p", `{"spec":{"replicas":-1}}`)
		Expect(err).To(MatchError(ContainSubstring("spec.replicas")))
		// Not with kubectl patch, which reads the object: the gateway must not get one.
		_, err = world.Kubectl(ctx, fmt.Sprintf(labelledEnvironment, v1alpha1.ProductionName("analytics"), t.name),
			"apply", "--server-side", "-f", "-", "--as=system:serviceaccount:quoin-system:quoin-gateway")
		Expect(err).To(MatchError(ContainSubstring("the gateway must not change the metadata of an Environment")))
	})

	It("records changes with kubectl, which Kubernetes reports through the Service", func(ctx SpecContext) {
		t.patch(ctx, "qdep/analytics", `{"displayName": "Changed with kubectl"}`)
		Eventually(func() string { return rest.Ask(ctx, 0, http.MethodGet, export+"?search=kubectl", nil).Text }).WithContext(ctx).Should(
			MatchRegexp(`Updated deployment configuration,,kubernetes:\S+,1,Changed with kubectl`))
	})

	It("is backed up with the documented command, which copies the content in the pod of the API server", func(ctx SpecContext) {
		folder := backups.Create(ctx, world)
		Expect(os.Stat(filepath.Join(folder, backups.Archive))).To(HaveField("Mode()", os.FileMode(0o600)))
		Expect(strings.Contains(backups.RestoreContent(ctx, world, folder), "Changed with kubectl")).To(BeTrue(), "the archive has the audit log of the pod")
	})

	It("fails helm test while a component has no pods, and names it", func(ctx SpecContext) {
		kubectl(ctx, "scale", "deployment/quoin-gateway", "-n", cluster.Namespace, "--replicas=0")
		// Without other pods, a Service leads to pods that are terminating.
		Eventually(chartPods).WithContext(ctx).WithArguments("gateway").Should(BeEmpty())
		logs, err := world.Helm(ctx, "test", release, "--logs", "--timeout=1m")
		Expect(err).To(MatchError(ContainSubstring("pod quoin-startup-check failed")))
		Expect(logs).To(And(ContainSubstring("quoin-gateway.quoin-system.svc:443 is not ready after "+testTimeout+"s"),
			ContainSubstring("quoin-apiserver.quoin-system.svc:443 is ready")))
		kubectl(ctx, "scale", "deployment/quoin-gateway", "-n", cluster.Namespace, "--replicas=2")
		Eventually(deployments).WithContext(ctx).Should(HaveKeyWithValue("quoin-gateway", int32(2)))
	})

	It("has no failed request of the data API while an upgrade and a rollback replace the pods", func(ctx SpecContext) {
		before := chartPods(ctx, "gateway")
		// The node learns of the pods of a Service a moment after they are ready.
		Eventually(meta).WithContext(ctx).Should(servers.HaveStatus(http.StatusOK))
		failures := repeat(ctx, meta)
		world.MustHelm(ctx, "upgrade", release, cluster.Repository("charts", "quoin"), "--wait", "--timeout=3m", "--reset-then-reuse-values",
			"--set", "controller.replicas=2,gateway.replicas=3,gateway.log.level=debug,apiserver.log.level=debug")
		Expect(deployments(ctx)).To(Equal(map[string]int32{"quoin-apiserver": 1, "quoin-controller": 2, "quoin-gateway": 3}))
		Expect(chartPods(ctx, "gateway")).NotTo(ContainElements(before))
		world.MustHelm(ctx, "rollback", release, "1", "--wait", "--timeout=3m")
		Expect(deployments(ctx)).To(Equal(map[string]int32{"quoin-apiserver": 1, "quoin-controller": 1, "quoin-gateway": 2}))
		Expect(failures()).To(BeEmpty())
		world.MustHelm(ctx, "test", release, "--timeout=2m")
	}, SpecTimeout(6*time.Minute))

	It("leaves objects, workloads, keys and the audit log when it is removed, and finds them when it is installed again", func(ctx SpecContext) {
		pods, err := t.podNames(ctx, "analytics")
		Expect(err).NotTo(HaveOccurred())
		world.MustHelm(ctx, "uninstall", release, "--wait", "--timeout=2m")
		_, err = world.Kubectl(ctx, "", "get", "apiservice/"+aggregated)
		Expect(err).To(MatchError(ContainSubstring("NotFound")))
		Expect(deployments(ctx)).To(BeEmpty())
		Expect(strings.Fields(kubectl(ctx, "get", "quoin", "-n", t.name, "-o", "name"))).To(ContainElements(
			"account.platform.quoin.dev/chart", "releasechannel.platform.quoin.dev/chart", "deployment.platform.quoin.dev/analytics"))
		world.MustHelm(ctx, install...)
		rest, data = servers.InstalledREST(ctx, world, t.name, rest.Host), servers.InstalledGateways(ctx, world)
		// Through it the Kubernetes API server reports changes with kubectl.
		kubectl(ctx, "wait", "apiservice/"+aggregated, "--for=condition=Available", "--timeout=60s")
		t.patch(ctx, "qdep/analytics", `{"displayName": "Installed again"}`)
		Eventually(t.deployment("analytics")).WithContext(ctx).Should(run("1.2.4"))
		Expect(t.podNames(ctx, "analytics")).To(Equal(pods))
		Eventually(meta).WithContext(ctx).Should(servers.HaveStatus(http.StatusOK))
		Eventually(func() string { return rest.Ask(ctx, 0, http.MethodGet, export, nil).Text }).WithContext(ctx).Should(And(
			ContainSubstring("Changed with kubectl"), ContainSubstring("Installed again")))
		world.MustHelm(ctx, "test", release, "--timeout=2m")
	}, SpecTimeout(6*time.Minute))

	It("leaves nothing when it is removed as documented", func(ctx SpecContext) {
		kubectl(ctx, "delete", "acct/"+t.name, "relch/"+t.name, "--timeout=60s")
		world.MustHelm(ctx, "uninstall", release, "--wait", "--timeout=2m")
		kubectl(ctx, append([]string{"delete", "--timeout=60s"}, quoinCRDs(ctx)...)...)
		kubectl(ctx, "delete", "pvc/quoin-apiserver", "-n", cluster.Namespace, "--timeout=60s")
		left := kubectl(ctx, "get", "clusterroles,clusterrolebindings,rolebindings,apiservices,validatingwebhookconfigurations,validatingadmissionpolicies,"+
			"validatingadmissionpolicybindings,deployments,services,serviceaccounts,persistentvolumeclaims", "--all-namespaces", "-o", "name", "-l", "app.kubernetes.io/instance="+release)
		Expect(left).To(BeEmpty())
		Expect(quoinCRDs(ctx)).To(BeEmpty())
	})
})

// installation is the Helm chart on the cluster.
type installation struct {
	registry string           // address of the registry for pods
	idp      *keycloak.Server // the identity provider of journey j
}

// newTenant creates an account that the processes of the chart serve. Its channel has the real server.
func (i *installation) newTenant(ctx context.Context, name string, tags ...string) *tenant {
	return startTenant(ctx, &tenant{name: name, digests: map[string]string{}, server: true, registry: i.registry}, tags)
}

// takeOver stops the default controller and removes what it needs, so that the journey can install the chart. After the journey
// it removes the chart, and installs that again.
func takeOver(ctx context.Context) {
	GinkgoHelper()
	Expect(world.BuildHelm(ctx)).To(Succeed())
	runDefaultController(ctx) // removes the finalizers of accounts of journeys before
	awaitCalm(ctx)
	quoin.Stop()
	DeferCleanup(func(ctx SpecContext) {
		world.MustHelm(ctx, "uninstall", release, "--ignore-not-found", "--wait", "--timeout=2m")
		kubectl(ctx, "delete", "namespace/"+cluster.Namespace, "--ignore-not-found", "--timeout=90s")
		kubectl(ctx, "delete", "pv/quoin-apiserver", "--ignore-not-found", "--timeout=60s")
		Expect(world.Install(ctx)).To(Succeed())
	})
	Expect(world.Uninstall(ctx)).To(Succeed())
}

// helmInstall returns the arguments of helm install with additional values. Git servers need no certificates, and models must
// compile.
func helmInstall(values ...string) []string {
	repository, tag, _ := strings.Cut(quoinImage(), "/quoin:")
	args := []string{"install", release, cluster.Repository("charts", "quoin"), "--wait", "--timeout=3m"}
	for _, set := range append([]string{
		"image.repository=" + repository + "/quoin,image.tag=" + tag + ",apiserver.aggregation.enabled=true",
		"controller.extraArgs={--allow-insecure-git,--warm-up}",
	}, values...) {
		args = append(args, "--set", set)
	}
	return args
}

// chartPods returns the names of the pods of a component.
func chartPods(ctx context.Context, component string) []string {
	GinkgoHelper()
	list := &corev1.PodList{}
	Expect(world.API.List(ctx, list, client.InNamespace(cluster.Namespace), client.MatchingLabels{"app.kubernetes.io/component": component})).To(Succeed())
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return names
}

// quoinCRDs returns the CRDs of Quoin, for kubectl.
func quoinCRDs(ctx context.Context) []string {
	GinkgoHelper()
	var crds []string
	for name := range strings.FieldsSeq(kubectl(ctx, "get", "customresourcedefinitions", "-o", "name")) {
		if strings.HasSuffix(name, ".platform.quoin.dev") {
			crds = append(crds, name)
		}
	}
	return crds
}

// repeat sends requests one after the other until the function that it returns is called, which returns those that failed.
func repeat(ctx context.Context, ask func(context.Context) servers.Reply) func() []string {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	DeferCleanup(cancel)
	failed := make(chan []string, 1)
	go func() {
		var failures []string
		for ctx.Err() == nil {
			if r := ask(ctx); r.Status != http.StatusOK && ctx.Err() == nil {
				failures = append(failures, fmt.Sprintf("%s: %s", time.Now().Format(time.TimeOnly), r))
			}
			time.Sleep(20 * time.Millisecond)
		}
		failed <- failures
	}()
	return func() []string {
		cancel()
		return <-failed
	}
}
