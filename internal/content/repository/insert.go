package repository

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/klauspost/compress/zlib"

	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/store"
)

// maxInsertBytes is the size of the objects of one INSERT, unless it has one object.
const maxInsertBytes = 4 << 20

// compressor compresses objects one after the other.
type compressor struct {
	w      *zlib.Writer
	buffer bytes.Buffer
}

// compressors has *compressor: each is large, and most changes have one object.
var compressors sync.Pool

// newCompressor returns a compressor that is fast: objects are compressed while a caller waits. The
// caller must release it.
func newCompressor() (*compressor, error) {
	if c, ok := compressors.Get().(*compressor); ok {
		return c, nil
	}
	c := &compressor{}
	w, err := zlib.NewWriterLevel(&c.buffer, zlib.BestSpeed)
	c.w = w
	return c, err
}

// maxKeptBuffer is the size of the largest buffer that a released compressor keeps.
const maxKeptBuffer = 1 << 20

// release makes the compressor available to others.
func (c *compressor) release() {
	if c.buffer.Cap() > maxKeptBuffer {
		c.buffer = bytes.Buffer{}
	}
	compressors.Put(c)
}

// bytes returns data compressed.
func (c *compressor) bytes(data []byte) ([]byte, error) {
	c.buffer.Reset()
	c.w.Reset(&c.buffer)
	if _, err := c.w.Write(data); err != nil {
		return nil, err
	}
	if err := c.w.Close(); err != nil {
		return nil, err
	}
	return bytes.Clone(c.buffer.Bytes()), nil
}

// insert inserts objects that do not exist, as many with each statement as the database likes. Each is
// a microsecond younger than the one before, which keeps their order for readCommits.
func insert(ctx context.Context, tx *store.Tx, s content.Scope, objects []Stored, now time.Time) (err error) {
	statements := map[int]*sql.Stmt{} // by the number of rows, which is a power of two
	defer func() {
		for _, statement := range statements {
			err = errors.Join(err, statement.Close())
		}
	}()
	for at := now.UnixMicro(); len(objects) > 0; {
		n := rowsOf(objects, tx.Dialect().RowsPerInsert())
		args := []any{s.Account.UID, s.Deployment.UID}
		for _, o := range objects[:n] {
			args = append(args, at, o.Hash[:], int64(o.Type), o.Size, o.Data)
			at++
		}
		statement := statements[n]
		if statement == nil && n < len(objects) {
			if statement, err = tx.PrepareContext(ctx, insertStatement(n)); err != nil {
				return fmt.Errorf("store Git objects: %w", err)
			}
			statements[n] = statement
		}
		if statement == nil { // the last one: preparing it would be two more round trips
			_, err = tx.ExecContext(ctx, insertStatement(n), args...)
		} else {
			_, err = statement.ExecContext(ctx, args...)
		}
		if err != nil {
			return fmt.Errorf("store Git objects: %w", err)
		}
		objects = objects[n:]
	}
	return nil
}

// rowsOf returns how many of the objects to insert with one statement: a power of two.
func rowsOf(objects []Stored, most int) int {
	fit, sum := 0, 0
	for _, o := range objects[:min(most, len(objects))] {
		if sum += len(o.Data); sum > maxInsertBytes && fit > 0 {
			break
		}
		fit++
	}
	n := 1
	for 2*n <= fit {
		n *= 2
	}
	return n
}

// insertStatement returns the statement that inserts a number of rows.
func insertStatement(rows int) string {
	text := &strings.Builder{}
	text.WriteString("INSERT INTO git_object (account_uid, deployment_uid, created_at, hash, type, size, data) VALUES ")
	for i := range rows {
		if i > 0 {
			text.WriteString(", ")
		}
		fmt.Fprintf(text, "($1, $2, $%d, $%d, $%d, $%d, $%d)", 5*i+3, 5*i+4, 5*i+5, 5*i+6, 5*i+7)
	}
	return text.String()
}

// refresh makes objects new for the collection.
func refresh(ctx context.Context, tx *store.Tx, s content.Scope, hashes []plumbing.Hash, now time.Time) error {
	const statement = "UPDATE git_object SET created_at = $3 WHERE " + keyIn
	for len(hashes) > 0 {
		n := min(len(hashes), maxHashes)
		list, args := batch(s, hashes[:n], now.UnixMicro())
		if _, err := tx.ExecContext(ctx, fmt.Sprintf(statement, list), args...); err != nil {
			return fmt.Errorf("refresh Git objects: %w", err)
		}
		hashes = hashes[n:]
	}
	return nil
}

// use is what a repository uses of its quota.
type use struct{ objects, bytes, branches int64 }

// lockUse returns the use of a repository, after noting that it is changed, which locks the row until
// the transaction ends: a collection waits, and then begins again.
func lockUse(ctx context.Context, tx *store.Tx, s content.Scope) (u use, err error) {
	const statement = `INSERT INTO git_repository (account_uid, deployment_uid, objects, bytes, branches, generation) VALUES ($1, $2, 0, 0, 0, 1)
		ON CONFLICT (account_uid, deployment_uid) DO UPDATE SET generation = git_repository.generation + 1 RETURNING objects, bytes, branches`
	if err := tx.QueryRowContext(ctx, statement, s.Account.UID, s.Deployment.UID).Scan(&u.objects, &u.bytes, &u.branches); err != nil {
		return u, fmt.Errorf("lock the repository: %w", err)
	}
	return u, nil
}

// save stores the use, unless it has grown beyond the quota.
func (u use) save(ctx context.Context, tx *store.Tx, s content.Scope, before use, q Quota) error {
	if u == before {
		return nil
	}
	const statement = "UPDATE git_repository SET objects = $3, bytes = $4, branches = $5 WHERE account_uid = $1 AND deployment_uid = $2"
	if _, err := tx.ExecContext(ctx, statement, s.Account.UID, s.Deployment.UID, u.objects, u.bytes, u.branches); err != nil {
		return fmt.Errorf("count Git objects: %w", err)
	}
	if u.bytes <= before.bytes {
		return u.check(before, 0, q)
	}
	var others int64
	const query = "SELECT CAST(COALESCE(SUM(bytes), 0) AS BIGINT) FROM git_repository WHERE account_uid = $1 AND deployment_uid <> $2"
	if err := tx.QueryRowContext(ctx, query, s.Account.UID, s.Deployment.UID).Scan(&others); err != nil {
		return fmt.Errorf("count the bytes of repositories: %w", err)
	}
	return u.check(before, others, q)
}

// check returns an error if the use has grown beyond the quota. others are the bytes of the other
// repositories of the account.
func (u use) check(before use, others int64, q Quota) error {
	for _, limit := range []struct {
		name               string
		before, after, max int64
	}{
		{"bytes in the repository of the deployment", before.bytes, u.bytes, q.DeploymentBytes},
		{"objects in the repository of the deployment", before.objects, u.objects, q.MaxObjects},
		{"branches in the repository of the deployment", before.branches, u.branches, int64(q.MaxBranches)},
		{"bytes in all repositories of the account", others + before.bytes, others + u.bytes, q.AccountBytes},
	} {
		if limit.after > limit.before && limit.after > limit.max {
			return exceeded(limit.name, limit.before, limit.after, limit.max)
		}
	}
	return nil
}

func exceeded(what string, before, after, allowed int64) error {
	return content.Errorf(content.Conflict, "quota exceeded: there are %d %s, and would be %d; allowed: %d", before, what, after, allowed)
}
