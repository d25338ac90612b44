package contract_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/internal/engine"
)

// kubelet is the API of a node from which kube-apiserver reads logs. There are no containers.
type kubelet struct {
	mu   sync.Mutex
	logs map[string]string // by namespace/pod/container, with -previous
}

// startKubelet creates a Node with such an API.
func startKubelet(t *testing.T, name string) *kubelet {
	t.Helper()
	k := &kubelet{logs: map[string]string{}}
	server := httptest.NewTLSServer(k)
	t.Cleanup(server.Close)
	_, text, _ := net.SplitHostPort(server.Listener.Addr().String())
	port, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	createUntilEnd(t, n)
	before := client.MergeFrom(n.DeepCopy())
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}}
	n.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(port)
	if err := k8s.Status().Patch(t.Context(), n, before); err != nil {
		t.Fatal(err)
	}
	return k
}

// createUntilEnd creates an object that is deleted at the end of the test.
func createUntilEnd(t *testing.T, o client.Object) {
	t.Helper()
	if err := k8s.Create(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := k8s.Delete(context.WithoutCancel(t.Context()), o, client.GracePeriodSeconds(0)); client.IgnoreNotFound(err) != nil {
			t.Error(err)
		}
	})
}

func (k *kubelet) write(name string, lines ...string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.logs[name] += strings.Join(lines, "\n") + "\n"
}

func (k *kubelet) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	k.mu.Lock()
	defer k.mu.Unlock()
	name, found := strings.CutPrefix(r.URL.Path, "/containerLogs/")
	query := r.URL.Query()
	if query.Get("previous") == "true" {
		name += "-previous"
	}
	text, known := k.logs[name]
	tail, err := strconv.Atoi(query.Get("tailLines"))
	if !found || !known || err != nil || query.Get("timestamps") != "true" || query.Get("limitBytes") == "" {
		http.Error(w, "the node has no such log", http.StatusInternalServerError)
		return
	}
	lines := strings.SplitAfter(strings.TrimSuffix(text, "\n"), "\n")
	for _, line := range lines[max(0, len(lines)-tail):] {
		fmt.Fprint(w, line)
	}
	fmt.Fprintln(w)
}

// logPod creates a pod of an environment of a deployment on a node. Its container has been restarted after a crash.
func logPod(t *testing.T, a *account, name, node, deployment, environment, component string) {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: a.name, Name: name, Labels: map[string]string{
			engine.LabelManagedBy: engine.ManagedBy, "platform.quoin.dev/deployment": deployment,
			"platform.quoin.dev/environment": environment, "app.kubernetes.io/component": component,
		}},
		Spec: corev1.PodSpec{
			NodeName: node,
			Containers: []corev1.Container{{Name: engine.ContainerServer, Image: "cube:test", Env: []corev1.EnvVar{
				{Name: "CUBEJS_API_SECRET", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
					LocalObjectReference: corev1.LocalObjectReference{Name: engine.CredentialsName("analytics-production")}, Key: engine.KeyAPISecret,
				}}},
				{Name: "CUBEJS_DB_PASS", Value: "correct horse"},
			}}},
		},
	}
	createUntilEnd(t, pod)
	before := client.MergeFrom(pod.DeepCopy())
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: engine.ContainerServer, RestartCount: 2, Started: ptr.To(true), Ready: true,
		State:                corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
		LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1}},
	}}
	if err := k8s.Status().Patch(t.Context(), pod, before); err != nil {
		t.Fatal(err)
	}
}

const logTime = "2026-11-22T12:00:0"

// logsOfAcme creates pods with logs: two of the deployment "analytics", one of staging, one of another deployment, and one of
// another account.
func logsOfAcme(t *testing.T) *kubelet {
	t.Helper()
	node := startKubelet(t, "node-of-logs")
	secret := &corev1.Secret{}
	if err := k8s.Get(t.Context(), client.ObjectKey{Namespace: acme.name, Name: engine.CredentialsName("analytics-production")}, secret); err != nil {
		t.Fatal(err)
	}
	logPod(t, acme, "analytics-production-api-1", "node-of-logs", "analytics", "analytics-production", engine.ComponentAPI)
	logPod(t, acme, "analytics-production-refresh-1", "node-of-logs", "analytics", "analytics-production", engine.ComponentRefresh)
	logPod(t, acme, "analytics-next-api-1", "node-of-logs", "analytics", "analytics-next-staging", engine.ComponentAPI)
	logPod(t, acme, "orders-production-api-1", "node-of-logs", "orders", "orders-production", engine.ComponentAPI)
	logPod(t, globex, "analytics-production-api-2", "node-of-logs", "analytics", "analytics-production", engine.ComponentAPI)
	for name, lines := range map[string][]string{
		"acme/analytics-production-api-1/cube":              {"1Z listening", "3Z connect with correct horse", "5Z secret " + string(secret.Data[engine.KeyAPISecret])},
		"acme/analytics-production-api-1/cube-previous":     {"0Z Error: crashed"},
		"acme/analytics-production-refresh-1/cube":          {"2Z refreshed", "4Z Authorization: Bearer abcdef"},
		"acme/analytics-production-refresh-1/cube-previous": {"0Z -----BEGIN PRIVATE KEY-----", "0Z MIIEvQ", "0Z -----END PRIVATE KEY-----"},
		"acme/analytics-next-api-1/cube":                    {"6Z staging"},
		"acme/analytics-next-api-1/cube-previous":           {"0Z staging crashed"},
		"acme/orders-production-api-1/cube":                 {"7Z of another deployment"},
		"globex/analytics-production-api-2/cube":            {"7Z of another account"},
	} {
		for _, line := range lines {
			node.write(name, logTime+line)
		}
	}
	return node
}

func messagesOf(r *response) string {
	r.t.Helper()
	var all []string
	for _, item := range r.list("items") {
		all = append(all, fmt.Sprint(item["message"]))
	}
	return strings.Join(all, "|")
}

// Contract: "D/pods".
func TestPodsOfADeploymentAreListed(t *testing.T) {
	logsOfAcme(t)
	admin, path := acme.as(acme.admin), "/api/v1/deployments/"+acme.id+"/pods"
	a := admin.call(t, "GET", path, nil).is(200)
	for i, want := range []string{"analytics-next-api-1", "analytics-production-api-1", "analytics-production-refresh-1"} {
		a.want(fmt.Sprintf("items.%d.name", i), want)
	}
	a.want("items.1.type", "api").want("items.1.status", "Running").want("items.1.ready", true).want("items.1.restartCount", 2.0).want("items.1.containers.0", "cube")
	a.want("pageInfo.hasNextPage", false).want("items.3", nil)
	first := admin.call(t, "GET", path+"?first=2", nil).is(200).want("pageInfo.hasNextPage", true)
	cursor, _ := first.at("pageInfo.endCursor").(string)
	admin.call(t, "GET", path+"?first=2&after="+url.QueryEscape(cursor), nil).is(200).want("items.0.name", "analytics-production-refresh-1").want("pageInfo.hasPreviousPage", true)
}

// Contract: "GET D/logs".
func TestLogsAreInterleavedAndSecretsAreHidden(t *testing.T) {
	node := logsOfAcme(t)
	admin, path := acme.as(acme.admin), "/api/v1/deployments/"+acme.id+"/logs"
	const production = "Error: crashed|[HIDDEN]|[HIDDEN]|[HIDDEN]|listening|refreshed|connect with [HIDDEN]|Authorization: [HIDDEN]|secret [HIDDEN]"
	for query, want := range map[string]string{
		"?source=production":                       production,
		"?source=dev":                              "staging crashed|staging",
		"?pod=analytics-production-api-1":          "Error: crashed|listening|connect with [HIDDEN]|secret [HIDDEN]",
		"?pod=analytics-next-api-1&container=MAIN": "staging crashed|staging",
		"?container=cubejs-server&source=dev":      "staging crashed|staging",
		"?container=INIT":                          "",
		"?container=vector":                        "",
		"?first=2":                                 "secret [HIDDEN]|staging",
	} {
		if got := messagesOf(admin.call(t, "GET", path+query, nil).is(200)); got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
	t.Run("following", func(t *testing.T) {
		newest := admin.call(t, "GET", path+"?first=1", nil).is(200).want("pageInfo.hasPreviousPage", true).want("items.0.date", "2026-11-22T12:00:06Z")
		cursor, _ := newest.at("pageInfo.endCursor").(string)
		next := path + "?after=" + url.QueryEscape(cursor)
		if got := messagesOf(admin.call(t, "GET", next, nil).is(200)); got != "" {
			t.Errorf("after the newest: %s", got)
		}
		node.write("acme/analytics-next-api-1/cube", logTime+"7Z more", logTime+"8Z and more")
		if got := messagesOf(admin.call(t, "GET", next+"&first=1", nil).is(200).want("pageInfo.hasNextPage", true)); got != "more" {
			t.Errorf("the next line: %s", got)
		}
		if got := messagesOf(admin.call(t, "GET", next, nil).is(200).want("pageInfo.hasNextPage", false)); got != "more|and more" {
			t.Errorf("the next lines: %s", got)
		}
	})
	for _, pod := range []string{"orders-production-api-1", "analytics-production-api-2", "etcd", "../kube-system/etcd"} {
		admin.call(t, "GET", path+"?pod="+url.QueryEscape(pod), nil).rejected(404, pod)
	}
	admin.call(t, "GET", path+"?source=staging", nil).rejected(400, "source")
	admin.call(t, "GET", path+"?container=other", nil).rejected(400, "container")
	admin.call(t, "GET", path+"?after=x", nil).rejected(400, "after")
}

// A node that does not answer: the other logs are returned, and a line names the one that is missing.
func TestLogsThatCannotBeReadAreNamed(t *testing.T) {
	logsOfAcme(t)
	logPod(t, acme, "analytics-production-api-9", "node-of-logs", "analytics", "analytics-production", engine.ComponentAPI)
	admin, path := acme.as(acme.admin), "/api/v1/deployments/"+acme.id+"/logs"
	got := messagesOf(admin.call(t, "GET", path, nil).is(200))
	if !strings.Contains(got, "listening") || !strings.Contains(got, "[quoin] the log of container cube cannot be read") {
		t.Errorf("got %s", got)
	}
	admin.call(t, "GET", path+"?pod=analytics-production-api-9", nil).rejected(503, "nodes", "cube", "analytics-production-api-9")
}

// The value of a secret that has been removed is not known: the logs of its pods are not shown.
func TestLogsWithUnknownSecretsAreNotShown(t *testing.T) {
	logsOfAcme(t)
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: acme.name, Name: engine.CredentialsName("analytics-production")}
	if err := k8s.Get(t.Context(), key, secret); err != nil {
		t.Fatal(err)
	}
	original := secret.DeepCopy()
	delete(secret.Data, engine.KeyAPISecret)
	if err := k8s.Patch(t.Context(), secret, client.MergeFrom(original)); err != nil {
		t.Fatal(err)
	}
	original.ResourceVersion = secret.ResourceVersion
	t.Cleanup(func() {
		if err := k8s.Patch(context.WithoutCancel(t.Context()), original, client.MergeFrom(secret)); err != nil {
			t.Error(err)
		}
	})
	got := messagesOf(acme.as(acme.admin).call(t, "GET", "/api/v1/deployments/"+acme.id+"/logs", nil).is(200))
	if strings.Contains(got, "listening") || strings.Count(got, "[quoin] the log is not shown") != 3 {
		t.Errorf("got %s", got)
	}
}

// Without the RoleBinding in the namespace of the account, pods and logs are a 503 that says so.
func TestPodsAndLogsNeedTheRoleBinding(t *testing.T) {
	globex.revoke(t)
	for _, route := range []string{"/pods", "/logs"} {
		globex.as(globex.admin).call(t, "GET", "/api/v1/deployments/"+globex.id+route, nil).rejected(503, "quoin may not use the account's Pods")
	}
}
