package upload

import (
	"context"
	"crypto/sha1" //nolint:gosec // clients compare files by it; it authenticates nothing
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"

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

// Add adds a file to an open upload of a principal. A file that is added again replaces the first. The
// session is one of the deployment's repository, for this call.
func (u *Uploads) Add(s content.Scope, by, id, path string, data []byte, session *repository.Session) error {
	if err := modeltree.CheckPath(path); err != nil {
		return err
	}
	if len(data) > MaxFileBytes {
		return content.Errorf(content.Invalid, "file: %q has %d bytes; allowed: %d", path, len(data), MaxFileBytes)
	}
	blob, err := modeltree.AddBlob(session, data)
	if err != nil {
		return err
	}
	added := file{path: path, blob: blob.String(), sha1: sha1Of(data), size: int64(len(data))}
	// Save locks the deployment.
	return session.Save(nil, nil, func(ctx context.Context, tx *store.Tx) error {
		r, err := u.open(ctx, tx, s, by, id)
		if err != nil {
			return err
		}
		return u.insert(ctx, tx, s, r, added)
	})
}

// file is a file of an upload as it is stored.
type file struct {
	path, blob, sha1 string
	size             int64
}

// insert stores a file of an upload, which must be locked.
func (u *Uploads) insert(ctx context.Context, tx *store.Tx, s content.Scope, r *row, added file) error {
	files, bytes := r.files+1, r.bytes+added.size
	var before int64
	err := tx.QueryRowContext(ctx, "SELECT size FROM upload_file WHERE account_uid = $1 AND upload_id = $2 AND path = $3", s.Account.UID, r.id, added.path).Scan(&before)
	switch {
	case err == nil:
		files, bytes = files-1, bytes-before
	case !errors.Is(err, sql.ErrNoRows):
		return fmt.Errorf("read a file of an upload: %w", err)
	}
	switch {
	case files > MaxFiles:
		return content.Errorf(content.Conflict, "the upload has %d files; allowed: %d", r.files, MaxFiles)
	case bytes > MaxBytes:
		return content.Errorf(content.Conflict, "the files of the upload have %d bytes together; allowed: %d", bytes, MaxBytes)
	}
	const insert = `INSERT INTO upload_file (account_uid, deployment_uid, upload_id, path, blob, sha1, size) VALUES ($1, $2, $3, $4, $5, $6, $7)
		ON CONFLICT (account_uid, upload_id, path) DO UPDATE SET blob = excluded.blob, sha1 = excluded.sha1, size = excluded.size`
	if _, err := tx.ExecContext(ctx, insert, s.Account.UID, s.Deployment.UID, r.id, added.path, added.blob, added.sha1, added.size); err != nil {
		return fmt.Errorf("store a file of an upload: %w", err)
	}
	const update = "UPDATE upload SET files = $3, bytes = $4 WHERE account_uid = $1 AND id = $2"
	if _, err := tx.ExecContext(ctx, update, s.Account.UID, r.id, files, bytes); err != nil {
		return fmt.Errorf("count the files of an upload: %w", err)
	}
	return u.storeHash(ctx, tx, s, added.blob, added.sha1)
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
		if err := rows.Scan(&f.path, &f.blob, &f.sha1, &f.size); err != nil {
			return nil, fmt.Errorf("read the files of an upload: %w", err)
		}
		all[f.path] = f
	}
	return all, rows.Err()
}
