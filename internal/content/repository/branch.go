package repository

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/displayname"
	"github.com/quoin-dev/quoin/internal/store"
)

// MaxBranchName is the maximum number of bytes of the name of a branch; that of the kind Branch.
const MaxBranchName = 244

// Branch is a branch of a repository.
type Branch struct {
	Name      string
	Commit    plumbing.Hash
	UpdatedAt time.Time
}

// CheckBranchName returns an error unless a name is that of a branch in Git (git check-ref-format).
func CheckBranchName(name string) error {
	switch {
	case len(name) > MaxBranchName:
		return content.Errorf(content.Invalid, "branch: the name has %d bytes; allowed: %d", len(name), MaxBranchName)
	case plumbing.NewBranchReferenceName(name).Validate() != nil || name == "HEAD" || name == "@" || displayname.Check(name) != nil:
		return content.Errorf(content.Invalid, "branch: %q is not a valid name of a Git branch, such as main or feature/orders", name)
	}
	return nil
}

// Branches returns the branches by name.
func (s *Session) Branches() (all []Branch, err error) {
	err = s.database().Read(s.ctx, func(q store.Querier) error {
		all, err = branches(s.ctx, q, s.scope, s.mirror.prefix())
		return err
	})
	return all, err
}

// BranchesIn returns the branches as a transaction has them: for the work of Save.
func (s *Session) BranchesIn(ctx context.Context, tx *store.Tx) ([]Branch, error) {
	return branches(ctx, tx, s.scope, s.mirror.prefix())
}

// Branch returns a branch. The error is a *content.Error, NotFound, if it does not exist.
func (s *Session) Branch(name string) (b Branch, err error) {
	err = s.database().Read(s.ctx, func(q store.Querier) error {
		b, err = branch(s.ctx, q, s.scope, s.mirror.prefix(), name)
		return err
	})
	return b, err
}

// branches returns the branches of the repository itself if the prefix is empty, or those of a mirror.
func branches(ctx context.Context, q store.Querier, s content.Scope, prefix string) ([]Branch, error) {
	all, err := rows(ctx, q, s)
	own := make([]Branch, 0, len(all))
	for _, b := range all {
		name, found := strings.CutPrefix(b.Name, prefix)
		if !found || prefix == "" && strings.HasPrefix(name, mirrorPrefix) {
			continue
		}
		b.Name = name
		own = append(own, b)
	}
	return own, err
}

// rows returns the branches of the repository and of its mirrors, as they are stored.
func rows(ctx context.Context, q store.Querier, s content.Scope) (all []Branch, err error) {
	const query = "SELECT name, commit_hash, updated_at FROM git_branch WHERE account_uid = $1 AND deployment_uid = $2"
	rows, err := q.QueryContext(ctx, query, s.Account.UID, s.Deployment.UID)
	if err != nil {
		return nil, fmt.Errorf("list branches: %w", err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		b, err := scanBranch(rows)
		if err != nil {
			return nil, fmt.Errorf("list branches: %w", err)
		}
		all = append(all, b)
	}
	slices.SortFunc(all, func(a, b Branch) int { return strings.Compare(a.Name, b.Name) })
	return all, rows.Err()
}

func branch(ctx context.Context, q store.Querier, s content.Scope, prefix, name string) (Branch, error) {
	const query = "SELECT name, commit_hash, updated_at FROM git_branch WHERE account_uid = $1 AND deployment_uid = $2 AND name = $3"
	if CheckBranchName(name) != nil { // PostgreSQL rejects texts with a NUL
		return Branch{}, notFound(name)
	}
	b, err := scanBranch(q.QueryRowContext(ctx, query, s.Account.UID, s.Deployment.UID, prefix+name))
	if errors.Is(err, sql.ErrNoRows) {
		return Branch{}, notFound(name)
	}
	if err != nil {
		return Branch{}, fmt.Errorf("read branch %q: %w", name, err)
	}
	b.Name = name
	return b, nil
}

func notFound(name string) error {
	return content.Errorf(content.NotFound, "branch %q does not exist", name)
}

func scanBranch(row interface{ Scan(into ...any) error }) (Branch, error) {
	var b Branch
	var commit []byte
	var updated int64
	if err := row.Scan(&b.Name, &commit, &updated); err != nil {
		return b, err
	}
	b.Commit, b.UpdatedAt = plumbing.Hash(commit), time.UnixMicro(updated).UTC()
	return b, nil
}

// Move moves a branch from one commit to another; a zero From creates it, a zero To deletes it. With
// From and To equal it only requires that the branch is there.
type Move struct {
	Branch   string
	From, To plumbing.Hash
}

// checkMoves returns an error for moves that are never valid.
func checkMoves(moves []Move) error {
	seen := map[string]bool{}
	for _, m := range moves {
		switch {
		case m.From.IsZero() && m.To.IsZero():
			return content.Errorf(content.Invalid, "branch: %q is moved from nothing to nothing", m.Branch)
		case seen[m.Branch]:
			return content.Errorf(content.Invalid, "branch: %q is moved twice", m.Branch)
		}
		seen[m.Branch] = true
		if m.From.IsZero() {
			if err := CheckBranchName(m.Branch); err != nil {
				return err
			}
		}
	}
	return nil
}

// apply moves the branch, and returns the change of the number of branches.
func (m Move) apply(ctx context.Context, tx *store.Tx, s content.Scope, in *mirror, now time.Time) (created int64, err error) {
	current, err := branch(ctx, tx, s, in.prefix(), m.Branch)
	var missing *content.Error
	if err != nil && !errors.As(err, &missing) {
		return 0, err
	}
	if in != nil && in.pushed && current.Commit != m.From {
		return 0, nil // the mirror has been brought up to date since the push
	}
	if current.Commit != m.From {
		return 0, content.Errorf(content.Conflict, "branch %q is at %s, not at %s: it has changed meanwhile", m.Branch, position(current.Commit), position(m.From))
	}
	key := []any{s.Account.UID, s.Deployment.UID, in.prefix() + m.Branch}
	statement := ""
	switch {
	case m.From == m.To:
		return 0, nil
	case m.From.IsZero():
		if err := checkFolders(ctx, tx, s, in, m.Branch); err != nil {
			return 0, err
		}
		created, statement = 1, "INSERT INTO git_branch (account_uid, deployment_uid, name, commit_hash, updated_at) VALUES ($1, $2, $3, $4, $5)"
		key = append(key, m.To[:], now.UnixMicro())
	case m.To.IsZero():
		created, statement = -1, "DELETE FROM git_branch WHERE account_uid = $1 AND deployment_uid = $2 AND name = $3"
	default:
		statement = "UPDATE git_branch SET commit_hash = $4, updated_at = $5 WHERE account_uid = $1 AND deployment_uid = $2 AND name = $3"
		key = append(key, m.To[:], now.UnixMicro())
	}
	if _, err := tx.ExecContext(ctx, statement, key...); err != nil {
		return 0, fmt.Errorf("move branch %q: %w", m.Branch, err)
	}
	return created, nil
}

// position returns a commit for messages.
func position(commit plumbing.Hash) string {
	if commit.IsZero() {
		return "no commit"
	}
	return commit.String()
}

// checkFolders returns an error if a new branch has the name of a folder of another one, or the
// reverse: Git keeps branches as files.
func checkFolders(ctx context.Context, q store.Querier, s content.Scope, in *mirror, name string) error {
	all, err := branches(ctx, q, s, in.prefix())
	if err != nil {
		return err
	}
	for _, other := range all {
		if strings.HasPrefix(name, other.Name+"/") || strings.HasPrefix(other.Name, name+"/") {
			return content.Errorf(content.Conflict, "branch %q cannot exist beside branch %q", name, other.Name)
		}
	}
	return nil
}
