package repository

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/modeltree"
	"github.com/quoin-dev/quoin/internal/store"
)

const (
	// minAge is the age from which an unreachable object is deleted. An upload keeps its objects for 24
	// hours before a branch refers to them; Save leaves objects alone that are younger than refreshAfter.
	minAge = 24*time.Hour + refreshAfter
	// sweepBatch is the maximum number of objects that one transaction of a collection deletes.
	sweepBatch = 512
	// maxMarks is how often a collection of a repository begins again because of changes. What is left
	// is deleted by the next one.
	maxMarks = 5
	// repositoryPage is the number of repositories that are read with one statement.
	repositoryPage = 100
)

// RunCollection runs Collect at an interval until the context ends.
func RunCollection(ctx context.Context, st *store.Store, interval time.Duration, log *slog.Logger) error {
	return store.Repeat(ctx, interval, log, "Unreachable Git objects could not be deleted", func(ctx context.Context) error { return Collect(ctx, st, time.Now()) })
}

// Collect deletes the objects that no branch has needed for 25 hours, of all repositories that have
// changed since the last collection. Any number of replicas may run it, and it may be killed at any
// point. The failure of one repository does not keep others from being collected.
func Collect(ctx context.Context, st *store.Store, now time.Time) error {
	var failed []error
	for last := (repositoryState{}); ; {
		page, err := repositories(ctx, st.Reader(), last)
		if err != nil {
			return errors.Join(append(failed, fmt.Errorf("list repositories: %w", err))...)
		}
		for _, last = range page {
			c := &collection{store: st, scope: last.scope(), until: now.Add(-minAge).UnixMicro(), marked: map[plumbing.Hash]bool{}}
			if err := c.run(ctx, last); err != nil {
				failed = append(failed, fmt.Errorf("collect the repository of deployment %q: %w", last.deployment, err))
			}
		}
		if len(page) < repositoryPage || ctx.Err() != nil {
			return errors.Join(failed...)
		}
	}
}

// repositoryState is what a collection knows of a repository before it begins.
type repositoryState struct {
	account, deployment            string
	generation                     int64
	collectedGeneration, collected int64
}

func (r repositoryState) scope() content.Scope {
	return content.Scope{Account: store.Account{UID: r.account}, Deployment: store.Deployment{UID: r.deployment}}
}

// repositories returns the repositories after one, by UIDs.
func repositories(ctx context.Context, q store.Querier, after repositoryState) (page []repositoryState, err error) {
	const query = `SELECT account_uid, deployment_uid, generation, collected_generation, collected_until FROM git_repository
		WHERE (account_uid, deployment_uid) > ($1, $2) ORDER BY account_uid, deployment_uid LIMIT $3`
	rows, err := q.QueryContext(ctx, query, after.account, after.deployment, repositoryPage)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var r repositoryState
		if err := rows.Scan(&r.account, &r.deployment, &r.generation, &r.collectedGeneration, &r.collected); err != nil {
			return nil, err
		}
		page = append(page, r)
	}
	return page, rows.Err()
}

// collection is the collection of one repository.
//
// An object is kept if it is young, or if a branch or a young object needs it. Objects are deleted
// after those that refer to them, so that at any point all objects that a stored one refers to are
// stored: a Save can make any stored object reachable again. It raises the generation of the
// repository, which each transaction of the collection compares with the one before it began to mark.
type collection struct {
	store *store.Store
	scope content.Scope
	// until is the time before which an object must have been stored to be deleted.
	until int64
	// marked are the objects that are kept. It only grows: what was reachable in between is kept too.
	marked map[plumbing.Hash]bool
	// partial is set if another collection that deletes the same objects has kept this one from ordering
	// all of them.
	partial bool
	// batch is the maximum number of objects that one transaction deletes; sweepBatch if zero.
	batch int
	// beforeDelete, if not nil, is called before each transaction, for tests.
	beforeDelete func()
}

func (c *collection) run(ctx context.Context, r repositoryState) error {
	if unchanged, err := c.unchanged(ctx, r); unchanged || err != nil {
		return err
	}
	var garbage []modeltree.Reference
	for attempt := range maxMarks {
		generation, err := c.generation(ctx)
		if err != nil {
			return err
		}
		if err := c.mark(ctx); err != nil {
			return err
		}
		if attempt == 0 {
			if garbage, err = c.findGarbage(ctx); err != nil {
				return err
			}
		}
		var swept bool
		if garbage, swept, err = c.sweep(ctx, garbage, generation); err != nil {
			return err
		}
		switch {
		case swept && attempt == 0 && !c.partial:
			return c.complete(ctx, generation)
		case swept: // what was unreachable only lately is marked: the next collection looks again
			return nil
		}
	}
	return nil
}

// unchanged reports whether the last collection found what this one would find: nothing can have
// become unreachable, and no object old.
func (c *collection) unchanged(ctx context.Context, r repositoryState) (bool, error) {
	if r.generation != r.collectedGeneration {
		return false, nil
	}
	const query = "SELECT COUNT(*) FROM (SELECT 1 FROM git_object WHERE " + byAge + " AND created_at >= $3 AND created_at < $4 LIMIT 1) AS aged"
	var aged int
	err := c.store.Reader().QueryRowContext(ctx, query, r.account, r.deployment, r.collected, c.until).Scan(&aged)
	return aged == 0, err
}

// generation returns the generation of the repository.
func (c *collection) generation(ctx context.Context) (generation int64, err error) {
	const query = "SELECT generation FROM git_repository WHERE account_uid = $1 AND deployment_uid = $2"
	err = c.store.Reader().QueryRowContext(ctx, query, c.scope.Account.UID, c.scope.Deployment.UID).Scan(&generation)
	if errors.Is(err, sql.ErrNoRows) { // purged
		return 0, nil
	}
	return generation, err
}

// mark marks all objects to keep.
func (c *collection) mark(ctx context.Context) error {
	all, err := rows(ctx, c.store.Reader(), c.scope)
	if err != nil {
		return err
	}
	var roots []modeltree.Reference
	for _, b := range all {
		roots = append(roots, modeltree.Reference{Hash: b.Commit, Type: plumbing.CommitObject})
	}
	const forever = 1<<63 - 1
	err = eachHash(ctx, c.store.Reader(), c.scope, c.until, forever, func(r modeltree.Reference) { roots = append(roots, r) })
	if err != nil {
		return err
	}
	return c.markFrom(ctx, roots)
}

// markFrom marks objects and all that they need.
func (c *collection) markFrom(ctx context.Context, roots []modeltree.Reference) error {
	var next []plumbing.Hash
	visit := func(r modeltree.Reference) {
		if !c.marked[r.Hash] {
			c.marked[r.Hash] = true
			if r.Type != plumbing.BlobObject {
				next = append(next, r.Hash)
			}
		}
	}
	for _, r := range roots {
		visit(r)
	}
	for len(next) > 0 {
		read := next
		next = nil
		if err := c.eachReference(ctx, read, visit); err != nil {
			return err
		}
	}
	return nil
}

// eachReference calls f with each reference of objects. Those that another replica has deleted
// meanwhile have none.
func (c *collection) eachReference(ctx context.Context, hashes []plumbing.Hash, f func(to modeltree.Reference)) error {
	return readStored(ctx, c.store.Reader(), c.scope, hashes, func(in Stored) error {
		o, err := in.object()
		if err != nil {
			return err
		}
		references, err := modeltree.References(o.kind, o.data)
		for _, to := range references {
			f(to)
		}
		return err
	})
}

// findGarbage returns the old objects that are not marked, each after all that refer to it.
func (c *collection) findGarbage(ctx context.Context) ([]modeltree.Reference, error) {
	garbage := map[plumbing.Hash]*node{}
	err := eachHash(ctx, c.store.Reader(), c.scope, 0, c.until, func(r modeltree.Reference) {
		if !c.marked[r.Hash] {
			garbage[r.Hash] = &node{kind: r.Type}
		}
	})
	if err != nil {
		return nil, err
	}
	var all []plumbing.Hash // with references
	for hash, n := range garbage {
		if n.kind != plumbing.BlobObject {
			all = append(all, hash)
		}
	}
	err = c.eachReference(ctx, all, func(to modeltree.Reference) {
		if n := garbage[to.Hash]; n != nil {
			n.referrers++
		}
	})
	if err != nil {
		return nil, err
	}
	return c.order(ctx, garbage)
}

// node is an object to delete.
type node struct {
	kind plumbing.ObjectType
	// referrers is the number of references to it from objects that are not yet in the order.
	referrers int
}

// order returns objects to delete in an order in which each comes after all that refer to it.
func (c *collection) order(ctx context.Context, garbage map[plumbing.Hash]*node) (ordered []modeltree.Reference, err error) {
	var ready []modeltree.Reference
	for hash, n := range garbage {
		if n.referrers == 0 {
			ready = append(ready, modeltree.Reference{Hash: hash, Type: n.kind})
		}
	}
	for len(ready) > 0 {
		ordered = append(ordered, ready...)
		var read []plumbing.Hash
		for _, r := range ready {
			if r.Type != plumbing.BlobObject {
				read = append(read, r.Hash)
			}
		}
		ready = ready[:0]
		err := c.eachReference(ctx, read, func(to modeltree.Reference) {
			n := garbage[to.Hash]
			if n == nil {
				return
			}
			if n.referrers--; n.referrers == 0 {
				ready = append(ready, modeltree.Reference{Hash: to.Hash, Type: n.kind})
			}
		})
		if err != nil {
			return nil, err
		}
	}
	c.partial = len(ordered) < len(garbage)
	return ordered, nil
}

// sweep deletes the objects that are not marked, in order. It returns those that are left because the
// repository was changed, so that they have to be marked again.
func (c *collection) sweep(ctx context.Context, garbage []modeltree.Reference, generation int64) (left []modeltree.Reference, done bool, err error) {
	kept := garbage[:0]
	for _, r := range garbage {
		if !c.marked[r.Hash] {
			kept = append(kept, r)
		}
	}
	for garbage = kept; len(garbage) > 0; {
		n := min(len(garbage), cmp.Or(c.batch, sweepBatch))
		if c.beforeDelete != nil {
			c.beforeDelete()
		}
		var unchanged bool
		err := c.store.Tx(ctx, func(tx *store.Tx) (err error) {
			unchanged, err = c.delete(ctx, tx, garbage[:n], generation)
			return err
		})
		if err != nil || !unchanged {
			return garbage, false, err
		}
		garbage = garbage[n:]
	}
	return nil, true, nil
}

// delete deletes objects, unless the repository is changed: then it deletes nothing.
func (c *collection) delete(ctx context.Context, tx *store.Tx, garbage []modeltree.Reference, generation int64) (unchanged bool, err error) {
	const lock = "UPDATE git_repository SET generation = generation WHERE account_uid = $1 AND deployment_uid = $2 RETURNING generation"
	var current int64
	err = tx.QueryRowContext(ctx, lock, c.scope.Account.UID, c.scope.Deployment.UID).Scan(&current)
	if errors.Is(err, sql.ErrNoRows) || err == nil && current != generation {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("lock the repository: %w", err)
	}
	var objects, bytes int64
	for len(garbage) > 0 {
		n := min(len(garbage), maxHashes)
		hashes := make([]plumbing.Hash, n)
		for i, r := range garbage[:n] {
			hashes[i] = r.Hash
		}
		deleted, size, err := c.deleteObjects(ctx, tx, hashes)
		if err != nil {
			return false, fmt.Errorf("delete Git objects: %w", err)
		}
		objects, bytes, garbage = objects+deleted, bytes+size, garbage[n:]
	}
	const count = "UPDATE git_repository SET objects = objects - $3, bytes = bytes - $4 WHERE account_uid = $1 AND deployment_uid = $2"
	if _, err := tx.ExecContext(ctx, count, c.scope.Account.UID, c.scope.Deployment.UID, objects, bytes); err != nil {
		return false, fmt.Errorf("count Git objects: %w", err)
	}
	return true, nil
}

// deleteObjects deletes objects and returns their number and the bytes of their data.
func (c *collection) deleteObjects(ctx context.Context, tx *store.Tx, hashes []plumbing.Hash) (n, bytes int64, err error) {
	const statement = "DELETE FROM git_object WHERE created_at < $3 AND " + keyIn + " RETURNING length(data)"
	list, args := batch(c.scope, hashes, c.until)
	rows, err := tx.QueryContext(ctx, fmt.Sprintf(statement, list), args...)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var size int64
		if err := rows.Scan(&size); err != nil {
			return 0, 0, err
		}
		n, bytes = n+1, bytes+size
	}
	return n, bytes, rows.Err()
}

// complete notes that the collection is complete, unless the repository is changed.
func (c *collection) complete(ctx context.Context, generation int64) error {
	return c.store.Tx(ctx, func(tx *store.Tx) error {
		const statement = `UPDATE git_repository SET collected_generation = $3, collected_until = $4
			WHERE account_uid = $1 AND deployment_uid = $2 AND generation = $3`
		_, err := tx.ExecContext(ctx, statement, c.scope.Account.UID, c.scope.Deployment.UID, generation, c.until)
		return err
	})
}
