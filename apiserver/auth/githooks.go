package auth

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/access"
	"github.com/quoin-dev/quoin/internal/serving"
	"github.com/quoin-dev/quoin/internal/serving/pending"
)

// IndexGitHook is the index of Deployments with a webhook secret by number. GitHookNumbers returns its
// values.
const IndexGitHook = "gitHook"

// IndexDbtHook is the index of Deployments with a webhook secret of their dbt project by number. DbtHookNumbers
// returns its values.
const IndexDbtHook = "dbtHook"

// GitHookNumbers returns the number of a Deployment with a webhook secret.
func GitHookNumbers(obj client.Object) []string { return numbersWith(obj, modelSecret) }

// DbtHookNumbers returns the number of a Deployment with a webhook secret of its dbt project.
func DbtHookNumbers(obj client.Object) []string { return numbersWith(obj, dbtSecret) }

func numbersWith(obj client.Object, secretOf func(*v1alpha1.Deployment) *v1alpha1.SecretKeyReference) []string {
	d, ok := obj.(*v1alpha1.Deployment)
	if !ok || secretOf(d) == nil || d.Labels[v1alpha1.LabelID] == "" {
		return nil
	}
	return []string{d.Labels[v1alpha1.LabelID]}
}

// modelSecret returns the webhook secret of the model of a Deployment, and dbtSecret that of its dbt project; nil
// if there is none.
func modelSecret(d *v1alpha1.Deployment) *v1alpha1.SecretKeyReference {
	if d.Spec.Model.Git == nil {
		return nil
	}
	return d.Spec.Model.Git.WebhookSecretRef
}

func dbtSecret(d *v1alpha1.Deployment) *v1alpha1.SecretKeyReference {
	if d.Spec.Dbt == nil {
		return nil
	}
	return d.Spec.Dbt.WebhookSecretRef
}

const (
	// minHookSecret is the minimum length in bytes. A shorter secret can be guessed from a signed
	// webhook.
	minHookSecret = 16
	// hookSecretFor is how long a secret is cached: webhooks of a deployment cost at most one read per
	// second.
	hookSecretFor  = time.Second
	maxHookSecrets = 1024
	// hooksAtOnce is the maximum number of webhooks whose bodies are read concurrently. Of more, the one whose
	// body has been awaited longest is ended: clients without the secret can send bodies slowly, Git hosts
	// send them within milliseconds.
	hooksAtOnce = 100
	// dbtHooksAtOnce is the same for webhooks of dbt projects, whose bodies are kept in memory.
	dbtHooksAtOnce = 20
)

// hookAllowance limits reads of webhook secrets. A Git host delivers the webhooks of many deployments
// from one address, which must not use up what an account has.
var hookAllowance = allowance{address: rates{10, 25}, account: rates{20, 50}, total: rates{50, 100}}

// ErrBody is returned if the body of a webhook cannot be read or is too large. It wraps the cause.
var ErrBody = errors.New("read the body of the hook")

// errHook is returned for every invalid webhook: it does not reveal whether the deployment does not
// exist, has no webhook secret, or the signature is wrong.
var errHook = unauthenticated("the hook is not signed with the secret of the deployment")

// GitHooks authenticates push webhooks of Git hosts by the webhook secret of a Deployment, on one
// route only. Create it with NewGitHooks or NewDbtHooks.
type GitHooks struct {
	// before and after the number of the deployment in the path.
	before, after string
	// index is that of deployments that have a secret, and secretRef returns it.
	index     string
	secretRef func(*v1alpha1.Deployment) *v1alpha1.SecretKeyReference
	// actor begins the ids of principals.
	actor string
	// keepsBody is true if the handler reads the body.
	keepsBody    bool
	cached, live client.Reader
	budget       *budget
	secrets      *expiringCache[string, []byte]
	reading      *pending.Set
	// dummySecret is used if there is none, so that the check takes constant time.
	dummySecret []byte
}

// numberSegment is the placeholder for the number of a deployment in a path.
const numberSegment = "{deploymentId}"

// NewGitHooks returns an authenticator of webhooks that are posted to a path with the placeholder
// {deploymentId}. cached must have the index IndexGitHook; live reads from the Kubernetes API server.
func NewGitHooks(path string, cached, live client.Reader, clk clock.PassiveClock) *GitHooks {
	a := newHooks(path, cached, live, clk)
	a.index, a.secretRef, a.actor, a.reading = IndexGitHook, modelSecret, "git-hook/", newReading(hooksAtOnce)
	return a
}

// NewDbtHooks is NewGitHooks for webhooks of the dbt project of a deployment. cached must have the index
// IndexDbtHook. Authenticated requests keep their body.
func NewDbtHooks(path string, cached, live client.Reader, clk clock.PassiveClock) *GitHooks {
	a := newHooks(path, cached, live, clk)
	a.index, a.secretRef, a.actor, a.reading, a.keepsBody = IndexDbtHook, dbtSecret, "dbt-hook/", newReading(dbtHooksAtOnce), true
	return a
}

func newHooks(path string, cached, live client.Reader, clk clock.PassiveClock) *GitHooks {
	before, after, _ := strings.Cut(path, numberSegment)
	return &GitHooks{
		before: before, after: after, cached: cached, live: live,
		budget:      newBudget(clk, hookAllowance),
		secrets:     newExpiringCache[string, []byte](clk, hookSecretFor, maxHookSecrets),
		dummySecret: []byte(rand.Text()),
	}
}

// newReading returns a set of at most limit bodies that are read before authentication, half of them of a client
// address.
func newReading(limit int) *pending.Set {
	return pending.NewSet(pending.Limits{Total: limit, PerAddress: limit / 2}, pending.NewMetrics("apiserver", nil), pending.KindRequest)
}

// Authenticate implements Authenticator. It consumes the body of the request, or keeps a copy if the handler
// reads it: before the signature has been verified, nothing evaluates it.
func (a *GitHooks) Authenticate(ctx context.Context, account *v1alpha1.Account, r *http.Request) (*Principal, error) {
	number, ok := a.numberIn(r)
	if !ok || len(r.Header.Values("Authorization")) > 0 {
		return nil, otherForm
	}
	shown, ok := proofOf(r.Header)
	if !ok {
		return nil, errHook
	}
	defer a.reading.Add(serving.ClientNetwork(ctx), func() { serving.InterruptBody(ctx) }).Done()
	d, secret, err := a.secretOf(ctx, account, number)
	if err != nil {
		return nil, err
	}
	var body bytes.Buffer
	source := io.Reader(r.Body)
	if a.keepsBody {
		source = io.TeeReader(r.Body, &body)
	}
	holds, err := shown.holds(secret, source)
	if err == nil && holds && a.keepsBody {
		_, err = io.Copy(io.Discard, source) // a token does not need the body
		r.Body = io.NopCloser(&body)
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrBody, err)
	case !holds || d == nil:
		return nil, errHook
	}
	a.budget.prove(ctx, account.Name, "")
	return &Principal{
		Kind: KindGitHook, Account: account.Name, ID: a.actor + d.Name, Name: d.Name,
		Grants: access.On([]string{d.Name}, v1alpha1.PermissionSchemaUpdate),
	}, nil
}

var hookNumber = regexp.MustCompile(`^[0-9]{1,16}$`)

// numberIn returns the number of the deployment in the path of a webhook, and false for all other
// requests.
func (a *GitHooks) numberIn(r *http.Request) (string, bool) {
	rest, begins := strings.CutPrefix(r.URL.Path, a.before)
	number, ends := strings.CutSuffix(rest, a.after)
	return number, r.Method == http.MethodPost && begins && ends && hookNumber.MatchString(number)
}

// absentSecret is read for a deployment without webhook secret.
var absentSecret = v1alpha1.SecretKeyReference{Name: "quoin-takes-no-git-hooks", Key: "secret"}

// secretOf returns the Deployment with a number and its webhook secret. If there is none, it returns
// nil and the dummy secret after the same amount of work.
func (a *GitHooks) secretOf(ctx context.Context, account *v1alpha1.Account, number string) (*v1alpha1.Deployment, []byte, error) {
	namespace := account.Spec.Namespace
	list := &v1alpha1.DeploymentList{}
	err := a.cached.List(ctx, list, client.InNamespace(namespace), client.MatchingFields{a.index: number}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, nil, fmt.Errorf("find the deployment of a hook: %w", err)
	}
	var d *v1alpha1.Deployment
	ref := absentSecret
	if len(list.Items) == 1 { // a duplicate number, possible after a restore, is not accepted
		d = &list.Items[0]
		ref = *a.secretRef(d)
	}
	name := strings.Join([]string{namespace, number, ref.Name, ref.Key}, "/")
	secret, known := a.secrets.get(name)
	if !known {
		if err := a.budget.spend(ctx, account.Name, ""); err != nil {
			return nil, nil, err
		}
		if secret, err = a.read(ctx, namespace, ref); err != nil {
			return nil, nil, err
		}
		if d != nil && len(secret) < minHookSecret {
			log.FromContext(ctx).Info("Git hooks of a deployment are rejected: the webhook secret is missing or too short", "deployment", klog.KObj(d),
				"secret", ref.Name, "key", ref.Key, "found", len(secret) > 0, "atLeastBytes", minHookSecret)
		}
		a.secrets.put(name, secret)
	}
	if d == nil || len(secret) < minHookSecret {
		return nil, a.dummySecret, nil
	}
	return d, secret, nil
}

// read returns the value of a key of a Secret without trailing line breaks, nil if there is none.
func (a *GitHooks) read(ctx context.Context, namespace string, ref v1alpha1.SecretKeyReference) ([]byte, error) {
	held := &corev1.Secret{}
	err := a.live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: ref.Name}, held)
	switch {
	case apierrors.IsForbidden(err):
		return nil, fmt.Errorf("bind ClusterRole quoin-account-apiserver to quoin apiserver with a RoleBinding in namespace %q: %w", namespace, err)
	case client.IgnoreNotFound(err) != nil:
		return nil, fmt.Errorf("read the webhook secret: %w", err)
	}
	return bytes.TrimRight(held.Data[ref.Key], "\r\n"), nil
}
