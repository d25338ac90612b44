package model

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/catalog"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/modeltree"
)

// merged is the result of the merge of two commits.
type merged struct {
	tree plumbing.Hash
	// isNeeded reports whether theirs has commits that ours lacks.
	isNeeded bool
}

// mergeCommits merges the commit theirs into ours. Files that both have changed in ways that contradict
// each other are a conflict, unless resolve is set: then the version of theirs is taken.
func mergeCommits(t *tree, ours, theirs *target, resolve bool) (merged, error) {
	s := t.session
	base, err := modeltree.MergeBase(s, ours.commit, theirs.commit)
	switch {
	case err != nil:
		return merged{}, err
	case base.IsZero():
		return merged{}, rest.Conflict("branches %q and %q have no commit in common", rest.Clip(theirs.name), rest.Clip(ours.name))
	case base == theirs.commit:
		tree, err := modeltree.TreeOf(s, ours.commit)
		return merged{tree: tree}, err
	case base == ours.commit:
		tree, err := modeltree.TreeOf(s, theirs.commit)
		return merged{tree: tree, isNeeded: true}, err
	}
	tree, conflicts, err := modeltree.Merge(s, base, ours.commit, theirs.commit)
	if err == nil && len(conflicts) > 0 && resolve {
		tree, conflicts, err = mergeKeeping(t, base, ours.commit, theirs.commit, conflicts)
	}
	switch {
	case err != nil:
		return merged{}, err
	case len(conflicts) > 0:
		return merged{}, conflictOf(ours.name, theirs.name, conflicts)
	}
	return merged{tree: tree, isNeeded: true}, nil
}

// mergeKeeping merges with the version of theirs of files in conflict: it makes the version of ours the
// one that both began with, so that only theirs has changed it. It uses another session: that of the
// failed merge has objects that are not needed.
func mergeKeeping(t *tree, base, ours, theirs plumbing.Hash, conflicts []modeltree.Conflict) (plumbing.Hash, []modeltree.Conflict, error) {
	t.session = t.fresh()
	files, err := modeltree.List(t.session, ours, "")
	if err != nil {
		return plumbing.ZeroHash, nil, err
	}
	edits := make([]modeltree.Edit, len(conflicts))
	for i, c := range conflicts {
		edits[i].Path = c.Path
		if at, found := slices.BinarySearchFunc(files, c.Path, func(f modeltree.File, path string) int { return strings.Compare(f.Path, path) }); found {
			edits[i].Blob = files[at].Hash
		}
	}
	tree, err := modeltree.Apply(t.session, base, edits)
	if err != nil {
		return plumbing.ZeroHash, nil, err
	}
	return modeltree.Merge(t.session, tree, ours, theirs)
}

// conflictOf returns the error of a merge, which names the first files.
func conflictOf(ours, theirs string, conflicts []modeltree.Conflict) error {
	const most = 10
	var named []string
	for _, c := range conflicts[:min(len(conflicts), most)] {
		named = append(named, fmt.Sprintf("%s (%s)", rest.Clip(c.Path), c.Reason))
	}
	if more := len(conflicts) - most; more > 0 {
		named = append(named, fmt.Sprintf("and %d more", more))
	}
	return rest.Conflict("branches %q and %q have contradicting changes of %s; nothing was changed", rest.Clip(theirs), rest.Clip(ours), strings.Join(named, ", "))
}

// addCommit adds a commit of the caller.
func (a *api) addCommit(ctx context.Context, t *tree, tree plumbing.Hash, message string, parents ...plumbing.Hash) (plumbing.Hash, error) {
	name, email := author(ctx)
	return modeltree.AddCommit(t.session, modeltree.Commit{
		Tree: tree, Parents: parents, AuthorName: name, AuthorEmail: email, Message: message, When: a.stamp(),
	})
}

// BranchChoice names a branch by its name or its id.
type BranchChoice struct {
	BranchName *string `json:"branchName,omitempty" nullable:"true" minLength:"1" maxLength:"244" doc:"The branch; that which the caller has active in dev mode when absent."`
	BranchID   *int64  `json:"branchId,omitempty" nullable:"true" minimum:"1" doc:"id of the branch list, instead of branchName."`
}

// nameOf returns the name of the chosen branch; empty if none is chosen.
func (a *api) nameOf(ctx context.Context, choice BranchChoice) (string, error) {
	switch {
	case choice.BranchName != nil && choice.BranchID != nil:
		return "", rest.BadRequest("branchName and branchId: give one of them, not both")
	case choice.BranchName != nil:
		return *choice.BranchName, nil
	case choice.BranchID == nil:
		return "", nil
	}
	all, err := a.Catalog.Branches(rest.ScopeFrom(ctx).Deployment)
	if err != nil {
		return "", err
	}
	b, err := findBranch(all, func(b *v1alpha1.Branch) bool { return catalog.NumberOf(b) == *choice.BranchID }, "branchId", *choice.BranchID)
	if err != nil {
		return "", err
	}
	return b.Spec.Name, nil
}

// MergeIntoParentInput is the body of a merge into the parent.
type MergeIntoParentInput struct {
	rest.InDeployment
	Body *struct {
		BranchChoice
		Message              *string `json:"message,omitempty" nullable:"true" maxLength:"4096" doc:"The message of the commit."`
		SquashCommits        *bool   `json:"squashCommits,omitempty" nullable:"true" doc:"Makes one commit with all changes, instead of a merge commit."`
		SwitchToParentBranch *bool   `json:"switchToParentBranch,omitempty" nullable:"true" doc:"Makes the parent the caller's active branch; if that is production, the caller leaves dev mode."`
		DeleteBranch         *bool   `json:"deleteBranch,omitempty" nullable:"true" doc:"Deletes the branch after the merge."`
	}
}

// MergeToDefaultInput is the body of a merge into production.
type MergeToDefaultInput struct {
	rest.InDeployment
	Body *struct {
		BranchChoice
		Message                *string `json:"message,omitempty" nullable:"true" maxLength:"4096" doc:"The message of the commit."`
		RemoveBranchAfterMerge *bool   `json:"removeBranchAfterMerge,omitempty" nullable:"true" doc:"Deletes the branch after the merge; true when absent."`
	}
}

// MergeOutput is the response of a merge.
type MergeOutput struct {
	Body struct {
		Merged        bool `json:"merged" doc:"true: the parent has all commits of the branch, also if it had them before."`
		BranchDeleted bool `json:"branchDeleted"`
	}
}

// mergeOptions are those of both kinds of merges.
type mergeOptions struct {
	BranchChoice
	message                            string
	intoProduction, squash, goToParent bool
	deleteBranch                       bool
}

func (a *api) mergeIntoParent(ctx context.Context, in *MergeIntoParentInput) (*MergeOutput, error) {
	if in.Body == nil {
		return a.merge(ctx, mergeOptions{})
	}
	return a.merge(ctx, mergeOptions{
		BranchChoice: in.Body.BranchChoice, message: value(in.Body.Message), squash: value(in.Body.SquashCommits),
		goToParent: value(in.Body.SwitchToParentBranch), deleteBranch: value(in.Body.DeleteBranch),
	})
}

func (a *api) mergeToDefault(ctx context.Context, in *MergeToDefaultInput) (*MergeOutput, error) {
	o := mergeOptions{intoProduction: true, deleteBranch: true}
	if in.Body != nil {
		o.BranchChoice, o.message = in.Body.BranchChoice, value(in.Body.Message)
		o.deleteBranch = in.Body.RemoveBranchAfterMerge == nil || *in.Body.RemoveBranchAfterMerge
	}
	return a.merge(ctx, o)
}

// value returns what a pointer points to, or the zero value.
func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// merge merges a branch into its parent or into production.
func (a *api) merge(ctx context.Context, o mergeOptions) (*MergeOutput, error) {
	name, err := a.nameOf(ctx, o.BranchChoice)
	if err != nil {
		return nil, err
	}
	var gone string
	err = a.save(ctx, func(t *tree) (*change, error) {
		from, into, err := t.ends(name, o.intoProduction)
		if err != nil {
			return nil, err
		}
		c := newChange(ctx, t)
		message := cmp.Or(strings.TrimSpace(o.message), mergeMessage(from, into))
		to, err := a.mergeInto(ctx, t, into, from, mergeCommit{message: message, squash: o.squash})
		if err != nil {
			return nil, err
		}
		if to != into.commit {
			c.move(into, to)
			c.record(audit.MergedChanges, into.name, map[string]any{"from": from.name, "commit": to.String()})
		}
		gone = ""
		switch {
		case o.deleteBranch:
			gone = from.name
			c.remove(from)
		case from.role == v1alpha1.BranchPersonal:
			c.move(from, to) // it continues from the merged changes
		}
		switch {
		case o.goToParent && into.role == v1alpha1.BranchProduction:
			c.leave()
		case o.goToParent && t.state.Active != into.name:
			c.enter(into.name, a.stamp())
		}
		return c, nil
	})
	if err != nil {
		return nil, err
	}
	if gone != "" {
		if err := a.removeObject(ctx, gone); err != nil {
			// The merge is stored, and cannot be repeated without the branch.
			log.FromContext(ctx).Error(err, "The Branch of a merged branch could not be deleted", "branch", gone)
		}
	}
	out := &MergeOutput{}
	out.Body.Merged, out.Body.BranchDeleted = true, gone != ""
	return out, nil
}

// ends returns the branch that is merged and the one that it is merged into.
func (t *tree) ends(name string, intoProduction bool) (from, into *target, err error) {
	if from, err = t.selected(name); err != nil {
		return nil, nil, err
	}
	switch {
	case from.role == v1alpha1.BranchProduction && name == "":
		return nil, nil, rest.BadRequest("branchName: it is absent and the caller is not in dev mode; allowed: a branch other than that of production")
	case from.role == v1alpha1.BranchProduction:
		return nil, nil, rest.BadRequest("branchName: %q is the production branch, which has no parent", rest.Clip(from.name))
	case from.role == v1alpha1.BranchPersonal:
		if err := t.checkOwned(from, name != ""); err != nil {
			return nil, nil, err
		}
	}
	parent := from.parent
	if intoProduction {
		parent = t.production
	}
	into, found := t.find(parent)
	if !found {
		return nil, nil, rest.Conflict("the repository has no branch %q to merge into: push one", rest.Clip(parent))
	}
	return from, into, nil
}

// mergeCommit describes the commit of a merge.
type mergeCommit struct {
	message string
	// squash makes one commit with all changes, instead of a merge commit.
	squash bool
	// resolve takes the version of the branch that is merged of files in conflict.
	resolve bool
}

// mergeMessage is the message of a merge without one.
func mergeMessage(from, into *target) string {
	return fmt.Sprintf("Merge branch '%s' into '%s'", from.name, into.name)
}

// mergeInto returns the commit of a branch with the changes of another; that of the branch itself if there are none.
func (a *api) mergeInto(ctx context.Context, t *tree, into, from *target, m mergeCommit) (plumbing.Hash, error) {
	result, err := mergeCommits(t, into, from, m.resolve)
	if err != nil || !result.isNeeded {
		return into.commit, err
	}
	if !m.squash {
		return a.addCommit(ctx, t, result.tree, m.message, into.commit, from.commit)
	}
	before, err := modeltree.TreeOf(t.session, into.commit)
	if err != nil || before == result.tree {
		return into.commit, err
	}
	return a.addCommit(ctx, t, result.tree, m.message, into.commit)
}

// CommitInput is the body of a commit.
type CommitInput struct {
	rest.InDeployment
	Body *struct {
		Message              *string `json:"message,omitempty" nullable:"true" maxLength:"4096" doc:"The message of the commit."`
		BranchName           *string `json:"branchName,omitempty" nullable:"true" minLength:"1" maxLength:"244" doc:"A personal branch of the caller; that which the caller has active when absent."`
		ExitDevMode          *bool   `json:"exitDevMode,omitempty" nullable:"true" doc:"Leaves dev mode afterwards."`
		ResolveMergeConflict *bool   `json:"resolveMergeConflict,omitempty" nullable:"true" doc:"Takes the caller's version of files that the parent has changed in another way, instead of a 409 that names them."`
	}
}

// commit makes the changes of a personal branch one commit of its parent, and moves the personal branch
// to it. A commit without changes makes none.
func (a *api) commit(ctx context.Context, in *CommitInput) (*rest.SuccessOutput, error) {
	var name, message string
	var exit, resolve bool
	if body := in.Body; body != nil {
		name, message = value(body.BranchName), value(body.Message)
		exit, resolve = value(body.ExitDevMode), value(body.ResolveMergeConflict)
	}
	message = cmp.Or(strings.TrimSpace(message), "Update the data model")
	err := a.save(ctx, func(t *tree) (*change, error) {
		own, err := t.selected(name)
		if err != nil {
			return nil, err
		}
		if err := t.checkOwned(own, name != ""); err != nil {
			return nil, err
		}
		parent, err := t.branch("parentBranch", own.parent)
		if err != nil {
			return nil, err
		}
		c := newChange(ctx, t)
		to, err := a.mergeInto(ctx, t, parent, own, mergeCommit{message: message, squash: true, resolve: resolve})
		if err != nil {
			return nil, err
		}
		if to != parent.commit {
			c.move(parent, to)
			c.record(audit.CommittedAndMergedChanges, parent.name, map[string]any{"from": own.name, "commit": to.String()})
		}
		c.move(own, to)
		if exit {
			c.leave()
		}
		return c, nil
	})
	if err != nil {
		return nil, err
	}
	return rest.Success(), nil
}
