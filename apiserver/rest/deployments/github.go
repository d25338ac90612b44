package deployments

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"

	"github.com/danielgtaylor/huma/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/githubtokens"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/internal/github"
)

// GitHub reads installations of a GitHub App and their repositories: a *github.App.
type GitHub interface {
	githubtokens.Issuer
	LinkURL() string
	SettingsURL() string
	CloneURL(owner, repository string) string
	Installation(ctx context.Context, id int64) (github.Installation, error)
	Repositories(ctx context.Context, installation int64, from, count int) ([]github.Repository, bool, error)
	Repository(ctx context.Context, installation int64, owner, name string) (github.Repository, error)
	Branches(ctx context.Context, installation int64, owner, name string, from, count int) ([]string, bool, error)
	HasBranch(ctx context.Context, installation int64, owner, name, branch string) (bool, error)
	CreateRepository(ctx context.Context, installation int64, n github.NewRepository) (github.Repository, error)
	SetHook(ctx context.Context, installation int64, owner, name, hookURL, secret string) error
	RemoveHook(ctx context.Context, installation int64, owner, name, hookURL string) error
}

func (a *api) githubFamily() rest.Family {
	const path = "/api/v1/github"
	family := rest.Family{Tag: "GitHub", Description: "Repositories on GitHub that the account may use, and connections of deployments to them.", Routes: []rest.Route{
		rest.Handle(http.MethodGet, path+"/status", "getGitHubStatus", v1alpha1.PermissionDeploymentCreate, "Report whether the account has a GitHub installation", a.githubStatus),
		rest.Handle(http.MethodGet, path+"/installations", "listGitHubInstallations", v1alpha1.PermissionDeploymentCreate, "List the account's GitHub installations", a.listInstallations),
		rest.Handle(http.MethodGet, path+"/installations/{installationId}/repositories", "listGitHubRepositories", v1alpha1.PermissionDeploymentCreate,
			"List the repositories of an installation", a.listRepositories),
		rest.Handle(http.MethodGet, path+"/repositories/{owner}/{repo}/branches", "listGitHubBranches", v1alpha1.PermissionDeploymentCreate,
			"List the branches of a repository", a.listGitHubBranches),
		rest.Handle(http.MethodPost, "/build/api/v1/deployments/{deploymentId}/github/connect", "connectGitHub", v1alpha1.PermissionSchemaUpdate,
			"Take the data model of a deployment from a repository on GitHub", a.connectGitHub),
	}}
	for i := range family.Routes {
		family.Routes[i] = family.Routes[i].WithDocument(describeGateway)
	}
	return family
}

// describeGateway documents the status for failures of GitHub.
func describeGateway(_ *huma.OpenAPI, op *huma.Operation) {
	response := *op.Responses["503"]
	response.Description = http.StatusText(http.StatusBadGateway)
	op.Responses["502"] = &response
}

// githubStatuses has the statuses of failed requests to GitHub.
var githubStatuses = map[github.Reason]int{
	github.Unavailable: http.StatusBadGateway, github.Limited: http.StatusServiceUnavailable,
	github.NotFound: http.StatusNotFound, github.Forbidden: http.StatusForbidden,
}

// githubProblem returns the response for a failed request to GitHub.
func githubProblem(ctx context.Context, err error) error {
	var failed *github.Error
	var foreign *githubtokens.ForeignError
	switch {
	case errors.As(err, &failed):
		if cause := failed.Unwrap(); cause != nil {
			log.FromContext(ctx).Info("A request to GitHub failed", "reason", cause.Error())
		}
		return rest.NewProblem(githubStatuses[failed.Reason], "%s", failed.Message)
	case errors.As(err, &foreign):
		return rest.Conflict("%s", foreign)
	}
	return err
}

// githubApp returns the GitHub App.
func (a *api) githubApp() (GitHub, error) {
	if a.GitHub == nil {
		return nil, rest.Unavailable("GitHub is not available: quoin apiserver has no --github-app-id")
	}
	return a.GitHub, nil
}

// installationsOf returns the ids of the installations that an account may use, in ascending order.
func installationsOf(a *v1alpha1.Account) []int64 {
	if a.Spec.GitHub == nil {
		return nil
	}
	return slices.Sorted(slices.Values(a.Spec.GitHub.InstallationIDs))
}

// useInstallation returns the GitHub App if the account of a request may use an installation. Others are
// forbidden whether or not they exist. Repositories belong to the account: credentials that are limited
// to certain deployments, such as those of programs that deploy a data model, use none.
func (a *api) useInstallation(ctx context.Context, id int64) (GitHub, error) {
	s := rest.ScopeFrom(ctx)
	const needs = v1alpha1.PermissionDeploymentCreate
	if !s.Principal.May(needs) || s.Principal.LimitedFor(needs) {
		return nil, rest.Forbidden("repositories on GitHub belong to the whole account: %s %q needs the permission %s for it", s.Principal.Kind, s.Principal.Name, needs)
	}
	account := s.Account
	if !githubtokens.Allowed(account, id) {
		return nil, rest.Forbidden("installationId: %d is not an installation of this account: an administrator has to add it to spec.github.installationIds of Account %q", id, account.Name)
	}
	return a.githubApp()
}

// GitHubStatus reports whether GitHub is connected.
type GitHubStatus struct {
	Connected   bool   `json:"connected" doc:"Whether the account may use an installation."`
	LinkURL     string `json:"linkUrl" doc:"Where an organization installs the GitHub App. An administrator then adds the installation to the Account."`
	SettingsURL string `json:"settingsUrl" doc:"Where an installation is changed."`
}

// GitHubStatusOutput is the response.
type GitHubStatusOutput struct{ Body GitHubStatus }

func (a *api) githubStatus(ctx context.Context, _ *struct{}) (*GitHubStatusOutput, error) {
	app, err := a.githubApp()
	if err != nil {
		return nil, err
	}
	found, err := a.installations(ctx, app)
	if err != nil {
		return nil, err
	}
	out := &GitHubStatusOutput{GitHubStatus{Connected: len(found) > 0, LinkURL: app.LinkURL(), SettingsURL: app.SettingsURL()}}
	if len(found) == 1 {
		out.Body.SettingsURL = cmp.Or(found[0].Settings, out.Body.SettingsURL)
	}
	return out, nil
}

// installations returns the installations of the account that exist and are not suspended, by id.
func (a *api) installations(ctx context.Context, app GitHub) ([]github.Installation, error) {
	var found []github.Installation
	for _, id := range installationsOf(rest.ScopeFrom(ctx).Account) {
		installation, err := app.Installation(ctx, id)
		switch {
		case github.IsReason(err, github.NotFound):
		case err != nil:
			return nil, githubProblem(ctx, err)
		case !installation.Suspended:
			found = append(found, installation)
		}
	}
	return found, nil
}

// GitHubInstallation is an installation of the GitHub App.
type GitHubInstallation struct {
	InstallationID string `json:"installationId" pattern:"^[1-9][0-9]*$"`
	ID             string `json:"id" doc:"Id of the organization or user."`
	Login          string `json:"login"`
	AvatarURL      string `json:"avatarUrl"`
}

func (a *api) listInstallations(ctx context.Context, in *rest.CursorPage) (*rest.List[GitHubInstallation], error) {
	app, err := a.githubApp()
	if err != nil {
		return nil, err
	}
	found, err := a.installations(ctx, app)
	if err != nil {
		return nil, err
	}
	page, err := rest.PaginateByCursor(ctx, *in, found, func(i github.Installation) int64 { return i.ID })
	if err != nil {
		return nil, err
	}
	return converted(page, func(i github.Installation) GitHubInstallation {
		return GitHubInstallation{strconv.FormatInt(i.ID, 10), strconv.FormatInt(i.AccountID, 10), i.Login, i.AvatarURL}
	}), nil
}

// converted returns a page with other items.
func converted[T, U any](page *rest.List[T], convert func(T) U) *rest.List[U] {
	out := &rest.List[U]{}
	out.Body.PageInfo, out.Body.Items = page.Body.PageInfo, make([]U, len(page.Body.Items))
	for i, item := range page.Body.Items {
		out.Body.Items[i] = convert(item)
	}
	out.Body.Data = out.Body.Items
	return out
}

// numbered is an item of a list of GitHub with its index.
type numbered[T any] struct {
	index int
	item  T
}

// paginate returns a page of a list of GitHub, whose pages have numbers instead of cursors.
func paginate[T any](ctx context.Context, p rest.CursorPage, read func(from, count int) ([]T, bool, error)) (*rest.List[numbered[T]], error) {
	return rest.PaginateStored(ctx, p, func(ctx context.Context, after *int, limit int) (rest.StoredPage[numbered[T]], error) {
		from := 0
		if after != nil {
			from = *after + 1
		}
		if from < 0 || from > maxGitHubIndex {
			return rest.StoredPage[numbered[T]]{}, rest.BadRequest("after: is not a cursor of this list: use endCursor of the page before")
		}
		items, more, err := read(from, limit)
		if err != nil {
			return rest.StoredPage[numbered[T]]{}, githubProblem(ctx, err)
		}
		page := rest.StoredPage[numbered[T]]{HasNext: more, HasPrevious: from > 0}
		for i, item := range items {
			page.Items = append(page.Items, numbered[T]{from + i, item})
		}
		return page, nil
	}, func(n numbered[T]) int { return n.index })
}

// maxGitHubIndex is the largest index in a list of GitHub.
const maxGitHubIndex = 1_000_000

// ListRepositoriesInput has the parameters of the list.
type ListRepositoriesInput struct {
	rest.CursorPage
	Installation int64 `path:"installationId" minimum:"1" maximum:"9007199254740991"`
}

// GitHubRepository is a repository on GitHub.
type GitHubRepository struct {
	ID      int64  `json:"id"`
	Name    string `json:"name" doc:"Without the owner."`
	HTMLURL string `json:"htmlUrl"`
}

func (a *api) listRepositories(ctx context.Context, in *ListRepositoriesInput) (*rest.List[GitHubRepository], error) {
	app, err := a.useInstallation(ctx, in.Installation)
	if err != nil {
		return nil, err
	}
	page, err := paginate(ctx, in.CursorPage, func(from, count int) ([]github.Repository, bool, error) {
		return app.Repositories(ctx, in.Installation, from, count)
	})
	if err != nil {
		return nil, err
	}
	return converted(page, func(n numbered[github.Repository]) GitHubRepository {
		return GitHubRepository{n.item.ID, n.item.Name, n.item.HTMLURL}
	}), nil
}

// ListGitHubBranchesInput has the parameters of the list.
type ListGitHubBranchesInput struct {
	rest.CursorPage
	Owner        string `path:"owner" maxLength:"100"`
	Repository   string `path:"repo" maxLength:"100"`
	Installation int64  `query:"installationId" required:"true" minimum:"1" maximum:"9007199254740991" doc:"An installation with access to the repository."`
}

// GitHubBranch is a branch of a repository on GitHub.
type GitHubBranch struct {
	Name      string `json:"name"`
	IsDefault bool   `json:"isDefault"`
}

func (a *api) listGitHubBranches(ctx context.Context, in *ListGitHubBranchesInput) (*rest.List[GitHubBranch], error) {
	app, err := a.useInstallation(ctx, in.Installation)
	if err != nil {
		return nil, err
	}
	repository, err := app.Repository(ctx, in.Installation, in.Owner, in.Repository)
	if err != nil {
		return nil, githubProblem(ctx, err)
	}
	page, err := paginate(ctx, in.CursorPage, func(from, count int) ([]string, bool, error) {
		return app.Branches(ctx, in.Installation, in.Owner, in.Repository, from, count)
	})
	if err != nil {
		return nil, err
	}
	return converted(page, func(n numbered[string]) GitHubBranch {
		return GitHubBranch{n.item, n.item == repository.DefaultBranch}
	}), nil
}
