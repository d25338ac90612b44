package contract_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"fmt"
	"hash"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/test/internal/apiclient"
)

// hooked is a deployment whose repository is fetched after a push hook, and once a day.
type hooked struct {
	account          *account
	name, id, secret string
	repository       *repository
}

// newHooked creates a deployment and waits until its branches main, next and dev-ada have been fetched.
func newHooked(t *testing.T, a *account, name string) *hooked {
	t.Helper()
	h := &hooked{account: a, name: name, secret: "the secret of " + a.name + "'s " + name}
	var err error
	if h.repository, err = gitHost.repository(a.name + "-" + name); err != nil {
		t.Fatal(err)
	}
	d := &v1alpha1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: a.name, Name: name},
		Spec: v1alpha1.DeploymentSpec{ReleaseChannel: "latest", Model: v1alpha1.ModelSource{Git: &v1alpha1.GitSource{
			URL: h.repository.url, Interval: &metav1.Duration{Duration: 24 * time.Hour},
			WebhookSecretRef: &v1alpha1.SecretKeyReference{Name: name + "-hooks", Key: "secret"},
		}}},
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: a.name, Name: name + "-hooks"}, StringData: map[string]string{"secret": h.secret}}
	for _, o := range []client.Object{secret, d} {
		if err := k8s.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := client.IgnoreNotFound(k8s.Delete(context.WithoutCancel(t.Context()), o)); err != nil {
				t.Error(err)
			}
		})
	}
	apiclient.Soon(t, func() error {
		if err := k8s.Get(t.Context(), client.ObjectKeyFromObject(d), d); err != nil {
			return err
		}
		h.id = d.Status.ID
		if commits := h.commits(t); d.Status.CurrentVersion == "" || len(commits) != 3 || slices.Contains(slices.Collect(maps.Values(commits)), "") {
			return fmt.Errorf("%s runs %q, and its branches are at %v", name, d.Status.CurrentVersion, commits)
		}
		// The REST server has an index of the deployments.
		if a := h.send(t, h.signed("{}", "X-GitHub-Event", "ping")); a.status != 200 {
			return fmt.Errorf("status %d of a ping: %s", a.status, a.raw)
		}
		return nil
	})
	return h
}

// commits returns the last known commits of the deployment's branches.
func (h *hooked) commits(t *testing.T) map[string]string {
	t.Helper()
	list := &v1alpha1.BranchList{}
	if err := k8s.List(t.Context(), list, client.InNamespace(h.account.name)); err != nil {
		t.Fatal(err)
	}
	commits := map[string]string{}
	for _, b := range list.Items {
		if b.Spec.DeploymentRef.Name == h.name {
			commits[b.Spec.Name] = b.Status.LastHash
		}
	}
	return commits
}

// lastRequest returns the time of the last requested fetch.
func (h *hooked) lastRequest(t *testing.T) string {
	t.Helper()
	return object(t, h.account, h.id).Annotations[v1alpha1.AnnotationReconcile]
}

// follows waits until a branch is at a commit.
func (h *hooked) follows(t *testing.T, branch, commit string) {
	t.Helper()
	apiclient.Soon(t, func() error {
		if at := h.commits(t)[branch]; at != commit {
			return fmt.Errorf("%s is at %q, %s was pushed", branch, at, commit)
		}
		return nil
	})
}

// push pushes a commit. No fetch is due for a day.
func (h *hooked) push(t *testing.T, branch, message string) string {
	t.Helper()
	commit, err := h.repository.push(branch, message)
	if err != nil {
		t.Fatal(err)
	}
	if at := h.commits(t)[branch]; at == commit {
		t.Fatalf("%s is at %s already", branch, at)
	}
	return commit
}

func (h *hooked) path() string { return "/build/api/v1/deployments/" + h.id + "/git-hook" }

// hook is a request of a Git host.
type hook struct {
	body    string
	headers []string
}

// send sends a hook without other credentials than its headers.
func (h *hooked) send(t *testing.T, request hook) *response {
	t.Helper()
	return caller{host: h.account.host}.call(t, "POST", h.path(), request.body, request.headers...)
}

// signed returns a hook signed like GitHub does.
func (h *hooked) signed(body string, headers ...string) hook {
	return hook{body, append([]string{"X-Hub-Signature-256", "sha256=" + digits(sha256.New, h.secret, body)}, headers...)}
}

func digits(algorithm func() hash.Hash, secret, body string) string {
	mac := hmac.New(algorithm, []byte(secret))
	mac.Write([]byte(body))
	return hex.EncodeToString(mac.Sum(nil))
}

// eventsOf returns the events of a name for a deployment, by column.
func eventsOf(t *testing.T, a *account, event, id string) []map[string]string {
	t.Helper()
	text := a.as(a.admin).call(t, "GET", "/api/v1/audit-logs/export?eventName="+url.QueryEscape(event), nil).is(200).raw
	records, err := csv.NewReader(strings.NewReader(string(text))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var rows []map[string]string
	for _, record := range records[1:] {
		row := map[string]string{}
		for i, column := range records[0] {
			row[column] = record[i]
		}
		if row["deployment_id"] == id {
			rows = append(rows, row)
		}
	}
	return rows
}
