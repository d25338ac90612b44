package auth

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

// IndexGitHook is the field by which the cache finds the Deployment that takes hooks under a
// number; GitHookNumbers are its values.
const IndexGitHook = "gitHook"

// GitHookNumbers is the number of a Deployment that takes hooks.
func GitHookNumbers(obj client.Object) []string {
	d, ok := obj.(*v1alpha1.Deployment)
	if !ok || d.Spec.Model.Git == nil || d.Spec.Model.Git.WebhookSecretRef == nil || d.Labels[v1alpha1.LabelID] == "" {
		return nil
	}
	return []string{d.Labels[v1alpha1.LabelID]}
}

const (
	// shortestHookSecret in bytes: what is shorter can be guessed by whoever has seen a hook.
	shortestHookSecret = 16
	// hookSecretFor is how long a secret is remembered: hooks of one deployment, however many,
	// cost a look-up a second.
	hookSecretFor   = time.Second
	mostHookSecrets = 1024
	// hookSecretsPerSecond and hookSecretBurst bound the look-ups for all deployments.
	hookSecretsPerSecond = 50
	hookSecretBurst      = 100
	// hooksAtOnce bounds those whose bodies are being read. Anybody can send one slowly, and must
	// not take the places of other requests with it.
	hooksAtOnce = 100
)

// ErrBody says that the body of a hook cannot be read, or is too large: it wraps the reason.
var ErrBody = errors.New("read the body of the hook")

// errHook is the answer to every hook that is not what it should be. It is the same whether there
// is no such deployment, it takes no hooks or the signature is wrong.
var errHook = refused("the hook is not signed with the secret of the deployment")

// GitHooks recognises hooks of Git hosts by the secret that a Deployment shares with its host. It
// is for one route only. Make one with NewGitHooks.
type GitHooks struct {
	// before and after the number of the deployment in the path.
	before, after string
	cached, live  client.Reader
	limiter       *rate.Limiter
	secrets       *memory[[]byte]
	reading       chan struct{}
	// nobodys secret stands in where there is none, so that as much is done.
	nobodys []byte
}

// numberSegment stands in a path for the number of a deployment.
const numberSegment = "{deploymentId}"

// NewGitHooks returns an authenticator of hooks that are posted to a path, in which
// {deploymentId} stands for the number. cached has the index IndexGitHook; live reads the API
// server itself.
func NewGitHooks(path string, cached, live client.Reader, clk clock.PassiveClock) *GitHooks {
	before, after, _ := strings.Cut(path, numberSegment)
	return &GitHooks{
		before: before, after: after, cached: cached, live: live,
		limiter: rate.NewLimiter(hookSecretsPerSecond, hookSecretBurst),
		secrets: newMemory[[]byte](clk, hookSecretFor, mostHookSecrets),
		reading: make(chan struct{}, hooksAtOnce),
		nobodys: []byte(rand.Text()),
	}
}

// Authenticate implements Authenticator. It reads the body of the request, which is not needed
// any more: what a hook says is not believed, it only has the repository read.
func (a *GitHooks) Authenticate(ctx context.Context, account *v1alpha1.Account, r *http.Request) (*Principal, error) {
	number, ok := a.numberIn(r)
	if !ok || len(r.Header.Values("Authorization")) > 0 {
		return nil, otherForm
	}
	shown, ok := proofOf(r.Header)
	if !ok {
		return nil, errHook
	}
	select {
	case a.reading <- struct{}{}:
		defer func() { <-a.reading }()
	default:
		return nil, ErrBusy
	}
	d, secret, err := a.secretOf(ctx, account.Spec.Namespace, number)
	if err != nil {
		return nil, err
	}
	holds, err := shown.holds(secret, r.Body)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrBody, err)
	case !holds || d == nil:
		return nil, errHook
	}
	return &Principal{
		Kind: KindGitHook, Account: account.Name, ID: "git-hook/" + d.Name, Name: d.Name,
		Permissions: []v1alpha1.Permission{"SchemaUpdate"}, Deployments: []string{d.Name},
	}, nil
}

var hookNumber = regexp.MustCompile(`^[0-9]{1,16}$`)

// numberIn is the number of the deployment in the path of a hook; false for all other requests.
func (a *GitHooks) numberIn(r *http.Request) (string, bool) {
	rest, begins := strings.CutPrefix(r.URL.Path, a.before)
	number, ends := strings.CutSuffix(rest, a.after)
	return number, r.Method == http.MethodPost && begins && ends && hookNumber.MatchString(number)
}

// nowhere is where the secret of a deployment that takes no hooks is looked for.
var nowhere = v1alpha1.SecretKeyReference{Name: "quoin-takes-no-git-hooks", Key: "secret"}

// secretOf is the Deployment of the namespace that takes hooks under a number, and its secret.
// Where there is none it is nil, and as much is done.
func (a *GitHooks) secretOf(ctx context.Context, namespace, number string) (*v1alpha1.Deployment, []byte, error) {
	list := &v1alpha1.DeploymentList{}
	err := a.cached.List(ctx, list, client.InNamespace(namespace), client.MatchingFields{IndexGitHook: number}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, nil, fmt.Errorf("find the deployment of a hook: %w", err)
	}
	var d *v1alpha1.Deployment
	ref := nowhere
	if len(list.Items) == 1 { // a number that is there twice, as it may be after a restore, is nobody's
		d = &list.Items[0]
		ref = *d.Spec.Model.Git.WebhookSecretRef
	}
	name := strings.Join([]string{namespace, number, ref.Name, ref.Key}, "/")
	secret, known := a.secrets.get(name)
	if !known {
		if secret, err = a.read(ctx, namespace, ref); err != nil {
			return nil, nil, err
		}
		if d != nil && len(secret) < shortestHookSecret {
			log.FromContext(ctx).Info("Git hooks of a deployment are refused: their secret is missing or too short", "deployment", klog.KObj(d),
				"secret", ref.Name, "key", ref.Key, "found", len(secret) > 0, "atLeastBytes", shortestHookSecret)
		}
		a.secrets.put(name, secret)
	}
	if d == nil || len(secret) < shortestHookSecret {
		return nil, a.nobodys, nil
	}
	return d, secret, nil
}

// read returns the value of a key; nil when there is none. A line break at the end, which files
// have, is not part of it.
func (a *GitHooks) read(ctx context.Context, namespace string, ref v1alpha1.SecretKeyReference) ([]byte, error) {
	if !a.limiter.Allow() {
		return nil, ErrBusy
	}
	held := &corev1.Secret{}
	err := a.live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: ref.Name}, held)
	switch {
	case apierrors.IsForbidden(err):
		return nil, fmt.Errorf("bind ClusterRole quoin-account-apiserver to quoin apiserver with a RoleBinding in namespace %q: %w", namespace, err)
	case client.IgnoreNotFound(err) != nil:
		return nil, fmt.Errorf("read the secret of hooks: %w", err)
	}
	return bytes.TrimRight(held.Data[ref.Key], "\r\n"), nil
}
