package remote_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/git"
	"github.com/quoin-dev/quoin/internal/store/storetest"
)

func (w *world) configMap() v1alpha1.ModelSource {
	return v1alpha1.ModelSource{ConfigMapRef: &v1alpha1.LocalReference{Name: "model"}}
}

// unchanged checks that the host and the mirror have the branches that they had.
func (w *world) unchanged(before string) {
	w.Helper()
	w.host.onRequest(nil)
	w.host.hook("")
	if got := w.host.heads(); got != before {
		w.Errorf("the host had\n%s\nand has\n%s", before, got)
	}
	branches, err := w.repository().Branches()
	w.must(err)
	var lines []string
	for _, b := range branches {
		lines = append(lines, b.Name+" "+b.Commit.String())
	}
	if got := strings.Join(lines, "\n"); got != before {
		w.Errorf("the mirror had\n%s\nand has\n%s", before, got)
	}
}

// TestProtectedBranch: the host declines a push to main. The words of the host are told, without secrets
// and control characters, and nothing is changed.
func TestProtectedBranch(t *testing.T) {
	onBoth(t, func(w *world) {
		w.enter(ada, "main")
		w.write(ada, "model/b.yml", "b\n").is(200)
		before := w.host.heads()
		w.host.hook(`while read old new ref; do if [ $ref = refs/heads/main ]; then printf 'main is \033[31mprotected\033[0m: ask ops, not ` + password + `\n' >&2; exit 1; fi; done`)
		w.recorded()
		a := w.call(ada, "POST", "/commit", nil).is(409, "pre-receive hook declined", "protected", "ask ops")
		if text := string(a.raw); strings.Contains(text, password) || strings.Contains(text, `\u001b`) || strings.ContainsRune(text, 0x1b) {
			t.Errorf("the response has a secret or control characters: %s", text)
		}
		if got := w.recorded(); !strings.HasSuffix(got, ": failed") || strings.Contains(got, "succeeded") {
			t.Errorf("events %s", got)
		}
		w.unchanged(before)
		w.call(ada, "POST", "/commit", nil).is(200)
		if w.host.file("main", "model/b.yml") != "b" {
			t.Error("the change is lost")
		}
	})
}

// TestReadOnlyCredential: the credential may read and not write.
func TestReadOnlyCredential(t *testing.T) {
	onBoth(t, func(w *world) {
		before := w.host.heads()
		w.host.onRequest(func(rw http.ResponseWriter, r *http.Request) bool {
			if strings.Contains(r.URL.RequestURI(), "git-receive-pack") {
				http.Error(rw, "the token "+password+" is read-only", http.StatusForbidden)
				return true
			}
			return false
		})
		w.call(ada, "GET", "/data-model/files", nil).is(200)
		a := w.call(ada, "POST", "/dev-mode", nil).is(403, "access denied", "secretRef")
		if strings.Contains(string(a.raw), password) {
			t.Errorf("%s", a.raw)
		}
		w.unchanged(before)
		w.host.git("config", "http.receivepack", "false")
		w.call(ada, "POST", "/dev-mode", nil).is(403, "access denied")
		w.unchanged(before)
	})
}

// TestUnusableRemotes: the remote or the credential is not usable. The response names what to correct.
func TestUnusableRemotes(t *testing.T) {
	w := newWorld(t, newHost(t), open(t, storetest.SQLiteURL(t)), "a1")
	source := w.deployment.Spec.Model.Git
	good := source.URL
	for _, tt := range []struct {
		url    string
		status int
		words  []string
	}{
		{"http://127.0.0.1:1/a.git", 502, []string{"connection refused"}},
		{strings.TrimSuffix(good, "model.git") + "gone.git", 409, []string{"repository not found"}},
		{"ssh://git@127.0.0.1:1/a.git", 409, []string{"identity", "secretRef"}},
	} {
		source.URL = tt.url
		w.call(ada, "GET", "/data-model/files", nil).is(tt.status, tt.words...)
		w.call(ada, "POST", "/dev-mode", nil).is(tt.status, tt.words...)
	}
	source.URL, source.SecretRef = good, &v1alpha1.LocalReference{Name: "missing"}
	w.call(ada, "POST", "/dev-mode", nil).is(409, "missing", "does not exist")
	source.SecretRef.Name = "git"
	secret := &corev1.Secret{}
	w.must(w.kube.Get(t.Context(), client.ObjectKey{Namespace: w.deployment.Namespace, Name: "git"}, secret))
	secret.Data[git.KeyPassword] = []byte("wrong")
	w.must(w.kube.Update(t.Context(), secret))
	w.call(ada, "POST", "/dev-mode", nil).is(403, "unauthorized")
	secret.Data[git.KeyPassword] = []byte(password)
	w.must(w.kube.Update(t.Context(), secret))
	w.later(time.Minute) // a failure is the answer for some seconds
	w.call(ada, "POST", "/dev-mode", nil).is(200)
}

// TestHostGoesDown: the host does not answer any more. Reads use the mirror, writes are told.
func TestHostGoesDown(t *testing.T) {
	onBoth(t, func(w *world) {
		w.enter(ada, "main")
		before := w.host.heads()
		w.later(time.Minute)
		w.host.onRequest(func(rw http.ResponseWriter, _ *http.Request) bool {
			http.Error(rw, "down", http.StatusBadGateway)
			return true
		})
		w.call(ada, "GET", "/data-model/files", nil).is(200, "a.yml")
		w.write(ada, "model/b.yml", "b\n").is(502, "unexpected status 502")
		w.later(time.Hour)
		w.call(ada, "GET", "/data-model/files", nil).is(502)
		w.unchanged(before)
	})
}

// TestLostResponse: the host accepts a push, and its response is lost. The change is found on the host.
func TestLostResponse(t *testing.T) {
	onBoth(t, func(w *world) {
		dev := w.enter(ada, "main")
		w.host.onRequest(func(rw http.ResponseWriter, r *http.Request) bool {
			if !isPush(r) {
				return false
			}
			w.host.onRequest(nil)
			w.host.accept(r)
			http.Error(rw, "lost", http.StatusBadGateway)
			return true
		})
		w.write(ada, "model/b.yml", "b\n").is(200)
		if w.host.file(dev, "model/b.yml") != "b" || w.host.commits(dev) != 2 {
			t.Error("the change is not on the host, or is there twice")
		}
	})
}
