package model

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/quoin-dev/quoin/apiserver/gitmirror"
	"github.com/quoin-dev/quoin/apiserver/recording"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/devmode"
	"github.com/quoin-dev/quoin/internal/content/repository"
	"github.com/quoin-dev/quoin/internal/store"
)

// change is a change of branches and of dev mode that is stored in one transaction with its events.
type change struct {
	scope content.Scope
	// deployment of the events.
	deployment audit.Deployment
	tree       *tree
	moves      []repository.Move
	events     []audit.Event
	steps      []func(ctx context.Context, tx *store.Tx) error
	// parents are the new parents of branches whose parent is removed, by name.
	parents map[string]string
}

func newChange(ctx context.Context, t *tree) *change {
	s := rest.ScopeFrom(ctx)
	return &change{scope: s.Content(), deployment: recording.DeploymentOf(s.Deployment), tree: t, parents: map[string]string{}}
}

// isEmpty reports whether a change changes nothing.
func (c *change) isEmpty() bool { return len(c.moves) == 0 && len(c.steps) == 0 }

// record adds an event that concerns a branch.
func (c *change) record(name, branch string, details map[string]any) {
	e := audit.Event{Name: name, Deployment: c.deployment, Object: audit.Object{Kind: "Branch", Name: branch}}
	if changes, err := audit.DiffJSON(map[string]any{}, details); err == nil {
		e.Changes = changes
	}
	c.events = append(c.events, e)
}

// move moves a branch to a commit.
func (c *change) move(b *target, to plumbing.Hash) {
	if b.commit != to {
		c.moves = append(c.moves, repository.Move{Branch: b.name, From: b.commit, To: to})
	}
}

// put keeps the parent and the owner of a branch.
func (c *change) put(b devmode.Branch) {
	c.steps = append(c.steps, func(ctx context.Context, tx *store.Tx) error { return devmode.Put(ctx, tx, c.scope, b) })
}

// create creates a branch at a commit. The rows of branches that a push has deleted are removed, so
// that the new one inherits nothing.
func (c *change) create(b devmode.Branch, at plumbing.Hash) {
	c.moves = append(c.moves, repository.Move{Branch: b.Name, To: at})
	c.record(audit.CreatedGitBranch, b.Name, map[string]any{"parentBranch": b.Parent, "commit": at.String()})
	c.steps = append(c.steps, c.retain)
	c.put(b)
}

// retain removes the rows of branches that do not exist. It reads the branches in the transaction: others may have been created
// since the change was planned.
func (c *change) retain(ctx context.Context, tx *store.Tx) error {
	branches, err := c.tree.session.BranchesIn(ctx, tx)
	if err != nil {
		return err
	}
	names := make([]string, len(branches))
	for i, b := range branches {
		names[i] = b.Name
	}
	return devmode.Retain(ctx, tx, c.scope, names)
}

// remove deletes a branch. Its children get its parent, and the callers who have it active leave dev
// mode.
func (c *change) remove(b *target) {
	c.moves = append(c.moves, repository.Move{Branch: b.name, From: b.commit})
	c.record(audit.DeletedGitBranch, b.name, map[string]any{"commit": b.commit.String()})
	for _, child := range c.tree.branches {
		if c.tree.state.Branches[child.Name].Parent == b.name {
			c.parents[child.Name] = b.parent
		}
	}
	c.steps = append(c.steps, func(ctx context.Context, tx *store.Tx) error {
		return devmode.Delete(ctx, tx, c.scope, b.name, b.parent)
	})
}

// enter makes a branch the active one of the caller.
func (c *change) enter(branch string, now time.Time) {
	c.record(audit.EnteredDevMode, branch, nil)
	c.steps = append(c.steps, func(ctx context.Context, tx *store.Tx) error {
		return devmode.Enter(ctx, tx, c.scope, c.tree.caller, branch, now)
	})
}

// leave ends the dev mode of the caller.
func (c *change) leave() {
	if c.tree.state.Active == "" {
		return
	}
	c.record(audit.ExitedDevMode, c.tree.state.Active, nil)
	c.steps = append(c.steps, func(ctx context.Context, tx *store.Tx) error {
		return devmode.Leave(ctx, tx, c.scope, c.tree.caller)
	})
}

// work runs the steps in the transaction of the moves.
func (c *change) work(ctx context.Context, tx *store.Tx) error {
	for _, step := range c.steps {
		if err := step(ctx, tx); err != nil {
			return err
		}
	}
	return nil
}

// saveAttempts is how often a change is planned if its branches keep moving.
const saveAttempts = 10

// save plans a change and stores it. If a branch has moved since it was read, the change is planned
// again from the new commits: of concurrent changes none is lost, and those that contradict each other
// are a conflict of the later one. Without a change, plan returns nil.
func (a *api) save(ctx context.Context, plan func(t *tree) (*change, error)) error {
	return a.saveFor(ctx, personOf(rest.ScopeFrom(ctx)), plan)
}

// saveFor is save on behalf of a person.
func (a *api) saveFor(ctx context.Context, by person, plan func(t *tree) (*change, error)) error {
	for attempt := 1; ; attempt++ {
		t, err := a.openTree(ctx, by, gitmirror.Current)
		if err != nil {
			return err
		}
		c, err := plan(t)
		if err != nil || c == nil || c.isEmpty() {
			return err
		}
		err = t.session.Save(c.moves, c.events, c.work)
		if err == nil {
			if len(c.moves) > 0 {
				a.showParents(ctx, c.parents) // before the controller replaces a parent that is gone by production
				a.announce(ctx)
			}
			return nil
		}
		if attempt == saveAttempts || !isOutdated(c, err) {
			return err
		}
	}
}

// isOutdated reports whether a change was rejected because a branch is not where it was read.
func isOutdated(c *change, err error) bool {
	var rejected *content.Error
	if !errors.As(err, &rejected) || rejected.Reason != content.Conflict {
		return false
	}
	branches, err := c.tree.fresh().Branches()
	if err != nil {
		return false
	}
	at := map[string]plumbing.Hash{}
	for _, b := range branches {
		at[b.Name] = b.Commit
	}
	return slices.ContainsFunc(c.moves, func(m repository.Move) bool { return at[m.Branch] != m.From })
}
