package githubtokens_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/githubtokens"
	"github.com/quoin-dev/quoin/internal/github"
	"github.com/quoin-dev/quoin/internal/github/githubserver"
)

// world is a cluster with the deployment "sales" of account "acme", which may use installation 1, and a GitHub with the
// repository model of that installation.
type world struct {
	client.Client
	host    *githubserver.Server
	app     *github.App
	writes  atomic.Int32
	now     time.Time
	renewer *githubtokens.Renewer
	log     strings.Builder
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, corev1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	w := &world{now: time.Now()}
	var err error
	if w.host, err = githubserver.New(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.host.Close)
	for id, login := range map[int64]string{1: "acme", 2: "globex"} {
		w.host.Installations[id] = &githubserver.Installation{Login: login, Repositories: map[string]*githubserver.Repository{"model": {ID: id, Branches: []string{"main"}}}}
	}
	if w.app, err = github.New(w.host.Options); err != nil {
		t.Fatal(err)
	}
	account := &v1alpha1.Account{ObjectMeta: metav1.ObjectMeta{Name: "acme"}, Spec: v1alpha1.AccountSpec{
		Namespace: "acme", GitHub: &v1alpha1.AccountGitHub{InstallationIDs: []int64{1}},
	}}
	w.Client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(append(objects, account, w.deployment())...).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			w.writes.Add(1)
			return c.Create(ctx, o, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, opts ...client.PatchOption) error {
			w.writes.Add(1)
			return c.Patch(ctx, o, patch, opts...)
		},
	}).Build()
	w.renewer = w.newRenewer()
	return w
}

func (w *world) deployment() *v1alpha1.Deployment {
	return &v1alpha1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: "sales", UID: "d1"},
		Spec: v1alpha1.DeploymentSpec{Model: v1alpha1.ModelSource{Git: &v1alpha1.GitSource{
			URL: w.host.URL + "/acme/model.git", GitHubInstallationID: ptr.To[int64](1), SecretRef: &v1alpha1.LocalReference{Name: "sales-github"},
		}}},
	}
}

// newRenewer returns the renewer of a replica.
func (w *world) newRenewer() *githubtokens.Renewer {
	return &githubtokens.Renewer{
		Secrets: &githubtokens.Secrets{Live: w.Client, Writer: w.Client, App: w.app, Now: func() time.Time { return w.now }},
		Cache:   w.Client, Log: slog.New(slog.NewTextHandler(&w.log, nil)),
	}
}

// round lets all replicas look for tokens after some time.
func (w *world) round(t *testing.T, later time.Duration, replicas ...*githubtokens.Renewer) {
	t.Helper()
	w.now = w.now.Add(later)
	w.host.Lock()
	w.host.Lifetime += later // the host has the time of the machine
	w.host.Unlock()
	for _, r := range append(replicas, w.renewer) {
		if err := r.Round(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func (w *world) secret(t *testing.T) *corev1.Secret {
	t.Helper()
	s := &corev1.Secret{}
	if err := w.Get(t.Context(), client.ObjectKey{Namespace: "acme", Name: "sales-github"}, s); client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	return s
}

// change changes the spec of the deployment.
func (w *world) change(t *testing.T, change func(*v1alpha1.GitSource)) {
	t.Helper()
	d := &v1alpha1.Deployment{}
	if err := w.Get(t.Context(), client.ObjectKey{Namespace: "acme", Name: "sales"}, d); err != nil {
		t.Fatal(err)
	}
	change(d.Spec.Model.Git)
	if err := w.Update(t.Context(), d); err != nil {
		t.Fatal(err)
	}
}

// A token is stored, kept while it is valid for half an hour, and then renewed once by all replicas.
func TestTokensAreRenewedBeforeTheyExpire(t *testing.T) {
	w := newWorld(t)
	other := w.newRenewer()
	w.round(t, 0, other)
	first := w.secret(t)
	if string(first.Data["username"]) != "x-access-token" || string(first.Data["password"]) != w.host.Tokens[0] || len(first.Data["webhookSecret"]) != 64 {
		t.Fatalf("%s", first.Data)
	}
	if owner := metav1.GetControllerOf(first); owner == nil || owner.UID != types.UID("d1") {
		t.Errorf("owner %v", owner)
	}
	for range 50 {
		w.round(t, 30*time.Second, other)
	}
	if writes := w.writes.Load(); writes != 1 || len(w.host.Tokens) != 1 {
		t.Errorf("%d writes and %d tokens in 25 minutes, want 1 and 1", writes, len(w.host.Tokens))
	}
	for range 22 {
		w.round(t, 30*time.Second, other)
	}
	second := w.secret(t)
	if writes := w.writes.Load(); writes != 2 || string(second.Data["password"]) != w.host.Tokens[1] || string(second.Data["webhookSecret"]) != string(first.Data["webhookSecret"]) {
		t.Errorf("%d writes, %d tokens after 36 minutes", writes, len(w.host.Tokens))
	}
}

// While GitHub cannot be reached, the token stays, and attempts are rare.
func TestAFailureKeepsTheToken(t *testing.T) {
	w := newWorld(t)
	w.round(t, 0)
	token := string(w.secret(t).Data["password"])
	w.host.Lock()
	key := w.host.Options.KeyFile
	w.host.Unlock()
	w.host.Close()
	for range 120 {
		w.round(t, 30*time.Second)
	}
	if got := string(w.secret(t).Data["password"]); got != token {
		t.Error("the token has been changed")
	}
	if n := strings.Count(w.log.String(), "Cannot renew a GitHub token"); n != 1 {
		t.Errorf("%d log lines, want 1: %s", n, w.log.String())
	}
	if strings.Contains(w.log.String(), token) || strings.Contains(w.log.String(), key) {
		t.Errorf("the log contains a credential: %s", w.log.String())
	}
}

// A tenant names an installation of another tenant in its deployment, or a host of its own: it gets no token.
func TestTokensOfOtherTenantsAreNotIssued(t *testing.T) {
	for name, change := range map[string]func(*v1alpha1.GitSource){
		"installation of another account": func(g *v1alpha1.GitSource) { g.GitHubInstallationID = ptr.To[int64](2) },
		"repository of another account":   func(g *v1alpha1.GitSource) { g.URL = strings.Replace(g.URL, "/acme/model", "/globex/other", 1) },
		"another host":                    func(g *v1alpha1.GitSource) { g.URL = "https://evil.example/acme/model.git" },
		"a longer host":                   func(g *v1alpha1.GitSource) { g.URL = strings.Replace(g.URL, "/acme", ".evil.example/acme", 1) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.change(t, change)
			w.round(t, 0)
			if s := w.secret(t); s.Name != "" || len(w.host.Tokens) > 0 {
				t.Errorf("%d tokens, Secret %s", len(w.host.Tokens), s.Data)
			}
		})
	}
	t.Run("the account loses the installation", func(t *testing.T) {
		w := newWorld(t)
		w.round(t, 0)
		account := &v1alpha1.Account{}
		if err := w.Get(t.Context(), client.ObjectKey{Name: "acme"}, account); err != nil {
			t.Fatal(err)
		}
		account.Spec.GitHub = nil
		if err := w.Update(t.Context(), account); err != nil {
			t.Fatal(err)
		}
		for range 120 {
			w.round(t, 30*time.Second)
		}
		if len(w.host.Tokens) != 1 {
			t.Errorf("%d tokens, want 1", len(w.host.Tokens))
		}
	})
}

// A Secret of the user, or of another object, is never overwritten.
func TestOtherSecretsAreNotOverwritten(t *testing.T) {
	owned := func(uid types.UID, annotations map[string]string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			Namespace: "acme", Name: "sales-github", Annotations: annotations,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "platform.quoin.dev/v1alpha1", Kind: "Deployment", Name: "x", UID: uid, Controller: ptr.To(true)}},
		}, Data: map[string][]byte{"password": []byte("own")}}
	}
	token := map[string]string{"platform.quoin.dev/github-token-expires-at": "2020-01-01T00:00:00Z"}
	for name, secret := range map[string]*corev1.Secret{
		"of the user":           {ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: "sales-github", Annotations: token}, Data: map[string][]byte{"password": []byte("own")}},
		"of another deployment": owned("d2", token),
		"with other values":     owned("d1", nil),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, secret)
			w.round(t, 0)
			if got := string(w.secret(t).Data["password"]); got != "own" || len(w.host.Tokens) > 0 || !strings.Contains(w.log.String(), "delete it, or name another one") {
				t.Errorf("password %q, %d tokens: %s", got, len(w.host.Tokens), w.log.String())
			}
		})
	}
}

// A change of the repository gets a token for it at once, and of two replicas that write at the same time one fails.
func TestChangesOfTheRepository(t *testing.T) {
	w := newWorld(t)
	w.host.Installations[1].Repositories["other"] = &githubserver.Repository{ID: 9, Branches: []string{"main"}}
	w.round(t, 0)
	w.change(t, func(g *v1alpha1.GitSource) { g.URL = w.host.URL + "/acme/other.git" })
	w.round(t, time.Second)
	stored := w.secret(t)
	if string(stored.Data["password"]) != w.host.Tokens[1] {
		t.Errorf("the Secret has the token of the previous repository")
	}
	stale := &githubtokens.Secrets{Live: staleReader{w.Client, stored.DeepCopy()}, Writer: w.Client, App: w.app, Now: func() time.Time { return w.now.Add(40 * time.Minute) }}
	w.round(t, 40*time.Minute)
	d := w.deployment()
	d.Spec.Model.Git.URL = w.host.URL + "/acme/other.git"
	target, _ := githubtokens.TargetOf(d)
	if _, err := stale.Ensure(t.Context(), target); !apierrors.IsConflict(err) {
		t.Errorf("a write on an old version: %v", err)
	}
}

// staleReader returns an old version of a Secret.
type staleReader struct {
	client.Reader
	old *corev1.Secret
}

func (r staleReader) Get(_ context.Context, _ client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	s, ok := o.(*corev1.Secret)
	if !ok {
		return errors.New("not a Secret")
	}
	r.old.DeepCopyInto(s)
	return nil
}

// The certificate authorities of an Enterprise Server are stored for Git, and replaced when they change.
func TestCertificateAuthoritiesAreStored(t *testing.T) {
	w := newWorld(t)
	w.round(t, 0)
	if ca, found := w.secret(t).Data["ca.crt"]; found {
		t.Errorf("ca.crt is %q", ca)
	}
	for _, ca := range []string{"first", "second", ""} {
		secrets := &githubtokens.Secrets{Live: w.Client, Writer: w.Client, App: trusting{w.app, []byte(ca)}, Now: func() time.Time { return w.now }}
		d := &v1alpha1.Deployment{}
		if err := w.Get(t.Context(), client.ObjectKey{Namespace: "acme", Name: "sales"}, d); err != nil {
			t.Fatal(err)
		}
		target, _ := githubtokens.TargetOf(d)
		before := w.writes.Load()
		for range 2 { // once
			if _, err := secrets.Ensure(t.Context(), target); err != nil {
				t.Fatal(err)
			}
		}
		if got := string(w.secret(t).Data["ca.crt"]); got != ca || w.writes.Load() != before+1 {
			t.Errorf("ca.crt is %q, want %q, after %d writes", got, ca, w.writes.Load()-before)
		}
	}
}

// trusting is an App with certificate authorities.
type trusting struct {
	*github.App
	ca []byte
}

func (a trusting) CA() []byte { return a.ca }
