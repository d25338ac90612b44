package deployments

import (
	"context"
	"io/fs"
	"regexp"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/edit"
	"github.com/quoin-dev/quoin/apiserver/githubtokens"
	"github.com/quoin-dev/quoin/apiserver/recording"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/apiserver/starter"
	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/fieldowner"
	"github.com/quoin-dev/quoin/internal/github"
	"github.com/quoin-dev/quoin/internal/tenant"
)

// ConnectGitHubInput is the documented body.
type ConnectGitHubInput struct {
	rest.InDeployment
	Body struct {
		InstallationID int64   `json:"installationId" minimum:"1" maximum:"9007199254740991"`
		Name           string  `json:"name" minLength:"1" maxLength:"100" doc:"The repository, without its owner, which is that of the installation."`
		Branch         *string `json:"deployBranchName,omitempty" nullable:"true" minLength:"1" maxLength:"244" doc:"The branch of production; the default branch of the repository when absent."`
		SameBranch     *string `json:"branch,omitempty" nullable:"true" minLength:"1" maxLength:"244" doc:"deployBranchName, as the command-line client sends it."`
		Root           *string `json:"deployProjectRoot,omitempty" nullable:"true" maxLength:"512" doc:"The folder with the data model; the root of the repository when absent."`
		IsNew          *bool   `json:"isNewRepo,omitempty" nullable:"true" doc:"Creates the repository, with a starter project. The GitHub App needs the permission Administration for it."`
		Private        *bool   `json:"private,omitempty" nullable:"true" doc:"Whether a new repository is private; true when absent. Without effect for others."`
	}
}

// branchName is the rule for names of branches of GitSource.
var branchName = regexp.MustCompile(`[[:cntrl:] ~^:?*\[\\]|^[/.]|/[./]|[.][.]|@[{]|[.]lock(/|$)|[/.]$|^@$`)

// outsidePath matches what a path of GitSource must not have.
var outsidePath = regexp.MustCompile(`[\x00-\x1F\x7F]|(^|/)[.][.](/|$)`)

// connectGitHub takes the data model of a deployment from a repository. The token is stored before the
// spec refers to it, so that the first fetch succeeds.
func (a *api) connectGitHub(ctx context.Context, in *ConnectGitHubInput) (*DeploymentOutput, error) {
	body, d := &in.Body, rest.ScopeFrom(ctx).Deployment
	switch {
	case body.Branch == nil:
		body.Branch = body.SameBranch
	case body.SameBranch != nil && *body.SameBranch != *body.Branch:
		return nil, rest.BadRequest("deployBranchName and branch: give one of them, not both")
	}
	app, err := a.useInstallation(ctx, body.InstallationID)
	if err != nil {
		return nil, err
	}
	// Before anything is changed at GitHub.
	owner, err := fieldowner.Of(d, "spec", "model")
	if err != nil {
		return nil, err
	}
	if owner != "" {
		return nil, &fieldowner.OwnedError{Field: "spec.model", Manager: owner}
	}
	source, err := a.githubSource(ctx, app, in)
	if err != nil {
		return nil, err
	}
	desired := d.DeepCopy()
	desired.Spec.Model = v1alpha1.ModelSource{Git: source}
	target, _ := githubtokens.TargetOf(desired)
	secrets := &githubtokens.Secrets{Live: a.Kube.Live(), Writer: a.Kube, App: app, Now: a.Now}
	if err := ensureToken(ctx, secrets, target); err != nil {
		return nil, githubProblem(ctx, err)
	}
	previous := d.Spec.Model.Git
	changed, err := a.takeModel(ctx, app, secrets, target)
	if err != nil {
		a.restoreToken(ctx, secrets, target)
		return nil, err
	}
	if previous != nil && previous.URL != source.URL {
		a.removeHook(ctx, app, previous)
	}
	return &DeploymentOutput{deploymentOf(changed)}, nil
}

// takeModel takes the data model of a deployment from the repository of a target, whose token is stored.
func (a *api) takeModel(ctx context.Context, app GitHub, secrets *githubtokens.Secrets, target githubtokens.Target) (*v1alpha1.Deployment, error) {
	source := target.Deployment.Spec.Model.Git
	var err error
	if source.WebhookSecretRef, err = a.setHook(ctx, app, secrets, target); err != nil {
		return nil, err
	}
	return edit.Change(recording.Named(ctx, audit.ConnectedGitHubRepository), a.Kube, rest.ScopeFrom(ctx).Deployment, func(d *v1alpha1.Deployment) error {
		d.Spec.Model = v1alpha1.ModelSource{Git: source}
		return nil
	})
}

// restoreTimeout bounds restoreToken.
const restoreTimeout = 20 * time.Second

// restoreToken stores a token of the repository that the spec of a deployment names, after the token of another one was stored
// in the same Secret and the deployment could not be connected to it. Otherwise the repository could not be fetched until the
// token is due. A failure is logged only.
func (a *api) restoreToken(ctx context.Context, secrets *githubtokens.Secrets, failed githubtokens.Target) {
	account := rest.ScopeFrom(ctx).Account
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), restoreTimeout)
	defer cancel()
	current := &v1alpha1.Deployment{}
	err := a.Kube.Live().Get(ctx, client.ObjectKeyFromObject(failed.Deployment), current)
	if err == nil {
		target, ok := githubtokens.TargetOf(current)
		if !ok || target.Secret != failed.Secret || !githubtokens.Allowed(account, target.Installation) {
			return
		}
		err = ensureToken(ctx, secrets, target)
	}
	if err != nil {
		log.FromContext(ctx).Info("The token of the repository of a deployment could not be restored", "deployment", failed.Deployment.Name, "reason", err.Error())
	}
}

// githubSource returns the source of a model for a request, after checking that the installation has the
// repository, and the repository the branch.
func (a *api) githubSource(ctx context.Context, app GitHub, in *ConnectGitHubInput) (*v1alpha1.GitSource, error) {
	body, d := &in.Body, rest.ScopeFrom(ctx).Deployment
	installation, err := app.Installation(ctx, body.InstallationID)
	if err != nil {
		return nil, githubProblem(ctx, err)
	}
	if installation.Suspended {
		return nil, rest.Conflict("installationId: %d is suspended: resume it on GitHub", body.InstallationID)
	}
	if !github.ValidName(body.Name) {
		return nil, rest.BadRequest("name: %q is not the name of a repository without its owner", rest.Clip(body.Name))
	}
	root := strings.Trim(ptr.Deref(body.Root, ""), "/")
	if outsidePath.MatchString(root) {
		return nil, rest.BadRequest("deployProjectRoot: %q; allowed: the path of a folder in the repository, without .. and control characters", rest.Clip(root))
	}
	repository, err := repositoryFor(ctx, app, installation, in)
	if err != nil {
		return nil, githubProblem(ctx, err)
	}
	if !strings.EqualFold(repository.Owner, installation.Login) || !github.ValidName(repository.Name) {
		return nil, rest.NotFound("name: %s has no repository %q", installation.Login, body.Name)
	}
	source := &v1alpha1.GitSource{
		URL: app.CloneURL(installation.Login, repository.Name), GitHubInstallationID: &body.InstallationID,
		SecretRef: &v1alpha1.LocalReference{Name: githubtokens.SecretName(d)}, Path: root,
	}
	if body.Branch == nil || ptr.Deref(body.IsNew, false) {
		return source, nil
	}
	source.Branch = *body.Branch
	if branchName.MatchString(source.Branch) {
		return nil, rest.BadRequest("deployBranchName: %q is not the name of a branch", rest.Clip(source.Branch))
	}
	exists, err := app.HasBranch(ctx, body.InstallationID, repository.Owner, repository.Name, source.Branch)
	switch {
	case err != nil:
		return nil, githubProblem(ctx, err)
	case !exists:
		return nil, rest.BadRequest("deployBranchName: the repository has no branch %q", rest.Clip(source.Branch))
	}
	return source, nil
}

// repositoryFor returns the repository that a request names, which it creates with the starter project if the request
// says so.
func repositoryFor(ctx context.Context, app GitHub, installation github.Installation, in *ConnectGitHubInput) (github.Repository, error) {
	body := &in.Body
	if !ptr.Deref(body.IsNew, false) {
		return app.Repository(ctx, installation.ID, installation.Login, body.Name)
	}
	switch {
	case body.Branch != nil:
		return github.Repository{}, rest.BadRequest("deployBranchName: a new repository has its default branch only; leave it out")
	case !installation.IsOrganization:
		return github.Repository{}, rest.BadRequest("isNewRepo: %s is a user, in whose name a GitHub App cannot create repositories; create it on GitHub", installation.Login)
	}
	n := github.NewRepository{Owner: installation.Login, Name: body.Name, Private: ptr.Deref(body.Private, true), Files: map[string]string{}}
	root := ""
	if path := strings.Trim(ptr.Deref(body.Root, ""), "/"); path != "" {
		if !fs.ValidPath(path) {
			return github.Repository{}, rest.BadRequest("deployProjectRoot: allowed: the path of a folder, without . and ..")
		}
		root = path + "/"
	}
	for path, text := range starter.Files(rest.ScopeFrom(ctx).Deployment.DisplayName()) {
		n.Files[root+path] = text
	}
	n.AuthorName, n.AuthorEmail = rest.Author(ctx)
	created, err := app.CreateRepository(ctx, installation.ID, n)
	if github.IsReason(err, github.Exists) {
		return created, rest.Conflict("name: %s; connect it without isNewRepo", err)
	}
	return created, err
}

// ensureToken stores a token. If another process stores one at the same time, that one is used.
func ensureToken(ctx context.Context, secrets *githubtokens.Secrets, target githubtokens.Target) error {
	_, err := secrets.Ensure(ctx, target)
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		_, err = secrets.Ensure(ctx, target)
	}
	return err
}

// setHook lets GitHub report pushes to the deployment, and returns where the secret for that is. Without
// the permission to do so, the repository is polled.
func (a *api) setHook(ctx context.Context, app GitHub, secrets *githubtokens.Secrets, target githubtokens.Target) (*v1alpha1.SecretKeyReference, error) {
	s := rest.ScopeFrom(ctx)
	secret, err := secrets.HookSecret(ctx, target)
	if err != nil || secret == "" {
		return nil, err
	}
	owner, name, _ := app.RepositoryOf(target.URL)
	err = app.SetHook(ctx, target.Installation, owner, name, hookURL(s), secret)
	switch {
	case github.IsReason(err, github.Forbidden), github.IsReason(err, github.NotFound):
		log.FromContext(ctx).Info("The GitHub App may not create push hooks: the repository is polled", "deployment", s.Deployment.Name, "reason", err.Error())
		return nil, nil
	case err != nil:
		return nil, githubProblem(ctx, err)
	}
	return &v1alpha1.SecretKeyReference{Name: target.Secret, Key: githubtokens.KeyHookSecret}, nil
}

// hookURL returns the URL to which Git hosts report pushes to a deployment.
func hookURL(s *rest.Scope) string {
	return tenant.URL(s.Account) + "/build/api/v1/deployments/" + s.Deployment.Labels[v1alpha1.LabelID] + "/git-hook"
}

// removeHook removes the push hook of the repository that a deployment was connected to before. A failure leaves a hook
// that is rejected, and is logged only.
func (a *api) removeHook(ctx context.Context, app GitHub, previous *v1alpha1.GitSource) {
	s := rest.ScopeFrom(ctx)
	owner, name, ok := app.RepositoryOf(previous.URL)
	if !ok || previous.GitHubInstallationID == nil || !githubtokens.Allowed(s.Account, *previous.GitHubInstallationID) {
		return
	}
	if err := app.RemoveHook(ctx, *previous.GitHubInstallationID, owner, name, hookURL(s)); err != nil {
		log.FromContext(ctx).Info("The push hook of the previous repository could not be removed", "deployment", s.Deployment.Name, "repository", owner+"/"+name, "reason", err.Error())
	}
}
