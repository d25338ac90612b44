package chart_test

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/apikey"
)

// inOneNamespace are the values of a release that works in one namespace.
const inOneNamespace = "watchNamespaces={tenant-a},accountNamespaces={tenant-a}"

// restrictedTenants are accounts in a namespace that Quoin works in and in another one.
const restrictedTenants = `
apiVersion: platform.quoin.dev/v1alpha1
kind: ReleaseChannel
metadata: {name: latest}
spec:
  imageRepository: registry.example.com/cube
  versions: [{version: 1.2.3, digest: "sha256:%[1]s"}]
---
apiVersion: platform.quoin.dev/v1alpha1
kind: Account
metadata: {name: a}
spec: {host: a.example.com, namespace: tenant-a}
---
apiVersion: platform.quoin.dev/v1alpha1
kind: Account
metadata: {name: b}
spec: {host: b.example.com, namespace: tenant-b}
---
apiVersion: platform.quoin.dev/v1alpha1
kind: Deployment
metadata: {name: sales, namespace: tenant-a}
spec: {releaseChannel: latest, model: {configMapRef: {name: model}}}
---
apiVersion: platform.quoin.dev/v1alpha1
kind: Deployment
metadata: {name: sales, namespace: tenant-b}
spec: {releaseChannel: latest, model: {configMapRef: {name: model}}}
---
apiVersion: platform.quoin.dev/v1alpha1
kind: ApiKey
metadata: {name: admin, namespace: tenant-a}
spec: {permissions: [Admin], token: {id: %[2]q, sha256: %[3]q}}
`

// grant is what a rule permits: one verb on one resource.
type grant struct{ group, resource, name, verb string }

// grants returns what rules permit.
func grants(rules []rbacv1.PolicyRule) map[grant]bool {
	found := map[grant]bool{}
	for _, rule := range rules {
		names := rule.ResourceNames
		if len(names) == 0 {
			names = []string{""}
		}
		for _, resource := range rule.Resources {
			for _, name := range names {
				for _, verb := range rule.Verbs {
					found[grant{rule.APIGroups[0], resource, name, verb}] = true
				}
			}
		}
	}
	return found
}

// With watchNamespaces, a ClusterRole has only reads of Quoin's kinds and what has no namespace. Together with the Role in each
// namespace it permits what it permits without.
func TestWatchNamespacesRestrictTheRoles(t *testing.T) {
	all := render(t, "--set", "watchNamespaces={tenant-a,tenant-b}")
	config := configRoles(t)
	for _, component := range components {
		name := "quoin-" + component
		if got := argument(only[appsv1.Deployment](t, all.of(component), "Deployment"), "watch-namespaces"); got != "tenant-a,tenant-b" {
			t.Errorf("%s: --watch-namespaces=%s", component, got)
		}
		permitted := grants(only[rbacv1.ClusterRole](t, all.named(name), "ClusterRole").Rules)
		for g := range permitted {
			if !isClusterWide(g) {
				t.Errorf("%s may %s %s.%s in all namespaces", component, g.verb, g.resource, g.group)
			}
		}
		bound := map[string]int{}
		for _, object := range all.named(name) {
			switch object.GetKind() {
			case "Role":
				if object.GetNamespace() != releaseNamespace {
					maps.Copy(permitted, grants(convert[rbacv1.Role](t, object).Rules))
				}
			case "RoleBinding":
				binding := convert[rbacv1.RoleBinding](t, object)
				if binding.RoleRef.Kind == "Role" && binding.RoleRef.Name == name && binding.Subjects[0].Name == name {
					bound[binding.Namespace]++
				}
			}
		}
		if want := map[string]int{releaseNamespace: 1, "tenant-a": 1, "tenant-b": 1}; !maps.Equal(bound, want) {
			t.Errorf("%s: RoleBindings %v, want %v", component, bound, want)
		}
		if want := grants(config["ClusterRole "+name].rules); !maps.Equal(permitted, want) {
			t.Errorf("%s: permitted %v\nwant %v", component, permitted, want)
		}
	}
}

// isClusterWide reports whether a component may have a permission in all namespaces.
func isClusterWide(g grant) bool {
	switch g.group {
	case "authentication.k8s.io", "authorization.k8s.io", "apiregistration.k8s.io", "events.k8s.io":
		return true
	case "":
		return g.resource == "namespaces"
	case v1alpha1.GroupVersion.Group:
		plural, _, _ := strings.Cut(g.resource, "/")
		return slices.Contains([]string{"accounts", "modelendpoints", "releasechannels"}, plural) || slices.Contains([]string{"get", "list", "watch"}, g.verb)
	}
	return false
}

// TestWatchNamespaces runs the components as their ServiceAccounts in a release that is restricted to one namespace: an account
// in it works, one in another namespace is not served, and nothing is written there.
func TestWatchNamespaces(t *testing.T) {
	c, binary := newCluster(t), buildQuoin(t)
	c.namespaces(t, releaseNamespace, "tenant-a", "tenant-b")
	c.helm(t, "install", releaseName, chartFolder, "--set", inOneNamespace)
	c.wantPermissions(t, "quoin-controller",
		permission{"tenant-a", "deployments.apps", "create", true}, permission{"tenant-b", "deployments.apps", "create", false},
		permission{"kube-system", "deployments.apps", "create", false}, permission{releaseNamespace, "deployments.apps", "patch", false},
		permission{"tenant-b", "secrets", "create", false}, permission{"tenant-b", "deployments/status", "patch", false},
		permission{"tenant-b", "deployments", "get", true}, permission{"", "pods", "list", false}, permission{"", "accounts/status", "patch", true})
	token, err := apikey.New(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	hash := token.Hash()
	file := filepath.Join(t.TempDir(), "tenants.yaml")
	writeFile(t, file, fmt.Sprintf(restrictedTenants, strings.Repeat("0", 64), hash.ID, hash.SHA256))
	c.kubectl(t, "wait", "crd", "--all", "--for=condition=Established")
	c.kubectl(t, "create", "-f", file)
	controller, stopController := c.run(t, "controller", binary, "--health-probe-bind-address=0", "--metrics-bind-address=0", "--watch-namespaces=tenant-a")
	c.wantOneServed(t)
	roots, apiserver, stopAPIServer := c.runRestrictedServer(t, binary, "apiserver", "--database-url=")
	gatewayRoots, gateway, stopGateway := c.runRestrictedServer(t, binary, "gateway", "--sql-bind-address=0", "--wait-timeout=0s")
	c.wantData(t, gatewayRoots, gateway.address)
	if got, body := get(t, roots, apiserver.address, "https://b.example.com/api/v1/deployments", token.Reveal()); got != http.StatusNotFound {
		t.Errorf("account b over REST: %d %s", got, body)
	}
	if got, body := call(t, http.MethodDelete, roots, apiserver.address, "https://a.example.com/api/v1/deployments/1", token.Reveal()); got/100 != 2 {
		t.Errorf("deletion over REST: %d %s", got, body)
	}
	c.wantDeleted(t)
	stopGateway()
	stopAPIServer()
	stopController()
	for _, log := range []*safeLog{controller, apiserver.log, gateway.log} {
		wantNoForbidden(t, log)
	}
}

// runningServer is a server of a component.
type runningServer struct {
	address string
	log     *safeLog
}

// runRestrictedServer starts a component that serves HTTPS, and waits until it is ready.
func (c *cluster) runRestrictedServer(t *testing.T, binary, component string, args ...string) (*x509.CertPool, runningServer, func()) {
	t.Helper()
	health, address := freeAddress(t), freeAddress(t)
	log, stop := c.run(t, component, binary, append(args, "--health-probe-bind-address="+health, "--bind-address="+address,
		"--metrics-bind-address=0", "--shutdown-delay=0s", "--watch-namespaces=tenant-a")...)
	c.eventually(t, component+" is ready", func(ctx context.Context) bool { return status(ctx, "http://"+health+"/readyz", "") == http.StatusOK })
	roots := x509.NewCertPool()
	c.eventually(t, component+" has a certificate", func(ctx context.Context) bool {
		secret := &corev1.Secret{}
		err := c.Get(ctx, client.ObjectKey{Namespace: releaseNamespace, Name: "quoin-" + component + "-tls"}, secret)
		return err == nil && roots.AppendCertsFromPEM(secret.Data["ca.crt"])
	})
	return roots, runningServer{address, log}, stop
}

// wantOneServed waits until the account and the deployment in tenant-a work, and checks that nothing was done in tenant-b.
func (c *cluster) wantOneServed(t *testing.T) {
	t.Helper()
	c.kubectl(t, "wait", "account/a", "releasechannel/latest", "--for=condition=Ready", "--timeout=60s")
	c.kubectl(t, "wait", "account/b", "--for=condition=Stalled", "--timeout=60s")
	message := c.kubectl(t, "get", "account/b", "-o", "jsonpath={.status.conditions[?(@.type=='Ready')]}")
	if !strings.Contains(message, "NamespaceNotWatched") || !strings.Contains(message, `restricted to other namespaces than \"tenant-b\"`) {
		t.Errorf("account b: %s", message)
	}
	// The controller watches ConfigMaps.
	for _, namespace := range []string{"tenant-a", "tenant-b"} {
		c.kubectl(t, "create", "configmap", "model", "-n", namespace, "--from-literal=orders.yml=cubes: []")
	}
	workloads := &appsv1.DeploymentList{}
	c.eventually(t, "the deployment in tenant-a has a workload", func(ctx context.Context) bool {
		return c.List(ctx, workloads, client.InNamespace("tenant-a")) == nil && len(workloads.Items) > 0
	})
	for _, list := range []client.ObjectList{&appsv1.DeploymentList{}, &corev1.ServiceList{}, &corev1.SecretList{}, &networkingv1.NetworkPolicyList{}, &corev1.ServiceAccountList{}} {
		if err := c.List(t.Context(), list, client.InNamespace("tenant-b"), client.MatchingLabels{"app.kubernetes.io/managed-by": "quoin"}); err != nil {
			t.Fatal(err)
		}
		if text := fmt.Sprint(list); strings.Contains(text, "tenant-b") {
			t.Errorf("objects in tenant-b: %s", text)
		}
	}
	if got := c.kubectl(t, "get", "deployments.platform.quoin.dev,environments", "-n", "tenant-b", "-o", "jsonpath={range .items[*]}{.kind} {.status.conditions}{end}"); got != "Deployment " {
		t.Errorf("in tenant-b: %s", got)
	}
}

// wantData checks that the gateway routes to the pods of the namespace, and has no route to the account in the other one.
func (c *cluster) wantData(t *testing.T, roots *x509.CertPool, address string) {
	t.Helper()
	secret := &corev1.Secret{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "tenant-a", Name: "sales-production-credentials"}, secret); err != nil {
		t.Fatal(err)
	}
	ask := func(account string) (int, string) {
		return get(t, roots, address, "https://sales.data."+account+".example.com/cubejs-api/v1/load", signed(t, string(secret.Data["apiSecret"])))
	}
	c.wantCertificate(t, roots, address, "sales.data.a.example.com", "sales.data.b.example.com")
	if got, body := ask("a"); got != http.StatusServiceUnavailable || !strings.Contains(body, "no pod of the environment is ready") {
		t.Errorf("account a: %d %s", got, body)
	}
	if got, body := ask("b"); got != http.StatusNotFound {
		t.Errorf("account b: %d %s", got, body)
	}
	c.createPodEndpoint(t)
	c.eventually(t, "the gateway has the pod", func(context.Context) bool {
		got, body := ask("a")
		return got == http.StatusOK && body == "from the pod"
	})
}

// createPodEndpoint starts a server in the place of the pod of tenant-a, and creates the EndpointSlice that Kubernetes creates.
func (c *cluster) createPodEndpoint(t *testing.T) {
	t.Helper()
	services := &corev1.ServiceList{}
	if err := c.List(t.Context(), services, client.InNamespace("tenant-a")); err != nil || len(services.Items) != 1 {
		t.Fatalf("%d Services, want 1: %v", len(services.Items), err)
	}
	pod := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "from the pod") }))
	pod.Listener = listenOutsideOfLoopback(t)
	pod.Start()
	t.Cleanup(pod.Close)
	address, _ := pod.Listener.Addr().(*net.TCPAddr)
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Name: "pods", Namespace: "tenant-a", Labels: map[string]string{
			discoveryv1.LabelServiceName: services.Items[0].Name, "app.kubernetes.io/managed-by": "quoin",
		}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{address.IP.String()}}},
		Ports:       []discoveryv1.EndpointPort{{Name: ptr.To("http"), Port: ptr.To(int32(address.Port))}},
	}
	if err := c.Create(t.Context(), slice); err != nil {
		t.Fatal(err)
	}
}

// listenOutsideOfLoopback listens on an address of this machine that Kubernetes accepts as that of a pod.
func listenOutsideOfLoopback(t *testing.T) net.Listener {
	t.Helper()
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, address := range addresses {
		ip, ok := address.(*net.IPNet)
		if !ok || !ip.IP.IsGlobalUnicast() || ip.IP.To4() == nil {
			continue
		}
		listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", net.JoinHostPort(ip.IP.String(), "0"))
		if err != nil {
			t.Fatal(err)
		}
		return listener
	}
	t.Fatal("this machine has no IPv4 address but loopback")
	return nil
}

// wantDeleted deletes both accounts. The one whose objects Quoin may not delete says so, and is deleted when they are.
func (c *cluster) wantDeleted(t *testing.T) {
	t.Helper()
	c.kubectl(t, "delete", "account", "a", "--timeout=60s")
	c.kubectl(t, "delete", "account", "b", "--wait=false")
	c.eventually(t, "account b names what is left", func(context.Context) bool {
		message := c.kubectl(t, "get", "account/b", "-o", "jsonpath={.status.conditions[?(@.type=='Stalled')].message}")
		return strings.Contains(message, `Deployment sales is not deleted: this installation of Quoin may not write in namespace "tenant-b"`)
	})
	c.kubectl(t, "delete", "deployments.platform.quoin.dev", "sales", "-n", "tenant-b", "--timeout=60s")
	c.kubectl(t, "wait", "account/b", "--for=delete", "--timeout=60s")
}
