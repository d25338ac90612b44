package model

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/catalog"
	"github.com/quoin-dev/quoin/apiserver/edit"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/internal/fieldowner"
)

func (a *api) branchesFamily() rest.Family {
	return rest.Family{Tag: "Data Model", Description: "The data model of a deployment: branches, dev mode, commits and merges.", Routes: append([]rest.Route{
		rest.Handle(http.MethodGet, buildPath+"/branches", "listBranches", v1alpha1.PermissionSchemaRead, "List the branches of a deployment", a.listBranches),
		rest.Handle(http.MethodPost, buildPath+"/branches", "createBranch", v1alpha1.PermissionSchemaUpdate, "Create a branch", a.createBranch),
		rest.Handle(http.MethodDelete, buildPath+"/branches", "removeBranch", v1alpha1.PermissionSchemaUpdate, "Delete a branch", a.removeBranch),
		rest.Handle(http.MethodPut, buildPath+"/branches/staging-environment", "setBranchStagingEnvironment", v1alpha1.PermissionSchemaUpdate,
			"Enable or disable the staging environment of a shared branch", a.setStaging).WithDocument(describeBranchChoice),
		rest.Handle(http.MethodPost, buildPath+"/pull", "pull", v1alpha1.PermissionSchemaUpdate, "Fetch the repository now", a.pull),
		rest.Handle(http.MethodPost, GitHookPath, "gitHook", v1alpha1.PermissionSchemaUpdate, "Trigger a fetch of the repository, as a push hook of a Git host does", a.gitHook).WithDocument(describeSignature),
	}, a.devModeRoutes()...)}
}

// Branch is the documented representation of a Branch.
type Branch struct {
	ID                          int64   `json:"id" minimum:"1"`
	Name                        string  `json:"name"`
	ParentBranch                *string `json:"parentBranch,omitempty" nullable:"true"`
	LastHash                    *string `json:"lastHash,omitempty" nullable:"true" doc:"The commit that the branch points at."`
	IsStagingEnvironmentEnabled bool    `json:"isStagingEnvironmentEnabled"`
}

func branchOf(b *v1alpha1.Branch) Branch {
	return Branch{
		ID: catalog.NumberOf(b), Name: b.Spec.Name, ParentBranch: rest.NilIfEmpty(b.Spec.ParentBranch), LastHash: rest.NilIfEmpty(b.Status.LastHash),
		IsStagingEnvironmentEnabled: ptr.Deref(b.Spec.StagingEnvironmentEnabled, false),
	}
}

// ListBranchesInput has the parameters of the list.
type ListBranchesInput struct {
	rest.InDeployment
	rest.CursorPage
}

func (a *api) listBranches(ctx context.Context, in *ListBranchesInput) (*rest.List[Branch], error) {
	all, err := a.Catalog.Branches(rest.ScopeFrom(ctx).Deployment)
	if err != nil {
		return nil, err
	}
	parents, err := a.parents(ctx)
	if err != nil {
		return nil, err
	}
	shown := make([]Branch, len(all))
	for i, b := range all {
		shown[i] = branchOf(b)
		if parent, ok := parents[b.Spec.Name]; ok {
			shown[i].ParentBranch = rest.NilIfEmpty(parent)
		}
	}
	return rest.PaginateByCursor(ctx, in.CursorPage, shown, func(b Branch) int64 { return b.ID })
}

// CreateBranchInput is the body of a creation.
type CreateBranchInput struct {
	rest.InDeployment
	Body struct {
		Name         string  `json:"name" minLength:"1" maxLength:"244" pattern:"^[^\\x00-\\x20\\x7F~^:?*\\[\\\\]+$" patternDescription:"a valid name of a branch"`
		From         *string `json:"from,omitempty" nullable:"true" minLength:"1" maxLength:"244" pattern:"^[^\\x00-\\x20\\x7F~^:?*\\[\\\\]+$" patternDescription:"a valid name of a branch" doc:"The parent branch; that of production when absent."`
		Activate     *bool   `json:"activate,omitempty" nullable:"true" doc:"Makes the branch the caller's active one, in dev mode. Needs a model in a Git repository."`
		EnterDevMode *bool   `json:"enterDevMode,omitempty" nullable:"true" doc:"The same as activate."`
	}
}

// DevBranch is the created branch and whether it is in dev mode.
type DevBranch struct {
	Active       bool    `json:"active"`
	BranchName   *string `json:"branchName,omitempty" nullable:"true"`
	ParentBranch *string `json:"parentBranch,omitempty" nullable:"true"`
}

// DevBranchOutput is the response.
type DevBranchOutput struct{ Body DevBranch }

// createBranch creates a branch in the repository with the data model, on a Git host too. Without a
// database, which that needs, it declares one of a remote: it serves as soon as it is pushed.
func (a *api) createBranch(ctx context.Context, in *CreateBranchInput) (*DevBranchOutput, error) {
	d, activate := rest.ScopeFrom(ctx).Deployment, value(in.Body.Activate) || value(in.Body.EnterDevMode)
	switch {
	case a.isWritable(d):
		return a.addBranch(ctx, in.Body.Name, value(in.Body.From), activate)
	case activate:
		return nil, elsewhere(d)
	}
	return a.declareBranch(ctx, d, in)
}

// RemoveBranchInput has the branch in the query, because its name may contain slashes.
type RemoveBranchInput struct {
	rest.InDeployment
	Name     string `query:"branchName" required:"true" minLength:"1" maxLength:"244" pattern:"^[^\\x00-\\x20\\x7F~^:?*\\[\\\\]+$" patternDescription:"a valid name of a branch"`
	Upstream bool   `query:"removeOnUpstream" doc:"Required to delete a branch of a Git repository elsewhere, which is deleted there. Without it, only a branch that was declared and does not exist there is deleted."`
}

// removeBranch deletes a branch of the repository that Quoin keeps, or of a remote if that is requested,
// or a declared one.
func (a *api) removeBranch(ctx context.Context, in *RemoveBranchInput) (*rest.SuccessOutput, error) {
	d := rest.ScopeFrom(ctx).Deployment
	if d.Spec.Model.Repository != nil || in.Upstream && a.isWritable(d) {
		return a.deleteBranch(ctx, in.Name)
	}
	return a.removeDeclared(ctx, d, in)
}

// SetStagingInput is the documented body: exactly one of branchName and branchId.
type SetStagingInput struct {
	rest.InDeployment
	Body struct {
		Enabled    bool    `json:"enabled"`
		BranchName *string `json:"branchName,omitempty" nullable:"true" minLength:"1" maxLength:"244" pattern:"^[^\\x00-\\x20\\x7F~^:?*\\[\\\\]+$" patternDescription:"a valid name of a branch"`
		BranchID   *int64  `json:"branchId,omitempty" nullable:"true" minimum:"1" doc:"id of the branch list."`
	}
}

// BranchOutput is the response.
type BranchOutput struct {
	Body struct {
		Data Branch `json:"data"`
	}
}

func (a *api) setStaging(ctx context.Context, in *SetStagingInput) (*BranchOutput, error) {
	body := &in.Body
	if body.BranchName == nil && body.BranchID == nil {
		return nil, rest.BadRequest("branchName or branchId is required")
	}
	if body.BranchName != nil && body.BranchID != nil {
		return nil, rest.BadRequest("branchName and branchId: give one of them, not both")
	}
	all, err := a.Catalog.Branches(rest.ScopeFrom(ctx).Deployment)
	if err != nil {
		return nil, err
	}
	var b *v1alpha1.Branch
	if body.BranchName != nil {
		b, err = findBranch(all, func(b *v1alpha1.Branch) bool { return b.Spec.Name == *body.BranchName }, "branchName", *body.BranchName)
	} else {
		b, err = findBranch(all, func(b *v1alpha1.Branch) bool { return catalog.NumberOf(b) == *body.BranchID }, "branchId", *body.BranchID)
	}
	switch {
	case err != nil:
		return nil, err
	case body.Enabled && b.Spec.Role != v1alpha1.BranchShared:
		return nil, rest.BadRequest("enabled: %q is a %s branch; only a shared branch can have a staging environment", rest.Clip(b.Spec.Name), b.Spec.Role)
	}
	changed, err := edit.Change(ctx, a.Kube, b.DeepCopy(), func(b *v1alpha1.Branch) error {
		if ptr.Deref(b.Spec.StagingEnvironmentEnabled, false) != body.Enabled {
			b.Spec.StagingEnvironmentEnabled = &body.Enabled
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	out := &BranchOutput{}
	out.Body.Data = branchOf(changed)
	return out, nil
}

// describeBranchChoice documents that a branch is named or numbered, not both: null is as absent. The handler
// checks it with a clearer message than the schema could.
func describeBranchChoice(doc *huma.OpenAPI, op *huma.Operation) {
	body := op.RequestBody.Content["application/json"].Schema
	if body.Ref != "" {
		body = doc.Components.Schemas.SchemaFromRef(body.Ref)
	}
	only := func(given, other, kind string) map[string]any {
		types := map[string]any{given: map[string]any{"type": kind}, other: map[string]any{"type": "null"}}
		return map[string]any{"required": []string{given}, "properties": types}
	}
	body.Extensions = map[string]any{"oneOf": []map[string]any{only("branchName", "branchId", huma.TypeString), only("branchId", "branchName", huma.TypeInteger)}}
}

func findBranch[V any](all []*v1alpha1.Branch, is func(*v1alpha1.Branch) bool, field string, given V) (*v1alpha1.Branch, error) {
	if i := slices.IndexFunc(all, is); i >= 0 {
		return all[i], nil
	}
	return nil, rest.NotFound("%s: branch %v does not exist", field, given)
}

// declareBranch creates a Branch of a remote.
func (a *api) declareBranch(ctx context.Context, d *v1alpha1.Deployment, in *CreateBranchInput) (*DevBranchOutput, error) {
	branches, err := a.Catalog.Branches(d)
	if err != nil {
		return nil, err
	}
	parent := catalog.ProductionBranch(d, branches)
	hasName := func(name string) func(*v1alpha1.Branch) bool {
		return func(b *v1alpha1.Branch) bool { return b.Spec.Name == name }
	}
	switch {
	case slices.ContainsFunc(branches, hasName(in.Body.Name)):
		return nil, rest.Conflict("name: branch %q exists", rest.Clip(in.Body.Name))
	case in.Body.From != nil && *in.Body.From != parent && !slices.ContainsFunc(branches, hasName(*in.Body.From)):
		return nil, rest.BadRequest("from: branch %q does not exist", rest.Clip(*in.Body.From))
	case in.Body.From != nil:
		parent = *in.Body.From
	}
	role := v1alpha1.BranchShared
	if strings.HasPrefix(in.Body.Name, personalPrefix) {
		role = v1alpha1.BranchPersonal
	}
	sum := sha256.Sum256([]byte(in.Body.Name))
	b := &v1alpha1.Branch{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: d.Namespace, Name: d.Name + "-declared-" + hex.EncodeToString(sum[:6]),
			Labels: map[string]string{v1alpha1.LabelDeployment: d.Name},
		},
		Spec: v1alpha1.BranchSpec{DeploymentRef: v1alpha1.LocalReference{Name: d.Name}, Name: in.Body.Name, ParentBranch: parent, Role: role},
	}
	w := a.Kube.Expect(b)
	defer w.Stop()
	if err := a.Kube.Create(ctx, b); err != nil {
		if apierrors.IsAlreadyExists(err) {
			return nil, rest.Conflict("name: branch %q exists", rest.Clip(in.Body.Name))
		}
		return nil, err
	}
	err = w.Until(ctx, edit.Timeout, func(o metav1.Object, _ bool) bool {
		current, ok := o.(*v1alpha1.Branch)
		return ok && current.UID == b.UID && catalog.NumberOf(current) > 0
	})
	if err != nil {
		return nil, err
	}
	return &DevBranchOutput{DevBranch{BranchName: &b.Spec.Name, ParentBranch: rest.NilIfEmpty(parent)}}, nil
}

// removeDeclared deletes a Branch that a user has declared. The remote is not written to.
func (a *api) removeDeclared(ctx context.Context, d *v1alpha1.Deployment, in *RemoveBranchInput) (*rest.SuccessOutput, error) {
	if in.Upstream {
		return nil, elsewhere(d)
	}
	all, err := a.Catalog.Branches(d)
	if err != nil {
		return nil, err
	}
	b, err := findBranch(all, func(b *v1alpha1.Branch) bool { return b.Spec.Name == in.Name }, "branchName", in.Name)
	switch {
	case err != nil:
		return nil, err
	case b.Spec.Role == v1alpha1.BranchProduction:
		return nil, rest.BadRequest("branchName: %q is the production branch and cannot be removed", rest.Clip(in.Name))
	case b.Labels[v1alpha1.LabelRemote] == "true":
		return nil, rest.Conflict("branchName: %q follows the branch of the Git repository: set removeOnUpstream to delete it there", rest.Clip(in.Name))
	}
	owner, err := a.ownerOf(ctx, b)
	if err != nil {
		return nil, err
	}
	if owner != "" {
		return nil, rest.Conflict("branchName: %q is applied by %q, which would create it again: delete it at its source", rest.Clip(in.Name), owner)
	}
	if err := edit.Delete(ctx, a.Kube, b.DeepCopy()); err != nil {
		return nil, err
	}
	return rest.Success(), nil
}

// ownerOf returns the program that applies a Branch of the cache, which has no managed fields; empty if there is none.
func (a *api) ownerOf(ctx context.Context, b *v1alpha1.Branch) (string, error) {
	live := &v1alpha1.Branch{}
	err := a.Kube.Live().Get(ctx, client.ObjectKeyFromObject(b), live)
	return fieldowner.OfSpec(live), client.IgnoreNotFound(err)
}
