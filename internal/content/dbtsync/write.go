package dbtsync

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"time"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/repository"
	"github.com/quoin-dev/quoin/internal/dbt"
	"github.com/quoin-dev/quoin/internal/modeltree"
	"github.com/quoin-dev/quoin/internal/store"
)

// maxMoves is how often the files are written if the branch moves meanwhile.
const maxMoves = 5

// writeBranch commits the files to the branch of the run, and ends the run in the same transaction.
func (r *run) writeBranch(ctx context.Context, model *dbt.Model) error {
	begin := r.worker.now()
	phases, log := len(r.Phases), len(r.log)
	for try := 1; ; try++ {
		r.Phases, r.log = r.Phases[:phases], r.log[:log]
		c := &commit{run: r, model: model}
		move, err := c.plan(ctx)
		r.endPhase(phaseWrite, begin, c.message(), err)
		if err != nil {
			return err
		}
		if err := r.update(ctx, Finalizing); err != nil {
			return err
		}
		err = c.save(move)
		var rejected *content.Error
		if errors.As(err, &rejected) && rejected.Reason == content.Conflict && try < maxMoves && c.outdated() {
			continue
		}
		if err == nil {
			r.announce(ctx)
		}
		return err
	}
}

// commit is the commit of the generated files.
type commit struct {
	*run
	session *repository.Session
	model   *dbt.Model
	// base is the branch from which the branch is created.
	base string
	// from is the commit of the branch; zero if it does not exist.
	from    plumbing.Hash
	paths   []string
	removed int
}

// head returns the commit of a branch; zero if it does not exist.
func (c *commit) head(session *repository.Session, branch string) (plumbing.Hash, error) {
	found, err := session.Branch(branch)
	var rejected *content.Error
	if errors.As(err, &rejected) && rejected.Reason == content.NotFound {
		return plumbing.ZeroHash, nil
	}
	return found.Commit, err
}

// plan opens the repository and prepares the commit.
func (c *commit) plan(ctx context.Context) (repository.Move, error) {
	session, production, err := c.worker.session(ctx, c.scope)
	switch {
	case err != nil:
		return repository.Move{}, err
	case c.Branch == production:
		return repository.Move{}, content.Errorf(content.Conflict, "branch %q is the production branch; sync to another one, which is reviewed and merged", clip(production))
	}
	c.session, c.base = session, cmp.Or(c.in.Base, production)
	return c.prepare(c.worker.now())
}

// prepare adds the commit to the session and returns the move of the branch. Without a change of the files
// there is no commit: a new branch is at the commit of the other one then.
func (c *commit) prepare(now time.Time) (move repository.Move, err error) {
	if c.from, err = c.head(c.session, c.Branch); err != nil {
		return move, err
	}
	parent := c.from
	if parent.IsZero() {
		if parent, err = c.head(c.session, c.base); err != nil {
			return move, err
		}
	}
	edits, err := c.edits(parent)
	if err != nil {
		return move, err
	}
	tree, err := modeltree.Apply(c.session, parent, edits)
	if err != nil {
		return move, err
	}
	move = repository.Move{Branch: c.Branch, From: c.from, To: parent}
	if !parent.IsZero() {
		if before, err := modeltree.TreeOf(c.session, parent); err != nil || before == tree {
			return move, err
		}
	}
	added := modeltree.Commit{
		Tree: tree, AuthorName: c.in.AuthorName, AuthorEmail: c.in.AuthorEmail, When: now,
		Message: fmt.Sprintf("Sync %d cubes from dbt\n\nSync: %s\n", len(c.model.Files), c.ID),
	}
	if !parent.IsZero() {
		added.Parents = []plumbing.Hash{parent}
	}
	move.To, err = modeltree.AddCommit(c.session, added)
	return move, err
}

// edits returns the changes of the files after a commit.
func (c *commit) edits(parent plumbing.Hash) ([]modeltree.Edit, error) {
	var edits []modeltree.Edit
	for _, f := range c.model.Files {
		blob, err := modeltree.AddBlob(c.session, f.Content)
		if err != nil {
			return nil, err
		}
		edits = append(edits, modeltree.Edit{Path: path.Join(c.in.Root, f.Path), Blob: blob})
		c.paths = append(c.paths, f.Path)
	}
	if parent.IsZero() {
		return edits, nil
	}
	files, err := modeltree.Files(c.session, parent, c.in.Root)
	if err != nil {
		return nil, err
	}
	existing, blobs := make([]string, len(files)), make(map[string]plumbing.Hash, len(files))
	for i, f := range files {
		existing[i], blobs[f.Path] = f.Path, f.Hash
	}
	stale, err := c.model.Stale(existing, func(path string) ([]byte, error) { return modeltree.Content(c.session, blobs[path]) })
	for _, name := range stale {
		edits = append(edits, modeltree.Edit{Path: path.Join(c.in.Root, name)})
	}
	c.removed = len(stale)
	return edits, err
}

func (c *commit) message() string {
	return fmt.Sprintf("Wrote %d files to branch %s and removed %d", len(c.paths), c.Branch, c.removed)
}

// save stores the commit, moves the branch and ends the run.
func (c *commit) save(move repository.Move) error {
	var moves []repository.Move
	if move.From != move.To {
		moves = append(moves, move)
	}
	c.Removed = c.removed
	running := c.Sync
	err := c.session.Save(moves, []audit.Event{c.finished()}, func(ctx context.Context, tx *store.Tx) error {
		return c.finish(ctx, tx, c.paths)
	})
	if err != nil {
		c.Sync = running
	}
	return err
}

// outdated reports whether the branch has moved since it was read.
func (c *commit) outdated() bool {
	head, err := c.head(c.session, c.Branch)
	return err == nil && head != c.from
}

// announce has the branches read at once. Otherwise they are read at the next poll.
func (r *run) announce(ctx context.Context) {
	if r.worker.Moved == nil {
		return
	}
	if err := r.worker.Moved(ctx, r.scope); err != nil {
		r.worker.Log.Warn("The controller could not be told that a branch has moved; it polls the repository", "deployment", r.scope.Deployment.Name, "cause", err.Error())
	}
}
