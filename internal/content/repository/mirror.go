package repository

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/google/uuid"

	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/modeltree"
	"github.com/quoin-dev/quoin/internal/store"
)

const (
	// mirrorPrefix begins the stored names of the branches of mirrors. Git allows no colon in names, so
	// that no branch of a repository has it.
	mirrorPrefix = "remote:"
	// MaxMirrorBranches is the maximum number of branches of a mirror.
	MaxMirrorBranches = 5000
	// maxMirrorBytes and maxMirrorObjects bound the commits and folders that a session holds in memory
	// while a remote is read.
	maxMirrorBytes   = 64 << 20
	maxMirrorObjects = 250_000
	// storeObjects and storeBytes bound what one transaction of Store stores.
	storeObjects = 2000
	storeBytes   = 4 << 20
	// finishTimeout is the timeout for storing what has been pushed.
	finishTimeout = 15 * time.Second
)

// Push moves branches of a remote. The objects of the commits are stored. After an error none has moved,
// unless it is ErrUnknownOutcome. A branch that is not at From is a *content.Error, Conflict, and the
// mirror is up to date then.
type Push func(ctx context.Context, s *Session, moves []Move) error

// ErrUnknownOutcome is wrapped by the error of a Push that may have been made.
var ErrUnknownOutcome = errors.New("whether the remote has accepted the push is unknown")

// mirror is the copy of a remote that a session reads and writes.
type mirror struct {
	stored string
	push   Push
	// pushed is true while a change is stored that has been pushed: branches that are elsewhere are left
	// alone.
	pushed bool
}

// prefix returns the prefix of stored names.
func (m *mirror) prefix() string {
	if m == nil {
		return ""
	}
	return m.stored
}

// Mirror returns a session on the mirror of a remote, which is identified by its URL, in the repository
// of a deployment. It shares objects with the repository itself and no branches, so that a deployment
// that returns to its own repository finds it unchanged.
//
// Save pushes moves before it stores them:
//
//  1. It makes the change in a transaction that is rolled back, so that what it rejects is not pushed.
//  2. It stores the objects, and the events as attempted.
//  3. It pushes. The remote compares the commits from which the branches are moved.
//  4. It stores the moves, the work, and the outcome of the events in one transaction.
//
// After a crash in between, Follow finds the branches as they are on the remote.
//
// A session without push is for Follow.
func (r *Repositories) Mirror(ctx context.Context, s content.Scope, url string, push Push) *Session {
	sum := sha256.Sum256([]byte(url))
	session := r.Session(ctx, s)
	session.mirror = &mirror{stored: mirrorPrefix + hex.EncodeToString(sum[:8]) + ":", push: push}
	if push == nil {
		session.maxBytes, session.maxObjects = maxMirrorBytes, maxMirrorObjects
	}
	return session
}

// quota returns the quota of the session.
func (s *Session) quota() Quota {
	q := s.all.Quota.withDefaults()
	if s.mirror != nil {
		q.MaxBranches += MaxMirrorBranches
	}
	return q
}

// errRehearsed rolls a transaction back.
var errRehearsed = errors.New("the transaction was a rehearsal")

// savePushed is Save for moves that are pushed.
func (s *Session) savePushed(moves []Move, events []audit.Event, work func(ctx context.Context, tx *store.Tx) error) error {
	change := &change{Session: s, moves: moves, work: work}
	if err := change.prepare(s.order); err != nil {
		return err
	}
	err := s.database().Tx(s.ctx, func(tx *store.Tx) error {
		if err := change.run(tx); err != nil {
			return err
		}
		return errRehearsed
	})
	if !errors.Is(err, errRehearsed) {
		return err
	}
	if events, err = s.attempt(events); err != nil {
		return err
	}
	change.moves, change.work, change.events = nil, nil, events
	if err := s.database().Tx(s.ctx, change.run); err != nil {
		return err
	}
	s.forget(s.order)
	// From here on the client may disconnect: a push that is begun is ended.
	before := s.ctx
	defer func() { s.ctx = before }()
	s.ctx = context.WithoutCancel(before)
	if err := s.mirror.push(s.ctx, s, moves); err != nil {
		return errors.Join(err, s.failed(events, err))
	}
	return s.finish(moves, events, work)
}

// attempt returns the events as attempted, with ids by which their outcome is stored.
func (s *Session) attempt(events []audit.Event) ([]audit.Event, error) {
	attempted := slices.Clone(events)
	for i := range attempted {
		id, err := uuid.NewV7()
		if err != nil {
			return nil, fmt.Errorf("make the id of an event: %w", err)
		}
		attempted[i].ID, attempted[i].Time, attempted[i].Outcome = id, s.all.now(), audit.Attempted
	}
	return attempted, nil
}

// failed stores that a change was not made. Where that is unknown, its events stay attempted.
func (s *Session) failed(events []audit.Event, reason error) error {
	if len(events) == 0 || errors.Is(reason, ErrUnknownOutcome) {
		return nil
	}
	ctx, cancel := context.WithTimeout(s.ctx, finishTimeout)
	defer cancel()
	return s.database().Tx(ctx, func(tx *store.Tx) error {
		for _, e := range events {
			e.Outcome, e.Reason = audit.Failed, reason.Error()
			if err := s.all.Record(ctx, tx, e); err != nil {
				return err
			}
		}
		return nil
	})
}

// finish stores a change that has been pushed.
func (s *Session) finish(moves []Move, events []audit.Event, work func(ctx context.Context, tx *store.Tx) error) error {
	var cancel context.CancelFunc
	s.ctx, cancel = context.WithTimeout(s.ctx, finishTimeout)
	defer cancel()
	for i := range events {
		events[i].Outcome = audit.Succeeded
	}
	change := &change{Session: s, moves: moves, events: events, work: work}
	if err := change.prepare(nil); err != nil {
		return err
	}
	s.mirror.pushed = true
	defer func() { s.mirror.pushed = false }()
	err := s.database().Tx(s.ctx, change.run)
	if errors.Is(err, store.ErrUnavailable) {
		return fmt.Errorf("%w: %w", store.ErrUnknownOutcome, err)
	}
	return err
}

// Store stores the new objects in transactions of bounded size. Each object is stored after those to
// which it refers, so that the repository is complete at any time.
func (s *Session) Store() error {
	ordered, err := s.ordered()
	if err != nil {
		return err
	}
	for len(ordered) > 0 {
		n, size := 0, int64(0)
		for n < min(len(ordered), storeObjects) && (n == 0 || size+s.added[ordered[n]].Size() <= storeBytes) {
			size += s.added[ordered[n]].Size()
			n++
		}
		change := &change{Session: s}
		if err := change.prepare(ordered[:n]); err != nil {
			return err
		}
		if err := s.database().Tx(s.ctx, change.run); err != nil {
			return err
		}
		s.forget(ordered[:n])
		ordered = ordered[n:]
	}
	return nil
}

// ordered returns the new objects, each after those to which it refers.
func (s *Session) ordered() ([]plumbing.Hash, error) {
	ordered, seen := make([]plumbing.Hash, 0, len(s.order)), make(map[plumbing.Hash]bool, len(s.order))
	type step struct {
		hash plumbing.Hash
		// leave is true when all that the object refers to is ordered.
		leave bool
	}
	// From the end, because a pack has the newest commits first.
	for _, root := range slices.Backward(s.order) {
		for stack := []step{{root, false}}; len(stack) > 0; {
			next := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			if next.leave {
				ordered = append(ordered, next.hash)
				continue
			}
			o := s.added[next.hash]
			if o == nil || seen[next.hash] {
				continue
			}
			seen[next.hash] = true
			stack = append(stack, step{next.hash, true})
			references, err := modeltree.References(o.kind, o.data)
			if err != nil {
				return nil, fmt.Errorf("object %s: %w", o.hash, err)
			}
			for _, r := range references {
				if s.added[r.Hash] != nil && !seen[r.Hash] {
					stack = append(stack, step{r.Hash, false})
				}
			}
		}
	}
	return ordered, nil
}

// Follow makes the branches of a mirror those of its remote. before are those of the mirror when the
// remote was read: a branch that has been moved since is left alone. The branches of mirrors of other
// remotes are deleted. The new objects must have been stored. Without differences it writes nothing.
func (s *Session) Follow(before []Branch, after map[string]plumbing.Hash) error {
	var stored []Branch
	err := s.database().Read(s.ctx, func(q store.Querier) (err error) {
		stored, err = rows(s.ctx, q, s.scope)
		return err
	})
	if err != nil || len(s.differences(stored, before, after)) == 0 {
		return err
	}
	return s.database().Tx(s.ctx, func(tx *store.Tx) error {
		if err := tx.LockDeployment(s.ctx, s.scope.Account, s.scope.Deployment); err != nil {
			return err
		}
		use, err := lockUse(s.ctx, tx, s.scope)
		if err != nil {
			return err
		}
		stored, err := rows(s.ctx, tx, s.scope)
		if err != nil {
			return err
		}
		changed, moves := use, s.differences(stored, before, after)
		if err := s.checkCommits(tx, moves); err != nil {
			return err
		}
		for _, d := range moves {
			if err := s.set(tx, d); err != nil {
				return err
			}
			changed.branches += d.created()
		}
		return changed.save(s.ctx, tx, s.scope, use, s.quota())
	})
}

// checkCommits returns an error unless the commits of moves are stored.
func (s *Session) checkCommits(tx *store.Tx, moves []Move) error {
	var commits []plumbing.Hash
	for _, m := range moves {
		if !m.To.IsZero() {
			commits = append(commits, m.To)
		}
	}
	existing, err := readRecords(s.ctx, tx, s.scope, commits)
	for _, commit := range commits {
		if err == nil {
			err = checkType(modeltree.Reference{Hash: commit, Type: plumbing.CommitObject}, plumbing.ZeroHash, existing[commit].kind)
		}
	}
	return err
}

// created returns the change of the number of branches.
func (m Move) created() int64 {
	switch {
	case m.From.IsZero():
		return 1
	case m.To.IsZero():
		return -1
	}
	return 0
}

// differences returns the moves, by stored names, that Follow makes.
func (s *Session) differences(stored, before []Branch, after map[string]plumbing.Hash) []Move {
	prefix := s.mirror.prefix()
	seen := make(map[string]plumbing.Hash, len(before))
	for _, b := range before {
		seen[prefix+b.Name] = b.Commit
	}
	var moves []Move
	at := make(map[string]plumbing.Hash, len(stored))
	for _, b := range stored {
		name, own := strings.CutPrefix(b.Name, prefix)
		at[b.Name] = b.Commit
		switch to := after[name]; {
		case own && to != b.Commit && seen[b.Name] == b.Commit:
			moves = append(moves, Move{b.Name, b.Commit, to})
		case !own && strings.HasPrefix(b.Name, mirrorPrefix):
			moves = append(moves, Move{Branch: b.Name, From: b.Commit})
		}
	}
	for name, to := range after {
		if at[prefix+name].IsZero() && seen[prefix+name].IsZero() {
			moves = append(moves, Move{Branch: prefix + name, To: to})
		}
	}
	slices.SortFunc(moves, func(a, b Move) int { return strings.Compare(a.Branch, b.Branch) })
	return moves
}

// set makes a move by its stored name.
func (s *Session) set(tx *store.Tx, m Move) error {
	const (
		upsert = `INSERT INTO git_branch (account_uid, deployment_uid, name, commit_hash, updated_at) VALUES ($1, $2, $3, $4, $5)
			ON CONFLICT (account_uid, deployment_uid, name) DO UPDATE SET commit_hash = excluded.commit_hash, updated_at = excluded.updated_at`
		remove = "DELETE FROM git_branch WHERE account_uid = $1 AND deployment_uid = $2 AND name = $3"
	)
	key := []any{s.scope.Account.UID, s.scope.Deployment.UID, m.Branch}
	statement := remove
	if !m.To.IsZero() {
		statement, key = upsert, append(key, bytes.Clone(m.To[:]), s.all.now().UnixMicro())
	}
	if _, err := tx.ExecContext(s.ctx, statement, key...); err != nil {
		return fmt.Errorf("move branch %q of a mirror: %w", m.Branch, err)
	}
	return nil
}
