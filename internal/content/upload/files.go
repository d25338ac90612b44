package upload

import (
	"context"
	"crypto/sha1" //nolint:gosec // clients compare files by it; it authenticates nothing
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

// Add adds a file to an open upload of a principal. A file that is added again replaces the first. The content
// is stored in the repository of the deployment.
func (u *Uploads) Add(ctx context.Context, s content.Scope, by, id, path string, data []byte, to *repository.Repositories) error {
	if err := modeltree.CheckPath(path); err != nil {
		return err
	}
	if len(data) > MaxFileBytes {
		return content.Errorf(content.Invalid, "file: %q has %d bytes; allowed: %d", path, len(data), MaxFileBytes)
	}
	a := &addition{by: by, id: id, file: file{path: path, sha1: sha1Of(data), size: int64(len(data))}, data: data, done: make(chan error, 1)}
	if u.additions.add(s, a) {
		u.work(ctx, s, to)
	}
	select {
	case err := <-a.done:
		if err == nil {
			u.known.put(a.blob, a.sha1)
		}
		return err
	case <-ctx.Done():
		// The request holds a place for its file until nothing else does.
		if !u.additions.withdraw(s, a) {
			<-a.done
		}
		return ctx.Err()
	}
}

// file is a file of an upload as it is stored.
type file struct {
	path, sha1 string
	blob       plumbing.Hash
	size       int64
}

// alone returns the statements that add one file that is new to an open upload which has room for it.
func (u *Uploads) alone(a *addition) repository.Addition {
	return repository.Addition{
		Condition: `EXISTS (SELECT 1 FROM upload WHERE account_uid = $1 AND deployment_uid = $2 AND id = $12 AND created_by = $13
				AND expires_at > $14 AND finished_at = 0 AND files < $15 AND bytes + $6 <= $16)
			AND NOT EXISTS (SELECT 1 FROM upload_file WHERE account_uid = $1 AND upload_id = $12 AND path = $17)`,
		Insert: `INSERT INTO upload_file (account_uid, deployment_uid, upload_id, path, blob, sha1, size) SELECT $1, $2, $12, $17, $18, $19, $6 FROM room`,
		Update: "UPDATE upload SET files = files + 1, bytes = bytes + $6 FROM room WHERE account_uid = $1 AND id = $12",
		Args:   []any{a.id, a.by, u.now().UnixMicro(), MaxFiles, MaxBytes, a.path, a.blob.String(), a.sha1},
	}
}

// counted is an upload to which files are added.
type counted struct {
	uploadKey
	// added are the number and the bytes of the files that are added.
	added, addedBytes int64
	// files and bytes are what the upload has with them.
	files, bytes int64
	// statement counts them. Of an upload that is not open, it changes no row.
	statement *store.Statement
}

// insertions returns the statements that add files to open uploads: those that count them, and one for each
// file, which changes no row if the upload has a file with the path. The deployment must be locked.
func (u *Uploads) insertions(s content.Scope, all []*addition) (counts map[uploadKey]*counted, inserts []*store.Statement) {
	counts = map[uploadKey]*counted{}
	const insert = `INSERT INTO upload_file (account_uid, deployment_uid, upload_id, path, blob, sha1, size) VALUES ($1, $2, $3, $4, $5, $6, $7)
		ON CONFLICT (account_uid, upload_id, path) DO NOTHING`
	for _, a := range all {
		c := counts[a.upload()]
		if c == nil {
			c = &counted{uploadKey: a.upload()}
			counts[a.upload()] = c
		}
		c.added, c.addedBytes = c.added+1, c.addedBytes+a.size
		inserts = append(inserts, &store.Statement{Query: insert, Args: []any{s.Account.UID, s.Deployment.UID, a.id, a.path, a.blob.String(), a.sha1, a.size}})
	}
	const count = `UPDATE upload SET files = files + $6, bytes = bytes + $7
		WHERE account_uid = $1 AND deployment_uid = $2 AND id = $3 AND created_by = $4 AND expires_at > $5 AND finished_at = 0 RETURNING files, bytes`
	for _, c := range counts {
		c.statement = &store.Statement{Query: count, Args: []any{s.Account.UID, s.Deployment.UID, c.id, c.by, u.now().UnixMicro(), c.added, c.addedBytes}, Into: []any{&c.files, &c.bytes}}
	}
	return counts, inserts
}

// checkCounts returns an error if one of the uploads is not open, or has too many files.
func (u *Uploads) checkCounts(ctx context.Context, tx *store.Tx, s content.Scope, counts map[uploadKey]*counted) error {
	for _, c := range counts {
		switch {
		case c.statement.Rows == 0:
			_, err := u.open(ctx, tx, s, c.by, c.id)
			if err == nil {
				err = errors.New("an upload is open and cannot be counted")
			}
			return err
		case c.files > MaxFiles:
			return content.Errorf(content.Conflict, "the upload has %d files; allowed: %d", c.files-c.added, MaxFiles)
		case c.bytes > MaxBytes:
			return content.Errorf(content.Conflict, "the files of the upload have %d bytes together; allowed: %d", c.bytes, MaxBytes)
		}
	}
	return nil
}

// replace replaces a file of the upload. The file before is no longer counted.
func (c *counted) replace(ctx context.Context, tx *store.Tx, s content.Scope, added *addition) error {
	const query = "SELECT size FROM upload_file WHERE account_uid = $1 AND upload_id = $2 AND path = $3"
	var before int64
	if err := tx.QueryRowContext(ctx, query, s.Account.UID, c.id, added.path).Scan(&before); err != nil {
		return fmt.Errorf("read a file of an upload: %w", err)
	}
	const update = "UPDATE upload_file SET blob = $4, sha1 = $5, size = $6 WHERE account_uid = $1 AND upload_id = $2 AND path = $3"
	const count = "UPDATE upload SET files = files - 1, bytes = bytes - $3 WHERE account_uid = $1 AND id = $2"
	if err := tx.Batch(ctx, &store.Statement{Query: update, Args: []any{s.Account.UID, c.id, added.path, added.blob.String(), added.sha1, added.size}},
		&store.Statement{Query: count, Args: []any{s.Account.UID, c.id, before}}); err != nil {
		return fmt.Errorf("replace a file of an upload: %w", err)
	}
	c.files, c.bytes = c.files-1, c.bytes-before
	return nil
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
