package contract_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/test/internal/apiclient"
	"github.com/quoin-dev/quoin/test/internal/clustertest"
)

// kept is a deployment whose model is in a repository that Quoin keeps.
type kept struct {
	account    *account
	deployment *v1alpha1.Deployment
	// ca is the file with the CA certificate of `quoin apiserver`.
	ca string
}

// newKept creates a deployment and waits until its empty repository has been read.
func newKept(t *testing.T, a *account, name string) *kept {
	t.Helper()
	k := &kept{account: a, ca: certificateFile(t), deployment: &v1alpha1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: a.name, Name: name},
		Spec: v1alpha1.DeploymentSpec{ReleaseChannel: "latest", Model: v1alpha1.ModelSource{
			Repository: &v1alpha1.RepositorySource{Path: "model"},
		}},
	}}
	if err := k8s.Create(t.Context(), k.deployment); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.IgnoreNotFound(k8s.Delete(context.WithoutCancel(t.Context()), k.deployment)); err != nil {
			t.Error(err)
		}
	})
	k.eventually(t, func(d *v1alpha1.Deployment) error {
		for _, c := range d.Status.Conditions {
			if c.Type == v1alpha1.ConditionReady && c.Reason == v1alpha1.ReasonModelNotFound && strings.Contains(c.Message, `has no branch "main"`) {
				return nil
			}
		}
		return fmt.Errorf("conditions %+v", d.Status.Conditions)
	})
	return k
}

// certificateFile returns a file with the CA certificate of `quoin apiserver`.
func certificateFile(t *testing.T) string {
	t.Helper()
	secret := &corev1.Secret{}
	if err := k8s.Get(t.Context(), client.ObjectKey{Namespace: clustertest.Namespace, Name: "quoin-apiserver-tls"}, secret); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(file, secret.Data["ca.crt"], 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// eventually waits until check accepts the deployment.
func (k *kept) eventually(t *testing.T, check func(*v1alpha1.Deployment) error) {
	t.Helper()
	apiclient.Soon(t, func() error {
		if err := k8s.Get(t.Context(), client.ObjectKeyFromObject(k.deployment), k.deployment); err != nil {
			return err
		}
		return check(k.deployment)
	})
}

// url returns the URL of the repository for a token, on a host of an account.
func (k *kept) url(host, token string) string {
	_, port, _ := net.SplitHostPort(serverAddress.String())
	return fmt.Sprintf("https://git:%s@%s:%s/git/%s.git", token, host, port, k.deployment.Status.ID)
}

// git runs git against the server and returns its output.
func (k *kept) git(t *testing.T, dir string, args ...string) (string, error) {
	t.Helper()
	_, port, _ := net.SplitHostPort(serverAddress.String())
	options := []string{"-c", "http.proxy="}
	for _, host := range []string{acme.host, globex.host} {
		options = append(options, "-c", fmt.Sprintf("http.curloptResolve=%s:%s:127.0.0.1", host, port))
	}
	cmd := exec.CommandContext(t.Context(), "git", append(options, args...)...)
	cmd.Dir, cmd.Env = dir, append(append(os.Environ(), isolatedGit...), "GIT_TERMINAL_PROMPT=0", "LC_ALL=C", "GIT_SSL_CAINFO="+k.ca)
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

func (k *kept) mustGit(t *testing.T, dir string, args ...string) string {
	t.Helper()
	out, err := k.git(t, dir, args...)
	if err != nil {
		t.Fatalf("git %s: %v: %s", args[0], err, strings.ReplaceAll(out, k.account.admin, "***"))
	}
	return out
}

// commit commits a model and returns the commit.
func (k *kept) commit(t *testing.T, dir, text string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(dir, "model"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "model", "orders.yml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	k.mustGit(t, dir, "add", "-A")
	k.mustGit(t, dir, "commit", "-q", "-m", text)
	return k.mustGit(t, dir, "rev-parse", "HEAD")
}

// serves waits until production serves a commit, and a branch is at it.
func (k *kept) serves(t *testing.T, branch, commit string) {
	t.Helper()
	k.eventually(t, func(d *v1alpha1.Deployment) error {
		list := &v1alpha1.BranchList{}
		if err := k8s.List(t.Context(), list, client.InNamespace(d.Namespace)); err != nil {
			return err
		}
		at := ""
		for _, b := range list.Items {
			if b.Spec.DeploymentRef.Name == d.Name && b.Spec.Name == branch {
				at = b.Status.LastHash
			}
		}
		if at != commit || d.Status.ModelCommit != commit || d.Status.CurrentVersion != "1.2.3" {
			return fmt.Errorf("%s is at %q, production serves %q with %q, want %q: %v", branch, at, d.Status.ModelCommit, d.Status.CurrentVersion, commit, d.Status.Conditions)
		}
		return nil
	})
}

// A user creates a deployment with kubectl, pushes a model with git and an API key, and production serves it; a second push
// is a fast forward.
func TestRepository(t *testing.T) {
	k := newKept(t, acme, "kept")
	dir := filepath.Join(t.TempDir(), "model")
	k.mustGit(t, t.TempDir(), "clone", "-q", k.url(acme.host, acme.admin), dir)
	first := k.commit(t, dir, "cubes: []")
	k.mustGit(t, dir, "push", "-q", "origin", "main")
	k.serves(t, "main", first)
	second := k.commit(t, dir, "cubes: [] # changed")
	k.mustGit(t, dir, "push", "-q", "origin", "main", "main:dev-ada")
	k.serves(t, "main", second)
	for _, event := range []string{"Created Git branch", "Pushed to Git branch"} {
		if rows := eventsOf(t, acme, event, k.deployment.Status.ID); len(rows) == 0 || rows[0]["actor"] != "key:admin" {
			t.Errorf("events %q: %v", event, rows)
		}
	}
	k.checkPods(t, second)
}

// checkPods checks that the pods fetch a commit from the internal address.
func (k *kept) checkPods(t *testing.T, commit string) {
	t.Helper()
	pods := &appsv1.DeploymentList{}
	err := k8s.List(t.Context(), pods, client.InNamespace(k.account.name), client.MatchingLabels{v1alpha1.LabelDeployment: k.deployment.Name})
	if err != nil || len(pods.Items) == 0 {
		t.Fatalf("%d workloads: %v", len(pods.Items), err)
	}
	fetch := pods.Items[0].Spec.Template.Spec.InitContainers[0]
	for _, want := range []string{"--url=" + repositoryURL + "/repositories/acme/kept.git", "--commit=" + commit, "--ref=main", "--path=model"} {
		if !slices.Contains(fetch.Args, want) {
			t.Errorf("the pods fetch with %v, want %s", fetch.Args, want)
		}
	}
}

// Without a valid credential, and on the hosts of other accounts, a repository does not exist.
func TestRepositoryAccess(t *testing.T) {
	k := newKept(t, acme, "kept-access")
	for name, tc := range map[string]struct{ host, token, want string }{
		"no such key":         {acme.host, "nobody", "Authentication failed"},
		"key of another host": {globex.host, acme.admin, "Authentication failed"},
		"other account":       {globex.host, globex.admin, "not found"},
	} {
		out, err := k.git(t, t.TempDir(), "ls-remote", k.url(tc.host, tc.token))
		if err == nil || !strings.Contains(out, tc.want) {
			t.Errorf("%s: %v: %s", name, err, out)
		}
	}
	if a := acme.as(acme.admin).call(t, "GET", "/repositories/acme/kept-access.git/info/refs?service=git-upload-pack", nil); a.status != 404 {
		t.Errorf("the internal path has status %d on the host of an account: %s", a.status, a.raw)
	}
}

// A push that is not a fast-forward is rejected, also if it is forced, and the branch stays as it is.
func TestPushThatIsNotAFastForwardIsRejected(t *testing.T) {
	k := newKept(t, acme, "kept-forced")
	url := k.url(acme.host, acme.admin)
	first, second := filepath.Join(t.TempDir(), "first"), filepath.Join(t.TempDir(), "second")
	k.mustGit(t, t.TempDir(), "clone", "-q", url, first)
	k.commit(t, first, "cubes: []")
	k.mustGit(t, first, "push", "-q", "origin", "main")
	k.mustGit(t, t.TempDir(), "clone", "-q", url, second)
	head := k.commit(t, first, "cubes: [] # first")
	k.mustGit(t, first, "push", "-q", "origin", "main")
	k.commit(t, second, "cubes: [] # second")
	for want, args := range map[string][]string{
		"fetch first":      {"push", "origin", "main"},
		"non-fast-forward": {"push", "--force", "origin", "main"},
		"the branch of production cannot be deleted": {"push", "origin", ":main"},
	} {
		if out, err := k.git(t, second, args...); err == nil || !strings.Contains(out, want) {
			t.Errorf("git %v: %v: %s", args, err, out)
		}
		if at := k.mustGit(t, second, "ls-remote", "origin", "refs/heads/main"); !strings.HasPrefix(at, head) {
			t.Errorf("after git %v the branch is at %s, want %s", args, at, head)
		}
	}
	if rows := eventsOf(t, acme, "Pushed to Git branch", k.deployment.Status.ID); len(rows) != 1 {
		t.Errorf("%d pushes are recorded, want 1", len(rows))
	}
}
