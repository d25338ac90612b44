// Package backup_test copies an account with `quoin backup` and restores it with `quoin restore` in another cluster:
// kube-apiserver, the controllers, `quoin apiserver` and both databases are real. There is no kubelet: workloads become
// ready at once.
package backup_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/test/internal/apiclient"
	"github.com/quoin-dev/quoin/test/internal/clustertest"
)

const (
	namespace = "demo"
	host      = "demo.example.com"
)

// first is the cluster of the suite; it builds the binary.
var first *clustertest.Cluster

func TestMain(m *testing.M) {
	clustertest.Main(m, func(_ context.Context, c *clustertest.Cluster, m *testing.M) (int, error) {
		first = c
		if err := c.Build(); err != nil {
			return 0, err
		}
		return m.Run(), nil
	})
}

// world is a cluster with an account, the processes of Quoin, and a content store.
type world struct {
	*clustertest.Cluster
	t           *testing.T
	databaseURL string
	// address of `quoin apiserver`.
	address            string
	controller, server *clustertest.Process
	http               *http.Client
	// admin and generated are tokens of API keys.
	admin, generated string
}

// newWorld starts a cluster without processes of Quoin.
func newWorld(t *testing.T, databaseURL, address string) *world {
	return &world{Cluster: first.Another(t), t: t, databaseURL: databaseURL, address: address}
}

// start starts the controllers and `quoin apiserver`, and makes workloads ready.
func (w *world) start() {
	w.t.Helper()
	w.controller = w.Quoin(filepath.Join(w.Folder, "controller.log"), "controller", "--leader-elect=false", "--quoin-image=quoin:test", "--repository-url=https://localhost:"+w.port())
	w.server = w.APIServer(filepath.Join(w.Folder, "apiserver.log"), w.address)
	w.server.Env = []string{"DATABASE_URL=" + w.databaseURL}
	w.ok(w.server.Start())
	w.t.Cleanup(w.server.Kill)
	w.ok(w.controller.Start())
	w.t.Cleanup(w.controller.Kill)
	ctx, cancel := context.WithCancel(context.Background())
	w.t.Cleanup(cancel)
	go clustertest.KeepWorkloadsReady(ctx, w.Client, nil)
	w.soon(func() error {
		roots, err := w.Roots(w.t.Context())
		if err != nil {
			return err
		}
		w.http = &http.Client{Transport: apiclient.Transport(roots, func() string { return w.address }), Timeout: apiclient.Timeout}
		return nil
	})
}

// stop kills the processes.
func (w *world) stop() {
	w.controller.Kill()
	w.server.Kill()
}

func (w *world) ok(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) soon(try func() error) {
	w.t.Helper()
	apiclient.Soon(w.t, try)
}

// call sends a request with a token and returns the body of the response.
func (w *world) call(token, method, path string, body any) string {
	w.t.Helper()
	text := ""
	w.soon(func() error {
		r := apiclient.Request{Method: method, URL: "https://" + host + path, Authorization: "Bearer " + token, Body: body}
		if body != nil {
			r.MediaType = "application/json"
		}
		response, err := r.Send(w.t.Context(), w.http)
		if err != nil {
			return err
		}
		if response.Status >= 300 {
			return fmt.Errorf("%s %s: status %d: %s", method, path, response.Status, response.Body)
		}
		text = string(response.Body)
		return nil
	})
	return text
}

// field returns a field of a JSON object.
func (w *world) field(body, name string) string {
	w.t.Helper()
	object := map[string]any{}
	w.ok(json.Unmarshal([]byte(body), &object))
	return fmt.Sprint(object[name])
}

// git runs git with the token as the password.
func (w *world) git(dir string, args ...string) string {
	w.t.Helper()
	secret := &corev1.Secret{}
	w.ok(w.Client.Get(w.t.Context(), client.ObjectKey{Namespace: clustertest.Namespace, Name: "quoin-apiserver-tls"}, secret))
	ca := filepath.Join(w.Folder, "ca.crt")
	w.ok(os.WriteFile(ca, secret.Data["ca.crt"], 0o600))
	cmd := exec.CommandContext(w.t.Context(), "git", append([]string{"-c", "http.proxy=", "-c", "http.curloptResolve=" + host + ":" + w.port() + ":127.0.0.1"}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_TERMINAL_PROMPT=0", "LC_ALL=C", "GIT_SSL_CAINFO="+ca, "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=t", "GIT_AUTHOR_EMAIL=t@example.com", "GIT_COMMITTER_NAME=t", "GIT_COMMITTER_EMAIL=t@example.com")
	out, err := cmd.CombinedOutput()
	if err != nil {
		w.t.Fatalf("git %s: %v: %s", args[0], err, strings.ReplaceAll(string(out), w.admin, "***"))
	}
	return strings.TrimSpace(string(out))
}

// port returns the port of `quoin apiserver`.
func (w *world) port() string {
	_, port, err := net.SplitHostPort(w.address)
	w.ok(err)
	return port
}

func (w *world) repository(id string) string {
	return fmt.Sprintf("https://git:%s@%s:%s/git/%s.git", w.admin, host, w.port(), id)
}

// deployment returns a deployment when check accepts it.
func (w *world) deployment(name string, check func(*v1alpha1.Deployment) bool) *v1alpha1.Deployment {
	w.t.Helper()
	d := &v1alpha1.Deployment{}
	w.soon(func() error {
		if err := w.Client.Get(w.t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, d); err != nil {
			return err
		}
		if !check(d) {
			return fmt.Errorf("deployment %s: %+v", name, d.Status)
		}
		return nil
	})
	return d
}

func isReady(d *v1alpha1.Deployment) bool {
	return d.Status.ObservedGeneration == d.Generation && meta.IsStatusConditionTrue(d.Status.Conditions, v1alpha1.ConditionReady)
}

// fill creates an account with everything that a backup has, and stops the processes.
func (w *world) fill(imageRepository string) {
	w.t.Helper()
	key, token, err := clustertest.Key(namespace, "admin", v1alpha1.ApiKeySpec{})
	w.ok(err)
	w.admin = token
	channel := &v1alpha1.ReleaseChannel{ObjectMeta: metav1.ObjectMeta{Name: "stable"}, Spec: v1alpha1.ReleaseChannelSpec{ImageRepository: imageRepository}}
	w.ok(w.Client.Create(w.t.Context(), channel))
	deployment := func(name string, model v1alpha1.ModelSource) *v1alpha1.Deployment {
		return &v1alpha1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: v1alpha1.DeploymentSpec{ReleaseChannel: "stable", Model: model}}
	}
	w.ok(w.Account(w.t.Context(), namespace, v1alpha1.AccountSpec{
		Host: host, Plan: "Enterprise", AuditLog: &v1alpha1.AuditLog{Enabled: ptr.To(true)},
	},
		key, &v1alpha1.ApiKey{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "generated"}},
		model(),
		deployment("deleted", v1alpha1.ModelSource{ConfigMapRef: &v1alpha1.LocalReference{Name: "model"}}),
	))
	w.start()
	w.deployment("deleted", isReady)
	w.ok(w.Client.Create(w.t.Context(), deployment("mapped", v1alpha1.ModelSource{ConfigMapRef: &v1alpha1.LocalReference{Name: "model"}})))
	w.ok(w.Client.Create(w.t.Context(), deployment("kept", v1alpha1.ModelSource{Repository: &v1alpha1.RepositorySource{Path: "model"}})))
	// The generation of this deployment is more than 1.
	mapped := w.deployment("mapped", isReady)
	before := mapped.DeepCopy()
	mapped.Spec.Env = []v1alpha1.EnvVar{{Name: "CUBEJS_CACHE", Value: ptr.To("on")}}
	w.ok(w.Client.Patch(w.t.Context(), mapped, client.MergeFrom(before)))
	mapped = w.deployment("mapped", isReady)
	w.push()
	w.call(w.admin, "POST", "/api/v1/deployments/"+mapped.Status.ID+"/folders", map[string]any{"name": "Reports"})
	w.call(w.admin, "DELETE", "/api/v1/deployments/1", nil)
	user := w.field(w.call(w.admin, "POST", "/api/scim/v2/Users", map[string]any{
		"schemas": []string{"urn:ietf:params:scim:schemas:core:2.0:User"}, "userName": "ada@example.com", "active": true,
	}), "id")
	w.call(w.admin, "POST", "/api/scim/v2/Groups", map[string]any{
		"schemas": []string{"urn:ietf:params:scim:schemas:core:2.0:Group"}, "displayName": "Analysts", "members": []map[string]any{{"value": user}},
	})
	w.call(w.admin, "POST", "/api/v1/api-keys", map[string]any{"deploymentIds": []string{mapped.Status.ID}})
	w.readGenerated()
	w.settled()
}

// model returns the ConfigMap of a user, which is no object of Quoin.
func model() *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "model"}, Data: map[string]string{"orders.yml": "cubes: []"}}
}

// push pushes a commit to the repository that Quoin keeps.
func (w *world) push() {
	w.t.Helper()
	kept := w.deployment("kept", func(d *v1alpha1.Deployment) bool {
		c := meta.FindStatusCondition(d.Status.Conditions, v1alpha1.ConditionReady)
		return c != nil && c.Reason == v1alpha1.ReasonModelNotFound
	})
	dir := filepath.Join(w.Folder, "model")
	w.git(w.Folder, "clone", "-q", w.repository(kept.Status.ID), dir)
	w.ok(os.MkdirAll(filepath.Join(dir, "model"), 0o750))
	w.ok(os.WriteFile(filepath.Join(dir, "model", "orders.yml"), []byte("cubes: []"), 0o600))
	w.git(dir, "add", "-A")
	w.git(dir, "commit", "-q", "-m", "first")
	w.git(dir, "push", "-q", "origin", "HEAD:main")
}

// readGenerated reads the token that the controller has generated.
func (w *world) readGenerated() {
	w.t.Helper()
	w.soon(func() error {
		secret := &corev1.Secret{}
		if err := w.Client.Get(w.t.Context(), client.ObjectKey{Namespace: namespace, Name: "generated-token"}, secret); err != nil {
			return err
		}
		for _, value := range secret.Data {
			w.generated = string(value)
		}
		return nil
	})
}

// settled waits until both deployments run.
func (w *world) settled() {
	w.t.Helper()
	w.deployment("mapped", isReady)
	w.deployment("kept", func(d *v1alpha1.Deployment) bool { return isReady(d) && d.Status.ModelCommit != "" })
	// The API server records rollouts soon after the controller has completed them.
	w.soon(func() error {
		events := strings.Join(w.events(), "")
		for _, name := range []string{"mapped", "kept"} {
			if !regexp.MustCompile("Rolled deployment to version,[^\n]*," + name + ",").MatchString(events) {
				return fmt.Errorf("no event of the rollout of %s: %s", name, events)
			}
		}
		return nil
	})
}

// changing are cursors, and fields of SCIM resources and keys that depend on when and in which cluster an object was
// created.
var changing = regexp.MustCompile(`"(version|created|createdAt|created_at|lastModified|lastUsedAt|startCursor|endCursor)":"(?:[^"\\]|\\.)*",?`)

// observe returns what users see, by what was requested.
func (w *world) observe() map[string]string {
	w.t.Helper()
	seen := map[string]string{}
	for _, path := range []string{"/api/v1/deployments", "/api/v1/api-keys", "/api/v1/deployments/2/folders", "/api/v1/deployments/2/environments", "/api/v1/deployments/3/environments", "/api/scim/v2/Users", "/api/scim/v2/Groups"} {
		seen[path] = changing.ReplaceAllString(w.call(w.admin, "GET", path, nil), "")
	}
	seen["generated key"] = changing.ReplaceAllString(w.call(w.generated, "GET", "/api/v1/deployments/2/folders", nil), "")
	kept := w.deployment("kept", isReady)
	seen["git"] = w.git(w.Folder, "ls-remote", w.repository(kept.Status.ID))
	seen["commit"] = kept.Status.ModelCommit
	workloads, sets := &appsv1.DeploymentList{}, &appsv1.StatefulSetList{}
	w.ok(w.Client.List(w.t.Context(), workloads, client.InNamespace(namespace)))
	w.ok(w.Client.List(w.t.Context(), sets, client.InNamespace(namespace)))
	for _, d := range workloads.Items {
		seen["template "+d.Name] = w.json(d.Spec.Template)
	}
	for _, s := range sets.Items {
		seen["template "+s.Name] = w.json(s.Spec.Template)
	}
	secrets := &corev1.SecretList{}
	w.ok(w.Client.List(w.t.Context(), secrets, client.InNamespace(namespace)))
	for _, s := range secrets.Items {
		seen["secret "+s.Name] = w.json(s.Data)
	}
	// Without garbage collection, objects of the deleted deployment remain.
	maps.DeleteFunc(seen, func(name, _ string) bool { return strings.Contains(name, "deleted-production") })
	return seen
}

func (w *world) json(value any) string {
	w.t.Helper()
	text, err := json.Marshal(value)
	w.ok(err)
	return string(text)
}

// events returns the lines of the audit log, without those of exports.
func (w *world) events() (lines []string) {
	w.t.Helper()
	for line := range strings.Lines(w.call(w.admin, "GET", "/api/v1/audit-logs/export", nil)) {
		if !strings.Contains(line, "Exported audit log") {
			lines = append(lines, line)
		}
	}
	return lines
}

// quoin runs a subcommand and returns its output.
func (w *world) quoin(args ...string) (string, error) {
	w.t.Helper()
	out, err := exec.CommandContext(w.t.Context(), w.Binary(), args...).CombinedOutput()
	return string(out), err
}

// startRegistry starts an image registry with a version, and returns the repository.
func startRegistry(t *testing.T) string {
	t.Helper()
	address, err := clustertest.StartRegistry(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := clustertest.PushImages(t.Context(), address+"/cube", "1.2.3"); err != nil {
		t.Fatal(err)
	}
	return address + "/cube"
}
