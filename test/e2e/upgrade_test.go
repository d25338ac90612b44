package e2e_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/engine"
	"github.com/quoin-dev/quoin/internal/serving/certificates"
	"github.com/quoin-dev/quoin/test/e2e/internal/cluster"
	"github.com/quoin-dev/quoin/test/e2e/internal/gitserver"
	"github.com/quoin-dev/quoin/test/e2e/internal/servers"
)

const (
	// everyGit: one deployment in so many has its model in Git, and so an init container with Quoin's image.
	everyGit = 10
	// settles is how long the fleet may take to become ready, or to be reconciled again.
	settles = 10 * time.Minute
	// laterDeployment is created by the earlier controller after the CRDs were upgraded.
	laterDeployment = "later"
	// clients is the number of clients that send requests to the data API.
	clients = 4
)

// upgradeNamespace is the namespace of Quoin.
const upgradeNamespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: quoin-system}\n"

// An administrator upgrades the previous commit with Helm while clients use a fleet of deployments. Simulated nodes run no
// containers: processes of both commits stand for the pods of the chart, and are replaced as its Deployments replace pods.
// A server of this process responds for the pods of all deployments.
//
// QUOIN_UPGRADE is the number of deployments, QUOIN_UPGRADE_FROM the commit instead of HEAD~1; see make upgrade-check.
var _ = Describe("Upgrade of a fleet from the previous commit", Label(ownQuoin), func() {
	It("changes no pod template and fails no request, also if the leader is killed", func(ctx SpecContext) {
		count, err := strconv.Atoi(os.Getenv("QUOIN_UPGRADE"))
		if err != nil {
			Skip("QUOIN_UPGRADE is not set; run make upgrade-check")
		}
		onlySimulated("a fleet needs a bigger machine")
		u := startUpgrade(ctx)
		u.createFleet(ctx, count)
		before := u.workloads(ctx)
		Expect(len(before)).To(BeNumerically(">=", 3*count), "workloads, their ReplicaSets and pods")
		failures := u.load(ctx)

		By("upgrading the chart and the CRDs under the controller of the previous commit")
		u.helm(ctx, "upgrade", cluster.Repository("charts", "quoin"), "--reset-then-reuse-values", "--set=image.tag=next")
		u.install(ctx, laterDeployment)
		u.unchanged(ctx, before)
		before = u.workloads(ctx)

		By("killing that controller with three new ones waiting")
		holder := leaderNow(ctx)
		world.Use(u.binary)
		var next []*controller
		for range 3 {
			next = append(next, u.controller(ctx, "next"))
		}
		u.old.Kill()
		Eventually(leader).WithContext(ctx).ShouldNot(Or(BeEmpty(), Equal(holder)))
		u.reconcileAll(ctx, "new")

		By("replacing gateways and REST servers")
		u.gateways.Replace(ctx)
		u.rest.Replace(ctx)
		served := u.answered.Load()
		Eventually(u.answered.Load).WithContext(ctx).Should(BeNumerically(">", served+100), "by the new ones")

		By("killing the new leader")
		holder = leaderNow(ctx)
		for _, c := range next {
			if leads(c) {
				c.Kill()
			}
		}
		Eventually(leader).WithContext(ctx).ShouldNot(Or(BeEmpty(), Equal(holder)))
		u.reconcileAll(ctx, "newer")

		Expect(failures()).To(BeEmpty())
		u.unchanged(ctx, before)
		AddReportEntry("requests", u.answered.Load())
	}, SpecTimeout(3*settles))
})

// upgrade is an installation of the previous commit.
type upgrade struct {
	*tenant
	// previous is the folder with the sources of the previous commit, binary the binary of this one.
	previous, binary string
	old              *controller
	gateways, rest   *servers.Pool
	api              *servers.REST
	fleet            []endpoint
	answered         atomic.Int64
}

// endpoint is the data API of a deployment.
type endpoint struct{ url, token string }

// startUpgrade installs the chart of the previous commit, and starts its processes and an account.
func startUpgrade(ctx SpecContext) *upgrade {
	GinkgoHelper()
	u := &upgrade{tenant: &tenant{name: "fleet", digests: map[string]string{}}, binary: world.Binary()}
	u.previous = previousCommit(ctx, cmp.Or(os.Getenv("QUOIN_UPGRADE_FROM"), "HEAD~1"))
	u.push(ctx, "v1.2.3")
	u.register()
	takeOver(ctx)
	apply(ctx, upgradeNamespace)
	u.helm(ctx, "install", filepath.Join(u.previous, "charts", "quoin"),
		"--set=image.repository="+world.Env["QUOIN_REGISTRY"]+"/quoin,image.tag=previous,controller.replicas=3,apiserver.database.enabled=false")
	Expect(world.Connect(ctx)).To(Succeed())
	world.Use(filepath.Join(u.previous, "quoin"))
	DeferCleanup(func() { world.Use(u.binary) })
	u.old = u.controller(ctx, "previous")
	u.gateways = servers.StartPool(ctx, world, "gateway", "--sql-bind-address=0")
	u.rest = servers.StartPool(ctx, world, "apiserver", "--certificate-names="+world.Address())
	apply(ctx, fmt.Sprintf(tenantManifest, u.name, u.repository(), u.host(), world.GatewayPort(), false))
	kubectl(ctx, "wait", "acct/"+u.name, "relch/"+u.name, "--for=condition=Ready", "--timeout=60s")
	u.api = u.rest.REST(ctx, u.name, u.host())
	return u
}

// previousCommit returns a folder with the sources and the binary of a commit.
func previousCommit(ctx context.Context, name string) string {
	GinkgoHelper()
	folder, err := os.MkdirTemp(world.Dir, "previous-")
	Expect(err).NotTo(HaveOccurred())
	archive := filepath.Join(folder, "source.tar")
	for _, args := range [][]string{
		{"git", "-C", cluster.Repository(), "archive", "--output", archive, name},
		{"tar", "-xf", archive, "-C", folder},
		{"go", "build", "-C", folder, "-o", "quoin", "./cmd/quoin"},
	} {
		out, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput()
		Expect(err).NotTo(HaveOccurred(), "%v: %s", args, out)
	}
	return folder
}

// helm installs or upgrades the release, and waits for its pods.
func (u *upgrade) helm(ctx context.Context, command, chart string, args ...string) {
	GinkgoHelper()
	world.MustHelm(ctx, append([]string{command, "quoin", chart, "--wait", "--timeout=3m"}, args...)...)
}

// controller starts a controller that takes part in the election, with an image of Quoin of its own.
func (u *upgrade) controller(ctx context.Context, tag string) *controller {
	GinkgoHelper()
	c := runController(ctx, "--leader-elect", "--quoin-image="+world.Env["QUOIN_REGISTRY"]+"/quoin:"+tag)
	DeferCleanup(c.Kill)
	return c
}

// createFleet creates the deployments, waits until they are ready, and makes a server of this process respond for their pods.
func (u *upgrade) createFleet(ctx context.Context, count int) {
	GinkgoHelper()
	repository := gitserver.Start(world.Address())
	for i := range count {
		var settings []setting
		if i%everyGit == 0 {
			settings = append(settings, modelIn(repository.Source()))
		}
		u.create(ctx, fmt.Sprintf("fleet-%03d", i), settings...)
	}
	Eventually(func(ctx context.Context) ([]string, error) {
		return u.namesOf(ctx, func(d *v1alpha1.Deployment) bool {
			ready, err := beReady().Match(d)
			return err != nil || !ready
		})
	}).WithContext(ctx).WithTimeout(settles).WithPolling(time.Second).Should(BeEmpty(), "are not ready")
	u.respond(ctx)
	for i := range count {
		environment := v1alpha1.ProductionName(fmt.Sprintf("fleet-%03d", i))
		u.fleet = append(u.fleet, endpoint{u.dataURL(ctx, environment) + "/v1/meta", u.issue(ctx, u.api, "tokens", environment)})
	}
}

// respond starts a server with the data API, and gives all pods its address. A pod that is created later has none.
func (u *upgrade) respond(ctx context.Context) {
	GinkgoHelper()
	ip := ownAddress()
	listener, err := net.Listen("tcp", net.JoinHostPort(ip, strconv.Itoa(engine.PortHTTP)))
	Expect(err).NotTo(HaveOccurred(), "the port of the data API must be free")
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"cubes":[]}`) // the client has disconnected
	})}
	go func() { _ = server.Serve(listener) }() // until it is closed
	DeferCleanup(server.Close)
	pods := &corev1.PodList{}
	Expect(u.all(ctx, pods)).To(Succeed())
	patch := fmt.Appendf(nil, `{"status":{"podIP":%[1]q,"podIPs":[{"ip":%[1]q}]}}`, ip)
	for i := range pods.Items {
		Expect(world.API.Status().Patch(ctx, &pods.Items[i], client.RawPatch(types.MergePatchType, patch))).To(Succeed())
	}
}

// ownAddress returns an address of this machine that is not loopback, which Kubernetes rejects for pods. Packets stay on the
// machine.
func ownAddress() string {
	GinkgoHelper()
	all, err := net.InterfaceAddrs()
	Expect(err).NotTo(HaveOccurred())
	for _, address := range all {
		if ip, ok := address.(*net.IPNet); ok && ip.IP.IsGlobalUnicast() && ip.IP.To4() != nil {
			return ip.IP.String()
		}
	}
	Fail("this machine has no IPv4 address but loopback")
	return ""
}

// load starts clients of the data API of all deployments and of the REST API, each with its own connections. The result
// stops them and returns the requests that failed.
func (u *upgrade) load(ctx context.Context) func() []string {
	GinkgoHelper()
	var ends []func() []string
	start := func(c *http.Client, method func(i int) (url, token string)) {
		DeferCleanup(c.CloseIdleConnections)
		i := 0
		ends = append(ends, repeat(ctx, func(ctx context.Context) servers.Reply {
			i++
			url, token := method(i)
			r := servers.Send(ctx, c, http.MethodGet, url, token, "")
			if r.Status == http.StatusOK {
				u.answered.Add(1)
			}
			return r
		}))
	}
	for first := range clients {
		start(u.gateways.Client(ctx, certificates.GatewaySecretName), func(i int) (url, token string) {
			e := u.fleet[(first*len(u.fleet)/clients+i)%len(u.fleet)]
			return e.url, e.token
		})
	}
	start(u.rest.Client(ctx, certificates.SecretName), func(int) (url, token string) {
		return u.api.URL("/api/v1/deployments"), "Bearer " + u.api.Token
	})
	return func() []string {
		var failures []string
		for _, end := range ends {
			failures = append(failures, end()...)
		}
		return failures
	}
}

// workloads returns the workloads and ReplicaSets with their specs, and the pods. Generations may increase: those of apps/v1
// Deployments also count changes of annotations, such as the hash of the applied fields.
func (u *upgrade) workloads(ctx context.Context) map[string]string {
	GinkgoHelper()
	all := map[string]string{}
	add := func(o client.Object, spec any) {
		text, err := json.MarshalIndent(spec, "", " ") // lines, for the report of a difference
		Expect(err).NotTo(HaveOccurred())
		all[fmt.Sprintf("%T %s %s", o, o.GetName(), o.GetUID())] = string(text)
	}
	deployments, stateful, sets, pods := &appsv1.DeploymentList{}, &appsv1.StatefulSetList{}, &appsv1.ReplicaSetList{}, &corev1.PodList{}
	for _, list := range []client.ObjectList{deployments, stateful, sets, pods} {
		Expect(u.all(ctx, list)).To(Succeed())
	}
	for i := range deployments.Items {
		add(&deployments.Items[i], deployments.Items[i].Spec)
	}
	for i := range stateful.Items {
		add(&stateful.Items[i], stateful.Items[i].Spec)
	}
	for i := range sets.Items {
		add(&sets.Items[i], sets.Items[i].Spec)
	}
	for i := range pods.Items {
		add(&pods.Items[i], nil)
	}
	return all
}

// unchanged checks that the workloads are as before. There may be others.
func (u *upgrade) unchanged(ctx context.Context, before map[string]string) {
	GinkgoHelper()
	now := u.workloads(ctx)
	maps.DeleteFunc(now, func(name, _ string) bool { return before[name] == "" && strings.Contains(name, " "+laterDeployment) })
	Expect(gocmp.Diff(before, now)).To(BeEmpty(), "workloads (-before +after)")
}

// reconcileAll requests a reconciliation of all deployments, and waits until the leader has handled it.
func (u *upgrade) reconcileAll(ctx context.Context, request string) {
	GinkgoHelper()
	list := &v1alpha1.DeploymentList{}
	Expect(u.all(ctx, list)).To(Succeed())
	for i := range list.Items {
		d := &list.Items[i]
		before := d.DeepCopy()
		metav1.SetMetaDataAnnotation(&d.ObjectMeta, v1alpha1.AnnotationReconcile, request)
		Expect(world.API.Patch(ctx, d, client.MergeFrom(before))).To(Succeed())
	}
	Eventually(func(ctx context.Context) ([]string, error) {
		return u.namesOf(ctx, func(d *v1alpha1.Deployment) bool {
			ready, err := beReady().Match(d)
			return err != nil || !ready || d.Status.LastHandledReconcileAt != request
		})
	}).WithContext(ctx).WithTimeout(settles).WithPolling(time.Second).Should(BeEmpty(), "have not handled the request %s", request)
}

// leads reports whether a controller is active: only the leader starts workers.
func leads(c *controller) bool {
	GinkgoHelper()
	text, err := os.ReadFile(c.Log)
	Expect(err).NotTo(HaveOccurred())
	return strings.Contains(string(text), `msg="Starting workers"`)
}
