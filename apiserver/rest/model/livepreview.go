package model

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/auth"
	"github.com/quoin-dev/quoin/apiserver/edit"
	"github.com/quoin-dev/quoin/apiserver/gitmirror"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/internal/content/repository"
	"github.com/quoin-dev/quoin/internal/engine"
	"github.com/quoin-dev/quoin/internal/modeltree"
)

// livePreviewRoutes are the requests of the development server of Cube about a live preview. Its uploads
// are those of deployFamily with live=true.
func (a *api) livePreviewRoutes() []rest.Route {
	const in = "/devmode/{deploymentId}"
	return []rest.Route{
		rest.Handle(http.MethodGet, in+"/status", "livePreviewStatus", v1alpha1.PermissionSchemaRead,
			"Report whether the environment of a live preview serves an upload", a.livePreviewStatus).WithDocument(describeConflict),
		rest.Handle(http.MethodPost, in+"/token", "livePreviewToken", v1alpha1.PermissionSchemaUpdate,
			"Create a token that queries the data of a live preview; for others than deploy tokens with DeploymentUpdate", a.livePreviewToken),
	}
}

// The status of a live preview. The page of the development server knows these values.
const (
	previewLoading    = "loading"
	previewInProgress = "inProgress"
	previewRunning    = "running"
)

const (
	// previewTokenSeconds is the lifetime of a token.
	previewTokenSeconds = 3600
	// previewTimeout is how long a request waits for the environment of a new branch.
	previewTimeout = 10 * time.Second
)

// previewer returns the person whose live preview a request concerns: the caller, or the principal that
// created the deploy token.
func previewer(ctx context.Context) (person, error) {
	s := rest.ScopeFrom(ctx)
	switch p := s.Principal; {
	case p.Kind != auth.KindDeployToken:
		return personOf(s), nil
	case p.Creator == "":
		return person{}, rest.Forbidden("a Git token has no live previews; allowed: a deploy token")
	default:
		return person{p.Creator, p.CreatorName}, nil
	}
}

// planPreview returns the branch of a person's live preview, and the change that makes it so: the personal
// branch that the person has active in dev mode, or else that which entering dev mode gives.
func (a *api) planPreview(ctx context.Context, t *tree) (b *target, c *change, isNew bool, err error) {
	base, err := t.selected("")
	if err != nil {
		return nil, nil, false, err
	}
	c = newChange(ctx, t)
	if base.role == v1alpha1.BranchPersonal {
		return base, c, false, t.checkOwned(base, false)
	}
	if b, isNew, err = t.fork(base, c); err == nil {
		c.enter(b.name, a.stamp())
	}
	return b, c, isNew, err
}

// openPreview reads the branches of a deployment for the person whose live preview a request concerns.
func (a *api) openPreview(ctx context.Context, need gitmirror.Need) (*tree, error) {
	by, err := previewer(ctx)
	if err != nil {
		return nil, err
	}
	return a.openTree(ctx, by, need)
}

// previewTarget returns the branch of the caller's live preview as the next upload finds it.
func (a *api) previewTarget(ctx context.Context, q *UploadQuery) (*target, error) {
	t, err := a.openPreview(ctx, gitmirror.Current)
	if err != nil {
		return nil, err
	}
	b, _, _, err := a.planPreview(ctx, t)
	if err != nil {
		return nil, err
	}
	return q.rooted(b), nil
}

// beginPreview begins the dev mode of the person unless it is active, and returns the branch.
func (a *api) beginPreview(ctx context.Context) (b *target, err error) {
	by, err := previewer(ctx)
	if err != nil {
		return nil, err
	}
	var isNew bool
	err = a.saveFor(ctx, by, func(t *tree) (c *change, err error) {
		b, c, isNew, err = a.planPreview(ctx, t)
		return c, err
	})
	if err == nil && isNew {
		err = a.waitForBranch(ctx, b.name, b.parent)
	}
	return b, err
}

// previewBranch returns the branch of a live preview that was started.
func (a *api) previewBranch(ctx context.Context, name string, q *UploadQuery) (*target, error) {
	t, err := a.openPreview(ctx, gitmirror.Current)
	if err != nil {
		return nil, err
	}
	b, err := t.branch("transaction", name)
	if err != nil {
		return nil, err
	}
	return q.rooted(b), t.checkOwned(b, true)
}

// hasPersonalEnvironments reports whether personal branches of a deployment have environments.
func hasPersonalEnvironments(d *v1alpha1.Deployment) bool {
	return d.Spec.OnDemand != nil && slices.Contains(d.Spec.OnDemand.Roles, v1alpha1.OnDemandRole(v1alpha1.BranchPersonal))
}

// noEnvironment is why the branch of a live preview has no environment.
const noEnvironment = `it has no environment: add "personal" to spec.onDemand.roles of the deployment`

// branchEnvironment returns the environment of a branch from the cache; nil if it has none yet.
func (a *api) branchEnvironment(ctx context.Context, branch string) (*v1alpha1.Environment, error) {
	b, err := a.branchObject(ctx, branch)
	if err != nil || b == nil || b.Status.Environment == "" {
		return nil, err
	}
	e := &v1alpha1.Environment{}
	if err := a.Kube.Get(ctx, client.ObjectKey{Namespace: b.Namespace, Name: b.Status.Environment}, e); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return e, nil
}

// awaitEnvironment waits until the environment of a branch has its credentials.
func (a *api) awaitEnvironment(ctx context.Context, branch string) (e *v1alpha1.Environment, err error) {
	if !hasPersonalEnvironments(rest.ScopeFrom(ctx).Deployment) {
		return nil, rest.Conflict("branch %q: %s", rest.Clip(branch), noEnvironment)
	}
	err = wait.PollUntilContextTimeout(ctx, pollInterval, previewTimeout, true, func(ctx context.Context) (bool, error) {
		var err error
		if e, err = a.branchEnvironment(ctx, branch); err != nil {
			return false, err
		}
		return e != nil && e.Status.CredentialsSecret != "", nil
	})
	if wait.Interrupted(err) && ctx.Err() == nil {
		return nil, rest.Unavailable("the environment of branch %q is not set up yet; try again", rest.Clip(branch))
	}
	return e, err
}

// wakePreview wakes the environment of a branch to which a live preview was uploaded. The upload is
// stored, so failures are logged only: the next query wakes it too.
func (a *api) wakePreview(ctx context.Context, branch string) {
	if !hasPersonalEnvironments(rest.ScopeFrom(ctx).Deployment) {
		return
	}
	ctx = context.WithoutCancel(ctx)
	e, err := a.awaitEnvironment(ctx, branch)
	if err == nil && e.Spec.IdleSeconds != nil {
		err = a.wake(ctx, e)
	}
	if err != nil {
		log.FromContext(ctx).Error(err, "The environment of a live preview could not be woken; the next query wakes it", "branch", branch)
	}
}

// +kubebuilder:rbac:groups=platform.quoin.dev,resources=environments,verbs=get;patch

// wake requests that an environment wakes, as the gateway does.
func (a *api) wake(ctx context.Context, e *v1alpha1.Environment) error {
	changed := e.DeepCopy()
	metav1.SetMetaDataAnnotation(&changed.ObjectMeta, v1alpha1.AnnotationWakeRequested, a.Clock.Now().UTC().Format(time.RFC3339))
	return client.IgnoreNotFound(a.Kube.Patch(ctx, changed, client.MergeFrom(e), client.FieldOwner(edit.Manager)))
}

// LivePreviewStatusInput is what the development server sends.
type LivePreviewStatusInput struct {
	rest.InDeployment
	LastHash rest.Optional[string] `query:"lastHash" maxLength:"40" pattern:"^([0-9a-f]{40})?$" patternDescription:"the lastHash of a finished upload" doc:"The upload; the newest commit of the branch when absent."`
}

// LivePreviewStatusOutput is the response. The development server adds it to a status of its own.
type LivePreviewStatusOutput struct {
	Body struct {
		Status        string  `json:"status" enum:"loading,inProgress,running" doc:"running if the environment of the branch serves the upload; inProgress while it is rolled out; loading if it does not serve it and nothing is in progress."`
		DeploymentURL string  `json:"deploymentUrl" doc:"URL of the data API of the branch, without its base path."`
		BranchName    string  `json:"branchName" doc:"The branch; it may not exist before the first upload."`
		Message       *string `json:"message,omitempty" nullable:"true" doc:"Why the environment does not serve the upload."`
	}
}

func (a *api) livePreviewStatus(ctx context.Context, in *LivePreviewStatusInput) (*LivePreviewStatusOutput, error) {
	t, err := a.openPreview(ctx, gitmirror.Recent)
	if err != nil {
		return nil, err
	}
	b, _, isNew, err := a.planPreview(ctx, t)
	if err != nil {
		return nil, err
	}
	s, out := rest.ScopeFrom(ctx), &LivePreviewStatusOutput{}
	out.Body.DeploymentURL, out.Body.BranchName = engine.BranchURL(s.Account, s.Deployment, b.name), b.name
	message := "dev mode is not active: the next upload begins it"
	out.Body.Status = previewLoading
	if !isNew {
		want := b.commit
		if in.LastHash.Value != "" {
			want = plumbing.NewHash(in.LastHash.Value)
		}
		if out.Body.Status, message, err = a.previewState(ctx, b, want); err != nil {
			return nil, err
		}
	}
	out.Body.Message = rest.NilIfEmpty(message)
	return out, nil
}

// previewState returns the status of a live preview for a commit, and why it is not running.
func (a *api) previewState(ctx context.Context, b *target, want plumbing.Hash) (status, message string, err error) {
	if has, err := contains(b.session, b.commit, want); err != nil || !has {
		return previewLoading, "lastHash: branch " + b.name + " does not have the upload", err
	}
	d := rest.ScopeFrom(ctx).Deployment
	e, err := a.branchEnvironment(ctx, b.name)
	switch {
	case err != nil:
		return "", "", err
	case !hasPersonalEnvironments(d):
		return previewLoading, noEnvironment, nil
	case e == nil:
		return previewInProgress, "the environment is created", nil
	}
	has, err := contains(b.session, plumbing.NewHash(e.Spec.ModelCommit), want)
	if err != nil {
		return "", "", err
	}
	status, message = environmentState(e, has)
	if status == previewInProgress && ptr.Deref(d.Spec.Suspend, false) {
		return previewLoading, "the deployment is suspended", nil
	}
	return status, message, nil
}

// environmentState returns the status of a live preview from its environment, which may have the commit or
// not yet.
func environmentState(e *v1alpha1.Environment, hasCommit bool) (status, message string) {
	c := apimeta.FindStatusCondition(e.Status.Conditions, v1alpha1.ConditionReady)
	switch {
	case c != nil && c.Reason == v1alpha1.ReasonAsleep:
		return previewLoading, "the environment is asleep: the next query or upload wakes it"
	case c == nil || !hasCommit || c.ObservedGeneration != e.Generation:
		return previewInProgress, "the environment does not have the upload yet"
	case c.Status == metav1.ConditionTrue:
		return previewRunning, ""
	case c.Reason == v1alpha1.ReasonModelBroken, apimeta.IsStatusConditionTrue(e.Status.Conditions, v1alpha1.ConditionStalled):
		return previewLoading, c.Message
	}
	return previewInProgress, c.Message
}

// contains reports whether a commit has another one in its history, or the same files: a commit of dev mode
// replaces those of its branch.
func contains(s *repository.Session, commit, other plumbing.Hash) (bool, error) {
	if commit == other {
		return true, nil
	}
	found, err := modeltree.IsAncestor(s, other, commit)
	if err == nil && !found {
		var mine, others plumbing.Hash
		if mine, err = modeltree.TreeOf(s, commit); err == nil {
			others, err = modeltree.TreeOf(s, other)
		}
		found = err == nil && mine == others
	}
	if errors.Is(err, plumbing.ErrObjectNotFound) {
		return false, nil
	}
	return found, err
}

// LivePreviewTokenInput has the security context of the token.
type LivePreviewTokenInput struct {
	rest.InDeployment
	Body *map[string]any `secret:"true" doc:"The security context of the token; empty when absent."`
}

// LivePreviewTokenOutput is the response.
type LivePreviewTokenOutput struct {
	Body struct {
		Token string `json:"token" doc:"A JWT, sent in Authorization without a prefix, valid for an hour. It is not stored and cannot be shown again."`
	}
}

// livePreviewToken issues a token for the environment of the caller's live preview. The creator of a deploy
// token may create data tokens; other callers have to hold the permission themselves.
func (a *api) livePreviewToken(ctx context.Context, in *LivePreviewTokenInput) (*LivePreviewTokenOutput, error) {
	s := rest.ScopeFrom(ctx)
	if p := s.Principal; p.Kind != auth.KindDeployToken && !p.MayOn(v1alpha1.PermissionDeploymentUpdate, s.Deployment.Name) {
		return nil, rest.Forbidden("%s %q does not hold the permission %s", p.Kind, p.Name, v1alpha1.PermissionDeploymentUpdate)
	}
	b, err := a.beginPreview(ctx)
	if err != nil {
		return nil, err
	}
	e, err := a.awaitEnvironment(ctx, b.name)
	if err != nil {
		return nil, err
	}
	out := &LivePreviewTokenOutput{}
	out.Body.Token, err = a.IssueToken(ctx, e, ptr.Deref(in.Body, nil), previewTokenSeconds)
	return out, err
}
