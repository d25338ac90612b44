package model

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/edit"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/internal/content/devmode"
	"github.com/quoin-dev/quoin/internal/freshness"
)

// isBadName matches names that Git does not allow. The schema of Branch has the same rule.
var isBadName = regexp.MustCompile(`[[:cntrl:] ~^:?*\[\\]|^[/.]|/[./]|[.][.]|@[{]|[.]lock(/|$)|[/.]$|^@$|^-|^HEAD$`)

// checkNewName returns an error unless a branch with a name can be created.
func (t *tree) checkNewName(name string) error {
	if isBadName.MatchString(name) {
		return rest.BadRequest("name: %q must be a valid Git branch name such as main or feature/orders", rest.Clip(name))
	}
	for _, b := range t.branches {
		switch {
		case b.Name == name:
			return rest.Conflict("name: branch %q exists", rest.Clip(name))
		case strings.EqualFold(b.Name, name):
			return rest.Conflict("name: branch %q exists, which differs only in case", rest.Clip(b.Name))
		case strings.HasPrefix(b.Name, name+"/"), strings.HasPrefix(name, b.Name+"/"):
			return rest.Conflict("name: branch %q exists, and Git does not allow %q beside it", rest.Clip(b.Name), rest.Clip(name))
		}
	}
	return nil
}

// addBranch creates a branch at the commit of another one, which is its parent, or at that of
// production. The parent of a branch that is created from a personal branch is that of the personal
// one.
func (a *api) addBranch(ctx context.Context, name, from string, activate bool) (*DevBranchOutput, error) {
	var created devmode.Branch
	err := a.save(ctx, func(t *tree) (*change, error) {
		if err := t.checkNewName(name); err != nil {
			return nil, err
		}
		base, err := t.origin(from)
		if err != nil {
			return nil, err
		}
		created = devmode.Branch{Name: name, Parent: base.name}
		if base.role == v1alpha1.BranchPersonal {
			created.Parent = base.parent
		}
		if t.roleOf(name) == v1alpha1.BranchPersonal {
			created.Owner = t.caller
		}
		c := newChange(ctx, t)
		c.create(created, base.commit)
		if activate {
			c.enter(name, a.stamp())
		}
		return c, nil
	})
	if err != nil {
		return nil, err
	}
	return &DevBranchOutput{DevBranch{Active: activate, BranchName: &created.Name, ParentBranch: rest.NilIfEmpty(created.Parent)}},
		a.waitForBranch(ctx, created.Name, created.Parent)
}

// origin returns the branch from which another one is created; that of production if from is empty.
func (t *tree) origin(from string) (*target, error) {
	if from == "" {
		base, found := t.find(t.production)
		if !found {
			return nil, rest.Conflict("the repository has no branch %q, which production serves: push one", rest.Clip(t.production))
		}
		return base, nil
	}
	base, found := t.find(from)
	switch {
	case !found:
		return nil, rest.BadRequest("from: branch %q does not exist", rest.Clip(from))
	case base.role == v1alpha1.BranchPersonal && base.owner != t.caller:
		return nil, rest.Forbidden("from: %q is not a personal branch of the caller", rest.Clip(from))
	}
	return base, nil
}

// deleteBranch deletes a branch. A personal branch of another caller is deleted by administrators only.
func (a *api) deleteBranch(ctx context.Context, name string) (*rest.SuccessOutput, error) {
	s := rest.ScopeFrom(ctx)
	err := a.save(ctx, func(t *tree) (*change, error) {
		b, err := t.branch("branchName", name)
		switch {
		case err != nil:
			return nil, err
		case b.role == v1alpha1.BranchProduction:
			return nil, rest.BadRequest("branchName: %q is the production branch and cannot be removed", rest.Clip(name))
		case b.role == v1alpha1.BranchPersonal && b.owner != "" && b.owner != t.caller && !s.Principal.MayOn(v1alpha1.PermissionAdmin, s.Deployment.Name):
			return nil, rest.Forbidden("branchName: %q is a personal branch of another caller; deleting it needs the permission %s", rest.Clip(name), v1alpha1.PermissionAdmin)
		}
		c := newChange(ctx, t)
		c.remove(b)
		return c, nil
	})
	if err != nil {
		return nil, err
	}
	if err := a.removeObject(ctx, name); err != nil {
		return nil, err
	}
	return rest.Success(), nil
}

// removeObject removes the Branch of a branch that was deleted from the repository: it deletes one that a
// user has declared, and waits until the controller has deleted its own. The change is stored, so the
// deletion continues if the client disconnects.
func (a *api) removeObject(ctx context.Context, name string) error {
	lasting, cancel := context.WithTimeout(context.WithoutCancel(ctx), edit.Timeout)
	defer cancel()
	isKept, err := a.deleteDeclaration(lasting, name)
	if err != nil || isKept {
		return err
	}
	a.waitForAbsence(ctx, name)
	return nil
}

// deleteDeclaration deletes a Branch that a user has declared for a branch of the repository: without
// the branch, it would stay. One that a program applies is kept: the program would create it again.
func (a *api) deleteDeclaration(ctx context.Context, name string) (isKept bool, err error) {
	b, err := a.branchObject(ctx, name)
	if err != nil || b == nil || b.Labels[v1alpha1.LabelRemote] == "true" {
		return false, err
	}
	if owner, err := a.ownerOf(ctx, b); err != nil || owner != "" {
		return owner != "", err
	}
	return false, edit.Delete(ctx, a.Kube, b.DeepCopy())
}

// branchObject returns the Branch of a name from the cache; nil if there is none with a number.
func (a *api) branchObject(ctx context.Context, name string) (*v1alpha1.Branch, error) {
	all, err := a.Catalog.Branches(rest.ScopeFrom(ctx).Deployment)
	if err != nil {
		return nil, err
	}
	for _, b := range all {
		if b.Spec.Name == name {
			return b, nil
		}
	}
	return nil, nil
}

// pollInterval is how often the cache is read for the effect of a change.
const pollInterval = 50 * time.Millisecond

// waitForBranch waits until the controller has made the Branch of a new branch, and sets its parent.
func (a *api) waitForBranch(ctx context.Context, name, parent string) error {
	var b *v1alpha1.Branch
	err := wait.PollUntilContextTimeout(ctx, pollInterval, edit.Timeout, true, func(ctx context.Context) (bool, error) {
		var err error
		b, err = a.branchObject(ctx, name)
		return b != nil, err
	})
	switch {
	case wait.Interrupted(err) && ctx.Err() == nil:
		return fmt.Errorf("branch %q is not listed: %w", name, freshness.ErrTimeout)
	case err != nil:
		return err
	}
	a.showParent(ctx, b, parent)
	return nil
}

// showParent sets the parent of a branch on its object, which shows it. Nothing else depends on it, so a failure is
// logged only.
func (a *api) showParent(ctx context.Context, b *v1alpha1.Branch, parent string) {
	if b.Spec.ParentBranch == parent || b.Spec.Role == v1alpha1.BranchProduction {
		return
	}
	changed := b.DeepCopy()
	changed.Spec.ParentBranch = parent
	if err := a.Kube.Patch(ctx, changed, client.MergeFrom(b), client.FieldOwner(edit.Manager)); err != nil {
		log.FromContext(ctx).Error(err, "The parent of a branch could not be set on its object", "branch", b.Spec.Name)
	}
}

// showParents sets the parents of branches, by name, on their objects. The change is stored, so it continues if the
// client disconnects. Objects that users have declared are theirs.
func (a *api) showParents(ctx context.Context, parents map[string]string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), edit.Timeout)
	defer cancel()
	for name, parent := range parents {
		b, err := a.branchObject(ctx, name)
		if err != nil {
			log.FromContext(ctx).Error(err, "The parent of a branch could not be set on its object", "branch", name)
			return
		}
		if b != nil && b.Labels[v1alpha1.LabelRemote] == "true" {
			a.showParent(ctx, b, parent)
		}
	}
}

// waitForAbsence waits until the controller has deleted the Branch of a branch that no longer exists.
// The branch is deleted, so the request succeeds in any case.
func (a *api) waitForAbsence(ctx context.Context, name string) {
	_ = wait.PollUntilContextTimeout(ctx, pollInterval, edit.Timeout/2, true, func(ctx context.Context) (bool, error) {
		b, err := a.branchObject(ctx, name)
		return b == nil, err
	})
}

// parents returns the parents of the branches of a repository that Quoin keeps, by name. For a Git host,
// which need not answer, they are on the objects.
func (a *api) parents(ctx context.Context) (map[string]string, error) {
	if rest.ScopeFrom(ctx).Deployment.Spec.Model.Repository == nil || a.Repositories == nil || a.DevMode == nil {
		return nil, nil
	}
	t, err := a.open(ctx)
	if err != nil {
		return nil, err
	}
	parents := map[string]string{}
	for _, b := range t.branches {
		parents[b.Name] = ""
		if b.Name != t.production {
			parents[b.Name] = t.parentOf(b.Name)
		}
	}
	return parents, nil
}
