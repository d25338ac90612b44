package upload

import (
	"context"
	"crypto/sha1" //nolint:gosec // clients compare files by it; it authenticates nothing
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/repository"
	"github.com/quoin-dev/quoin/internal/modeltree"
	"github.com/quoin-dev/quoin/internal/store"
)

// sha1Of returns the hash of a file that clients compute: SHA-1 of the content, in hexadecimal. It is not
// the hash that Git gives a blob.
func sha1Of(data []byte) string {
	sum := sha1.Sum(data) //nolint:gosec // see the import
	return hex.EncodeToString(sum[:])
}

// Add adds a file to an open upload of a principal. A file that is added again replaces the first. open
// opens a session on the repository of the deployment.
func (u *Uploads) Add(ctx context.Context, s content.Scope, by, id, path string, data []byte, open func(context.Context) *repository.Session) error {
	if err := modeltree.CheckPath(path); err != nil {
		return err
	}
	if len(data) > MaxFileBytes {
		return content.Errorf(content.Invalid, "file: %q has %d bytes; allowed: %d", path, len(data), MaxFileBytes)
	}
	a := &addition{by: by, id: id, file: file{path: path, sha1: sha1Of(data), size: int64(len(data))}, data: data, done: make(chan error, 1)}
	if u.additions.add(s, a) {
		go u.work(ctx, s, open)
	}
	select {
	case err := <-a.done:
		if err == nil {
			u.known.put(a.blob, a.sha1)
		}
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// file is a file of an upload as it is stored.
type file struct {
	path, sha1 string
	blob       plumbing.Hash
	size       int64
}

// insert stores a file of an open upload. The deployment must be locked. An upload has many files, each
// in a request of its own, so there are two statements for a file that was not added before.
func (u *Uploads) insert(ctx context.Context, tx *store.Tx, s content.Scope, by, id string, added file) error {
	const count = `UPDATE upload SET files = files + 1, bytes = bytes + $6
		WHERE account_uid = $1 AND deployment_uid = $2 AND id = $3 AND created_by = $4 AND expires_at > $5 AND finished_at = 0 RETURNING files, bytes`
	var files, bytes int64
	err := tx.QueryRowContext(ctx, count, s.Account.UID, s.Deployment.UID, id, by, u.now().UnixMicro(), added.size).Scan(&files, &bytes)
	if errors.Is(err, sql.ErrNoRows) {
		if _, err = u.open(ctx, tx, s, by, id); err == nil {
			err = errors.New("an upload is open and cannot be counted")
		}
		return err
	}
	if err != nil {
		return fmt.Errorf("count the files of an upload: %w", err)
	}
	const insert = `INSERT INTO upload_file (account_uid, deployment_uid, upload_id, path, blob, sha1, size) VALUES ($1, $2, $3, $4, $5, $6, $7)
		ON CONFLICT (account_uid, upload_id, path) DO NOTHING`
	done, err := tx.ExecContext(ctx, insert, s.Account.UID, s.Deployment.UID, id, added.path, added.blob.String(), added.sha1, added.size)
	if err != nil {
		return fmt.Errorf("store a file of an upload: %w", err)
	}
	if n, err := done.RowsAffected(); err != nil {
		return fmt.Errorf("store a file of an upload: %w", err)
	} else if n == 0 {
		before, err := replace(ctx, tx, s, id, added)
		if err != nil {
			return err
		}
		files, bytes = files-1, bytes-before
	}
	switch {
	case files > MaxFiles:
		return content.Errorf(content.Conflict, "the upload has %d files; allowed: %d", files-1, MaxFiles)
	case bytes > MaxBytes:
		return content.Errorf(content.Conflict, "the files of the upload have %d bytes together; allowed: %d", bytes, MaxBytes)
	}
	return nil
}

// replace replaces a file of an upload, and returns the size of the file before. It is no longer counted.
func replace(ctx context.Context, tx *store.Tx, s content.Scope, id string, added file) (before int64, err error) {
	const query = "SELECT size FROM upload_file WHERE account_uid = $1 AND upload_id = $2 AND path = $3"
	if err := tx.QueryRowContext(ctx, query, s.Account.UID, id, added.path).Scan(&before); err != nil {
		return 0, fmt.Errorf("read a file of an upload: %w", err)
	}
	const update = "UPDATE upload_file SET blob = $4, sha1 = $5, size = $6 WHERE account_uid = $1 AND upload_id = $2 AND path = $3"
	if _, err := tx.ExecContext(ctx, update, s.Account.UID, id, added.path, added.blob.String(), added.sha1, added.size); err != nil {
		return 0, fmt.Errorf("replace a file of an upload: %w", err)
	}
	const count = "UPDATE upload SET files = files - 1, bytes = bytes - $3 WHERE account_uid = $1 AND id = $2"
	if _, err := tx.ExecContext(ctx, count, s.Account.UID, id, before); err != nil {
		return 0, fmt.Errorf("count the files of an upload: %w", err)
	}
	return before, nil
}

// filesOf returns the files of an upload by path.
func filesOf(ctx context.Context, q store.Querier, s content.Scope, id string) (map[string]file, error) {
	rows, err := q.QueryContext(ctx, "SELECT path, blob, sha1, size FROM upload_file WHERE account_uid = $1 AND upload_id = $2", s.Account.UID, id)
	if err != nil {
		return nil, fmt.Errorf("read the files of an upload: %w", err)
	}
	defer func() { _ = rows.Close() }()
	all := map[string]file{}
	for rows.Next() {
		var f file
		var blob string
		if err := rows.Scan(&f.path, &blob, &f.sha1, &f.size); err != nil {
			return nil, fmt.Errorf("read the files of an upload: %w", err)
		}
		f.blob = plumbing.NewHash(blob)
		all[f.path] = f
	}
	return all, rows.Err()
}
