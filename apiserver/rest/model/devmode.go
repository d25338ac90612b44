package model

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/internal/content/devmode"
	"github.com/quoin-dev/quoin/internal/modeltree"
)

func (a *api) devModeRoutes() []rest.Route {
	return []rest.Route{
		rest.Handle(http.MethodPost, buildPath+"/dev-mode", "startDevMode", v1alpha1.PermissionSchemaUpdateDevBranches, "Enter dev mode", a.startDevMode),
		rest.Handle(http.MethodDelete, buildPath+"/dev-mode", "stopDevMode", v1alpha1.PermissionSchemaUpdateDevBranches, "Leave dev mode; the branch stays", a.stopDevMode),
		rest.Handle(http.MethodPost, buildPath+"/commit", "commitChanges", v1alpha1.PermissionSchemaUpdate, "Commit the changes of a personal branch to its parent", a.commit),
		rest.Handle(http.MethodPost, buildPath+"/merge", "mergeIntoParentBranch", v1alpha1.PermissionSchemaUpdate, "Merge a branch into its parent", a.mergeIntoParent),
		rest.Handle(http.MethodPost, buildPath+"/merge-to-default", "mergeToDefaultBranch", v1alpha1.PermissionSchemaUpdate, "Merge a branch into that of production", a.mergeToDefault),
		rest.Handle(http.MethodGet, buildPath+"/data-model/validate", "validateDataModel", v1alpha1.PermissionSchemaRead,
			"Report whether the data model of a branch compiles, from the branch's own server", a.validate).WithDocument(describeConflict),
	}
}

// StartDevModeInput names the branch to work on.
type StartDevModeInput struct {
	rest.InDeployment
	Body *struct {
		BranchName *string `json:"branchName,omitempty" nullable:"true" minLength:"1" maxLength:"244" doc:"A branch of which the caller gets a personal one, or a personal branch of the caller; that of production when absent."`
	}
}

// startDevMode makes a personal branch of the caller the active one: the one that is named, or that
// which belongs to the named branch, which is created if there is none.
func (a *api) startDevMode(ctx context.Context, in *StartDevModeInput) (*DevBranchOutput, error) {
	var entered *target
	var isNew bool
	err := a.save(ctx, func(t *tree) (*change, error) {
		base := t.production
		if in.Body != nil && in.Body.BranchName != nil {
			base = *in.Body.BranchName
		}
		b, err := t.branch("branchName", base)
		if err != nil {
			return nil, err
		}
		c := newChange(ctx, t)
		entered, isNew = b, false
		if b.role != v1alpha1.BranchPersonal {
			if entered, isNew, err = t.fork(b, c); err != nil {
				return nil, err
			}
		} else if err := t.checkOwned(b, true); err != nil {
			return nil, err
		}
		if t.state.Active == entered.name && c.isEmpty() {
			return nil, nil
		}
		c.enter(entered.name, a.stamp())
		return c, nil
	})
	if err != nil {
		return nil, err
	}
	if isNew {
		err = a.waitForBranch(ctx, entered.name, entered.parent)
	}
	return &DevBranchOutput{DevBranch{Active: true, BranchName: &entered.name, ParentBranch: rest.NilIfEmpty(entered.parent)}}, err
}

// fork adds to a change that the caller gets its personal branch of a parent. One that exists keeps its
// changes; without changes, it is brought to the parent's commit.
func (t *tree) fork(parent *target, c *change) (forked *target, isNew bool, err error) {
	name := t.personalBranch(parent.name)
	b, exists := t.find(name)
	if !exists {
		c.create(devmode.Branch{Name: name, Parent: parent.name, Owner: t.caller}, parent.commit)
		return &target{session: t.session, name: name, commit: parent.commit, role: v1alpha1.BranchPersonal, root: t.root, parent: parent.name, owner: t.caller}, true, nil
	}
	// Without owner, the branch was pushed: its name is that of the caller's branch all the same.
	if b.owner != "" && b.owner != t.caller {
		return nil, false, rest.Conflict("branchName: %q is a personal branch of another caller", rest.Clip(name))
	}
	if b.owner == "" || b.parent != parent.name {
		c.put(devmode.Branch{Name: name, Parent: parent.name, Owner: t.caller})
	}
	b.parent, b.owner = parent.name, t.caller
	if b.commit == parent.commit {
		return b, false, nil
	}
	behind, err := modeltree.IsAncestor(t.session, b.commit, parent.commit)
	if err == nil && behind {
		c.move(b, parent.commit)
		b.commit = parent.commit
	}
	return b, false, err
}

// maxPart bounds the parts of the name of a personal branch, which are for readers.
const maxPart = 40

// personalBranch returns the name of the caller's personal branch of a parent: readable, and unique by a
// hash. A branch that the caller has under another name, which it had then, stays its branch.
func (t *tree) personalBranch(parent string) string {
	sum := sha256.Sum256([]byte(t.caller + "\x00" + parent))
	suffix := hex.EncodeToString(sum[:4])
	for _, b := range t.branches {
		if t.roleOf(b.Name) == v1alpha1.BranchPersonal && strings.HasSuffix(b.Name, "-"+suffix) && t.state.Branches[b.Name].Owner == t.caller {
			return b.Name
		}
	}
	who, _, _ := strings.Cut(t.callerName, "@")
	parts := []string{strings.TrimSuffix(personalPrefix, "-")}
	for _, text := range []string{who, parent} {
		if part := slug(text); part != "" {
			parts = append(parts, part)
		}
	}
	return strings.Join(append(parts, suffix), "-")
}

// slug returns the letters and digits of a text in lower case, separated by hyphens.
func slug(text string) string {
	words := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') })
	joined := strings.Join(words, "-")
	return strings.Trim(joined[:min(len(joined), maxPart)], "-")
}

// stopDevMode ends the dev mode of the caller. Its personal branches stay, with their changes.
func (a *api) stopDevMode(ctx context.Context, _ *rest.InDeployment) (*rest.SuccessOutput, error) {
	err := a.save(ctx, func(t *tree) (*change, error) {
		if t.state.Active == "" {
			return nil, nil
		}
		c := newChange(ctx, t)
		c.leave()
		return c, nil
	})
	if err != nil {
		return nil, err
	}
	return rest.Success(), nil
}
