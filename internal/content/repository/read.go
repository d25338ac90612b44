package repository

import (
	"bytes"
	"compress/zlib"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/modeltree"
	"github.com/quoin-dev/quoin/internal/store"
)

// maxHashes is the number of hashes of one statement.
const maxHashes = 256

// Stored is an object as it is stored. Data is the content compressed with zlib, as in a packfile.
type Stored struct {
	Hash plumbing.Hash
	Type plumbing.ObjectType
	// Size is that of the content.
	Size int64
	Data []byte
}

// keyIn is the condition that a row is one of a list. The keys are compared as wholes: with conditions
// on the UIDs, PostgreSQL underestimates the rows of a repository, and compares each with each hash.
const keyIn = "(account_uid, deployment_uid, hash) IN (%s)"

// batch returns the list of a statement with keyIn, and its arguments: the UIDs, more, and the hashes.
// The last hash is repeated up to a power of two, so that there are few different statements. The
// first row of the list, which no key equals, gives the others their types.
func batch(s content.Scope, hashes []plumbing.Hash, more ...any) (list string, args []any) {
	args = append([]any{s.Account.UID, s.Deployment.UID}, more...)
	n := 1
	for n < len(hashes) {
		n *= 2
	}
	text := &strings.Builder{}
	text.WriteString("VALUES ('', '', (SELECT hash FROM git_object WHERE 1 = 0))")
	for i := range n {
		args = append(args, hashes[min(i, len(hashes)-1)][:])
		fmt.Fprintf(text, ", ($1, $2, $%d)", len(args))
	}
	return text.String(), args
}

// queryBatches runs a query with keyIn for many hashes, and calls f with each
// row. f must not wait.
func queryBatches(ctx context.Context, q store.Querier, s content.Scope, query string, hashes []plumbing.Hash, f func(rows *sql.Rows) error) error {
	for len(hashes) > 0 {
		n := min(len(hashes), maxHashes)
		list, args := batch(s, hashes[:n])
		hashes = hashes[n:]
		rows, err := q.QueryContext(ctx, fmt.Sprintf(query, list), args...)
		if err != nil {
			return fmt.Errorf("read Git objects: %w", err)
		}
		for err == nil && rows.Next() {
			err = f(rows)
		}
		if err := errors.Join(err, rows.Err(), rows.Close()); err != nil {
			return fmt.Errorf("read Git objects: %w", err)
		}
	}
	return nil
}

// record is a row without its data.
type record struct {
	head
	createdAt int64
}

// readRecords returns the rows of those of the objects that exist.
func readRecords(ctx context.Context, q store.Querier, s content.Scope, hashes []plumbing.Hash) (map[plumbing.Hash]record, error) {
	const query = "SELECT hash, type, size, created_at FROM git_object WHERE " + keyIn
	found := make(map[plumbing.Hash]record, len(hashes))
	err := queryBatches(ctx, q, s, query, hashes, func(rows *sql.Rows) error {
		var hash []byte
		var r record
		if err := rows.Scan(&hash, &r.kind, &r.size, &r.createdAt); err != nil {
			return err
		}
		found[plumbing.Hash(hash)] = r
		return nil
	})
	return found, err
}

// readStored calls f with those of the objects that exist, in any order. f must not wait, and not keep
// the data.
func readStored(ctx context.Context, q store.Querier, s content.Scope, hashes []plumbing.Hash, f func(o Stored) error) error {
	const query = "SELECT hash, type, size, data FROM git_object WHERE " + keyIn
	return queryBatches(ctx, q, s, query, hashes, func(rows *sql.Rows) error { return scanStored(rows, f) })
}

// scanStored calls f with the object of a row.
func scanStored(rows *sql.Rows, f func(o Stored) error) error {
	var hash, data sql.RawBytes
	var o Stored
	if err := rows.Scan(&hash, &o.Type, &o.Size, &data); err != nil {
		return err
	}
	o.Hash, o.Data = plumbing.Hash(hash), data
	return f(o)
}

// readCommits calls f with the commits that were stored before and after one: objects of one change
// have the order in which it added them, so its history is on one side.
func readCommits(ctx context.Context, q store.Querier, s content.Scope, commit plumbing.Hash, f func(o Stored) error) error {
	for _, order := range []string{"<= (%s) ORDER BY created_at DESC", ">= (%s) ORDER BY created_at"} {
		at := fmt.Sprintf(order, "SELECT created_at FROM git_object WHERE account_uid = $1 AND deployment_uid = $2 AND hash = $3")
		query := "SELECT hash, type, size, data FROM git_object WHERE " + byAge + " AND type = $4 AND created_at " + at + " LIMIT $5"
		rows, err := q.QueryContext(ctx, query, s.Account.UID, s.Deployment.UID, commit[:], int64(plumbing.CommitObject), maxHashes/2)
		if err != nil {
			return fmt.Errorf("read commits: %w", err)
		}
		for err == nil && rows.Next() {
			err = scanStored(rows, f)
		}
		if err := errors.Join(err, rows.Err(), rows.Close()); err != nil {
			return fmt.Errorf("read commits: %w", err)
		}
	}
	return nil
}

// readers has *zlib.Reader: each is large.
var readers sync.Pool

// object returns the object with its content.
func (o Stored) object() (*object, error) {
	damaged := func(err error) (*object, error) { return nil, fmt.Errorf("object %s is damaged: %w", o.Hash, err) }
	if o.Size < 0 || o.Size > modeltree.MaxObjectBytes {
		return damaged(fmt.Errorf("its size is %d", o.Size))
	}
	r, err := o.reader()
	if err != nil {
		return damaged(err)
	}
	data := make([]byte, o.Size)
	if _, err := io.ReadFull(r, data); err != nil {
		return damaged(err)
	}
	// The checksum is compared at the end.
	if n, err := r.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
		return damaged(errors.Join(errors.New("it does not end where it should"), err))
	}
	readers.Put(r)
	return &object{hash: o.Hash, kind: o.Type, data: data}, nil
}

// reader returns a reader of the content.
func (o Stored) reader() (io.ReadCloser, error) {
	compressed := bytes.NewReader(o.Data)
	if r, ok := readers.Get().(io.ReadCloser); ok {
		if resetter, ok := r.(zlib.Resetter); ok {
			return r, resetter.Reset(compressed, nil)
		}
	}
	return zlib.NewReader(compressed)
}

// hashPage is the number of hashes that eachHash reads with one statement.
const hashPage = 1000

// byAge is the condition on the UIDs, as parameters $1 and $2, with which a statement uses the index of
// created_at.
const byAge = "account_uid || '/' || deployment_uid = CAST($1 AS TEXT) || '/' || CAST($2 AS TEXT)"

// eachHash calls f with the hash and type of each object that was stored at or after from and before
// until, oldest first. f must not wait.
func eachHash(ctx context.Context, q store.Querier, s content.Scope, from, until int64, f func(r modeltree.Reference)) error {
	const query = "SELECT hash, type, created_at FROM git_object WHERE " + byAge + " AND (created_at, hash) > ($3, $4) AND created_at < $5 ORDER BY created_at, hash LIMIT $6"
	for after, at := []byte{}, from; ; {
		rows, err := q.QueryContext(ctx, query, s.Account.UID, s.Deployment.UID, at, after, until, hashPage)
		if err != nil {
			return fmt.Errorf("list Git objects: %w", err)
		}
		n := 0
		for err == nil && rows.Next() {
			var r modeltree.Reference
			if err = rows.Scan(&after, &r.Type, &at); err == nil {
				r.Hash = plumbing.Hash(after)
				f(r)
			}
			n++
		}
		if err := errors.Join(err, rows.Err(), rows.Close()); err != nil {
			return fmt.Errorf("list Git objects: %w", err)
		}
		if n < hashPage {
			return nil
		}
	}
}

// readAll returns a copy of the content of an object.
func readAll(in plumbing.EncodedObject) (data []byte, err error) {
	r, err := in.Reader()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	data = make([]byte, in.Size())
	_, err = io.ReadFull(r, data)
	return data, err
}
