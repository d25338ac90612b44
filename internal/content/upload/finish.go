package upload

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/repository"
	"github.com/quoin-dev/quoin/internal/modeledit"
	"github.com/quoin-dev/quoin/internal/modeltree"
	"github.com/quoin-dev/quoin/internal/store"
)

// finishAttempts is how often finishing is planned again because the branch has moved in the meantime.
const finishAttempts = 8

// Target is the branch of an upload.
type Target struct {
	Session *repository.Session
	Branch  string
	// Commit of the branch; zero if it has none yet.
	Commit plumbing.Hash
	// Root is the folder of the repository to which the paths of files are relative.
	Root string
}

// Finish is the end of an upload.
type Finish struct {
	ID string
	// Files has the SHA-1 of the files of the model, by path.
	Files map[string]string
	// KeepOthers keeps files of the branch that are not in Files; else they are deleted.
	KeepOthers bool
	// Message of the commit; a default if empty.
	Message                 string
	AuthorName, AuthorEmail string
}

// Result is the outcome of a finished upload.
type Result struct {
	// LastHash is the commit that the branch has.
	LastHash string
	// Announce reports whether the branch has moved and Announced was not called yet.
	Announce bool
}

// errFinished is returned for an upload that another request has finished in the meantime.
var errFinished = errors.New("the upload was finished by another request")

// Finish commits the files of an upload of a principal. It does so once: finishing again with the same
// input returns the same result. target returns the branch as it is when target is called.
func (u *Uploads) Finish(ctx context.Context, s content.Scope, by string, f Finish, target func(ctx context.Context) (*Target, error)) (Result, error) {
	if err := f.check(); err != nil {
		return Result{}, err
	}
	for attempt := 1; ; attempt++ {
		result, t, err := u.finish(ctx, s, by, &f, target)
		if err == nil || attempt == finishAttempts || ctx.Err() != nil {
			return result, err
		}
		if !errors.Is(err, errFinished) && !hasMoved(t, err) {
			return result, err
		}
	}
}

// hasMoved reports whether an error is a conflict because a branch is no longer at the commit of a target.
func hasMoved(t *Target, err error) bool {
	var rejected *content.Error
	if t == nil || !errors.As(err, &rejected) || rejected.Reason != content.Conflict {
		return false
	}
	now, err := t.Session.Branch(t.Branch)
	if errors.As(err, &rejected) && rejected.Reason == content.NotFound {
		return !t.Commit.IsZero()
	}
	return err == nil && now.Commit != t.Commit
}

var sha1Form = regexp.MustCompile(`^[0-9a-f]{40}$`)

// check checks the list of files.
func (f *Finish) check() error {
	switch {
	case len(f.Files) == 0:
		return content.Errorf(content.Invalid, "files: is empty; allowed: 1 to %d files", MaxFiles)
	case len(f.Files) > MaxFiles:
		return content.Errorf(content.Invalid, "files: has %d files; allowed: 1 to %d", len(f.Files), MaxFiles)
	}
	for _, path := range slices.Sorted(maps.Keys(f.Files)) {
		if err := modeltree.CheckPath(path); err != nil {
			return err
		}
		if sha1 := f.Files[path]; !sha1Form.MatchString(sha1) {
			return content.Errorf(content.Invalid, "files: the hash of %q is %.60q; allowed: the SHA-1 of the content as 40 hexadecimal digits in lower case", path, sha1)
		}
	}
	return nil
}

// digest returns a hash of the input, by which a repetition is recognized.
func (f *Finish) digest() string {
	sum := sha256.New()
	_, _ = fmt.Fprintf(sum, "%t %q\n", f.KeepOthers, f.Message)
	for _, path := range slices.Sorted(maps.Keys(f.Files)) {
		_, _ = io.WriteString(sum, f.Files[path]+" "+path+"\x00")
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// finish plans and makes the commit. It returns the target with an error that may be due to it.
func (u *Uploads) finish(ctx context.Context, s content.Scope, by string, f *Finish, target func(ctx context.Context) (*Target, error)) (Result, *Target, error) {
	var r *row
	var uploaded map[string]file
	err := u.DB.Read(ctx, func(q store.Querier) (err error) {
		if r, err = u.get(ctx, q, s, by, f.ID); err == nil {
			uploaded, err = filesOf(ctx, q, s, f.ID)
		}
		return err
	})
	switch {
	case err != nil:
		return Result{}, nil, err
	case r.finished && r.request != f.digest():
		return Result{}, nil, content.Errorf(content.Conflict, "transaction: the upload is finished, with other files; start a new one")
	case r.finished:
		return Result{r.lastHash, !r.announced}, nil, nil
	}
	t, err := target(ctx)
	if err != nil {
		return Result{}, nil, err
	}
	if t.Branch != r.branch {
		return Result{}, nil, content.Errorf(content.Invalid, "branchName: the upload was started for the branch %q", r.branch)
	}
	edits, err := u.plan(ctx, s, t, f, uploaded)
	if err != nil {
		return Result{}, nil, err
	}
	result, err := u.commit(s, by, t, f, edits)
	return result, t, err
}

// plan returns the edits of the branch.
func (u *Uploads) plan(ctx context.Context, s content.Scope, t *Target, f *Finish, uploaded map[string]file) ([]modeltree.Edit, error) {
	var current []modeltree.File
	if !t.Commit.IsZero() {
		var err error
		if current, err = modeltree.List(t.Session, t.Commit, t.Root); err != nil {
			return nil, err
		}
	}
	hashes, err := u.Hashes(ctx, s, t.Session, current)
	if err != nil {
		return nil, err
	}
	edits, err := f.edits(current, hashes, uploaded)
	return modeledit.Below(t.Root, edits), err
}

// edits returns the edits that make the files of the list of the current ones, whose SHA-1 are given by
// path, and of those that were uploaded.
func (f *Finish) edits(current []modeltree.File, hashes map[string]string, uploaded map[string]file) ([]modeltree.Edit, error) {
	blobs := make(map[string]plumbing.Hash, len(current))
	for _, c := range current {
		blobs[c.Path] = c.Hash
	}
	files := make([]modeledit.Blob, 0, len(f.Files))
	for _, path := range slices.Sorted(maps.Keys(f.Files)) {
		added, found := uploaded[path]
		switch {
		case found && added.sha1 == f.Files[path]:
			files = append(files, modeledit.Blob{Path: path, Hash: added.blob})
		case hashes[path] == f.Files[path]:
			files = append(files, modeledit.Blob{Path: path, Hash: blobs[path]})
		case found:
			return nil, content.Errorf(content.Invalid, "files: the hash of %q is %s, but the file that was uploaded has %s", path, f.Files[path], added.sha1)
		default:
			return nil, content.Errorf(content.Invalid, "files: %q with the hash %s was not uploaded, and the branch does not have it", path, f.Files[path])
		}
	}
	for _, path := range slices.Sorted(maps.Keys(uploaded)) {
		if _, listed := f.Files[path]; !listed {
			return nil, content.Errorf(content.Invalid, "files: %q was uploaded and is not listed", path)
		}
	}
	return modeledit.Replace(current, files, f.KeepOthers), nil
}

// commit makes the commit, unless nothing has changed, and finishes the upload in the same transaction.
func (u *Uploads) commit(s content.Scope, by string, t *Target, f *Finish, edits []modeltree.Edit) (Result, error) {
	result := Result{LastHash: t.Commit.String()}
	var moves []repository.Move
	var events []audit.Event
	if len(edits) > 0 {
		commit, err := u.add(t, f, edits)
		if err != nil {
			return Result{}, err
		}
		result = Result{LastHash: commit.String(), Announce: true}
		moves = []repository.Move{{Branch: t.Branch, From: t.Commit, To: commit}}
		event := audit.Event{Name: audit.FinishedUploadingFiles, Object: audit.Object{Kind: "Branch", Name: t.Branch}}
		event.Changes, err = audit.DiffJSON(map[string]any{"lastHash": hashOrEmpty(t.Commit)}, map[string]any{"lastHash": result.LastHash, "filesChanged": len(edits)})
		if err != nil {
			return Result{}, err
		}
		events = append(events, event)
	}
	// Save locks the deployment.
	err := t.Session.Save(moves, events, func(ctx context.Context, tx *store.Tx) error {
		return u.finished(ctx, tx, s, by, f, result)
	})
	return result, err
}

func hashOrEmpty(commit plumbing.Hash) string {
	if commit.IsZero() {
		return ""
	}
	return commit.String()
}

// add adds the commit to the session.
func (u *Uploads) add(t *Target, f *Finish, edits []modeltree.Edit) (plumbing.Hash, error) {
	tree, err := modeltree.Apply(t.Session, t.Commit, edits)
	if err != nil {
		return plumbing.ZeroHash, err
	}
	c := modeltree.Commit{Tree: tree, AuthorName: f.AuthorName, AuthorEmail: f.AuthorEmail, Message: strings.TrimSpace(f.Message), When: u.now()}
	if !t.Commit.IsZero() {
		c.Parents = []plumbing.Hash{t.Commit}
	}
	if c.Message == "" {
		c.Message = describe(len(edits))
	}
	return modeltree.AddCommit(t.Session, c)
}

// describe returns the message of a commit that adds, changes or deletes a number of files.
func describe(files int) string {
	if files == 1 {
		return "Upload: 1 file changed"
	}
	return fmt.Sprintf("Upload: %d files changed", files)
}

// finished records the outcome of an upload. The error is errFinished if another request was faster.
func (u *Uploads) finished(ctx context.Context, tx *store.Tx, s content.Scope, by string, f *Finish, result Result) error {
	now, announced := u.now().UnixMicro(), 1
	if result.Announce {
		announced = 0
	}
	const update = `UPDATE upload SET finished_at = $5, request = $6, last_hash = $7, announced = $8
		WHERE account_uid = $1 AND deployment_uid = $2 AND id = $3 AND created_by = $4 AND finished_at = 0 AND expires_at > $5`
	done, err := tx.ExecContext(ctx, update, s.Account.UID, s.Deployment.UID, f.ID, by, now, f.digest(), result.LastHash, announced)
	if err != nil {
		return fmt.Errorf("finish an upload: %w", err)
	}
	if n, err := done.RowsAffected(); err != nil || n != 1 {
		return errors.Join(err, errFinished)
	}
	if err := keepHashes(ctx, tx, s, f.ID, now); err != nil {
		return err
	}
	if IsLive(f.ID) {
		return nil
	}
	const last = `INSERT INTO upload_last (account_uid, deployment_uid, last_hash, finished_at) VALUES ($1, $2, $3, $4)
		ON CONFLICT (account_uid, deployment_uid) DO UPDATE SET last_hash = excluded.last_hash, finished_at = excluded.finished_at`
	if _, err := tx.ExecContext(ctx, last, s.Account.UID, s.Deployment.UID, result.LastHash, now); err != nil {
		return fmt.Errorf("record the last upload: %w", err)
	}
	return nil
}

// Announced records that the controller was told of a finished upload.
func (u *Uploads) Announced(ctx context.Context, s content.Scope, id string) error {
	return u.DB.Tx(ctx, func(tx *store.Tx) error {
		if err := tx.LockDeployment(ctx, s.Account, s.Deployment); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, "UPDATE upload SET announced = 1 WHERE account_uid = $1 AND deployment_uid = $2 AND id = $3", s.Account.UID, s.Deployment.UID, id)
		return err
	})
}

// Last returns the commit of the last upload of a deployment, other than live previews. It is NotFound if
// there was none.
func (u *Uploads) Last(ctx context.Context, s content.Scope) (commit plumbing.Hash, err error) {
	var hash string
	err = u.DB.Read(ctx, func(q store.Querier) error {
		return q.QueryRowContext(ctx, "SELECT last_hash FROM upload_last WHERE account_uid = $1 AND deployment_uid = $2", s.Account.UID, s.Deployment.UID).Scan(&hash)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return commit, content.Errorf(content.NotFound, "nothing was uploaded to the deployment yet")
	}
	return plumbing.NewHash(hash), err
}
