package repository

import (
	"context"
	"fmt"
	"time"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/modeltree"
	"github.com/quoin-dev/quoin/internal/store"
)

// NewBlob returns a blob to store.
func NewBlob(data []byte) (Stored, error) {
	if len(data) > modeltree.MaxObjectBytes {
		return Stored{}, content.Errorf(content.Invalid, "the file has %d bytes; allowed: %d", len(data), modeltree.MaxObjectBytes)
	}
	compress, err := newCompressor()
	if err != nil {
		return Stored{}, fmt.Errorf("compress a Git object: %w", err)
	}
	defer compress.release()
	compressed, err := compress.bytes(data)
	if err != nil {
		return Stored{}, fmt.Errorf("compress a Git object: %w", err)
	}
	return Stored{plumbing.ComputeHash(plumbing.BlobObject, data), plumbing.BlobObject, int64(len(data)), compressed}, nil
}

// StoreBlobs stores blobs, which refer to nothing, in a transaction of the caller: a Session.Save of little
// cost. It locks the deployment and runs more statements of the caller in the same batch, and then check,
// whose error it returns.
func (r *Repositories) StoreBlobs(ctx context.Context, tx *store.Tx, s content.Scope, blobs []Stored, more []*store.Statement, check func() error) error {
	now, added := r.now(), use{}
	inserts := make([]*store.Statement, len(blobs))
	for i, b := range blobs {
		added.objects, added.bytes = added.objects+1, added.bytes+int64(len(b.Data))
		inserts[i] = &store.Statement{Query: insertStatement(1) + " ON CONFLICT DO NOTHING",
			Args: []any{s.Account.UID, s.Deployment.UID, now.UnixMicro() + int64(i), b.Hash[:], int64(b.Type), b.Size, b.Data}}
	}
	var after use
	var others int64
	batch := append(store.LockDeployment(s.Account, s.Deployment), addUse(s, added, &after, &others))
	batch = append(append(batch, inserts...), more...)
	if err := tx.Batch(ctx, batch...); err != nil {
		return fmt.Errorf("store Git objects: %w", err)
	}
	if err := check(); err != nil {
		return err
	}
	var existing []Stored
	for i, insert := range inserts {
		if insert.Rows == 0 {
			existing = append(existing, blobs[i])
		}
	}
	before := use{after.objects - added.objects, after.bytes - added.bytes, after.branches}
	if len(existing) > 0 {
		var err error
		if after, err = keep(ctx, tx, s, existing, now); err != nil {
			return err
		}
	}
	tx.AfterCommit(func() { r.know(s, blobs...) })
	return after.check(before, others, r.Quota.withDefaults())
}

// Addition is what a caller of StoreBlobAlone changes together with the blob, if the condition is met. Its SQL has $1
// for the account, $2 for the deployment, $6 for the size of the blob, and Args from $12.
type Addition struct {
	// Condition is a boolean expression.
	Condition string
	// Insert is a statement that returns nothing, and Update one that changes one row. Both change something for
	// each row of the table room, which has one or none.
	Insert, Update string
	Args           []any
}

// StoreBlobAlone is StoreBlobs for one blob, with PostgreSQL and in one round trip: a transaction of its own, before
// the first statement of tx. If the blob or the repository are not new, a limit is reached or the condition is not met,
// it changes nothing and returns false; StoreBlobs finds out why.
func (r *Repositories) StoreBlobAlone(ctx context.Context, tx *store.Tx, s content.Scope, b Stored, more Addition) (done bool, err error) {
	const room = `WITH room AS (SELECT 1 FROM git_repository WHERE account_uid = $1 AND deployment_uid = $2
			AND objects + 1 <= $9 AND bytes + $8 <= $10
			AND (SELECT SUM(bytes) FROM git_repository WHERE account_uid = $1) + CAST($8 AS BIGINT) <= $11
			AND NOT EXISTS (SELECT 1 FROM git_object WHERE account_uid = $1 AND deployment_uid = $2 AND hash = $4)
			AND `
	const inserts = `), object AS (INSERT INTO git_object (account_uid, deployment_uid, created_at, hash, type, size, data)
			SELECT $1, $2, $3, $4, $5, $6, $7 FROM room),
		used AS (UPDATE git_repository SET objects = objects + 1, bytes = bytes + $8, generation = generation + 1
			FROM room WHERE account_uid = $1 AND deployment_uid = $2),
		inserted AS (`
	quota := r.Quota.withDefaults()
	args := []any{s.Account.UID, s.Deployment.UID, r.now().UnixMicro(), b.Hash[:], int64(b.Type), b.Size, b.Data,
		int64(len(b.Data)), quota.MaxObjects, quota.DeploymentBytes, quota.AccountBytes}
	statement := &store.Statement{Query: room + more.Condition + inserts + more.Insert + ") " + more.Update, Args: append(args, more.Args...)}
	if err := tx.Alone(ctx, s.Account, statement); err != nil {
		return false, fmt.Errorf("store a Git object: %w", err)
	}
	if done = statement.Rows > 0; done {
		r.know(s, b)
	}
	return done, nil
}

// know keeps what is asked first of blobs that are stored: whether they exist.
func (r *Repositories) know(s content.Scope, blobs ...Stored) {
	for _, b := range blobs {
		r.cache.addHead(keyOf(s, b.Hash), head{b.Type, b.Size})
	}
}

// addUse returns the statement that adds objects to the use of a repository before they are stored, which
// locks the row as lockUse does. It sets the use, and the bytes of the other repositories of the account.
func addUse(s content.Scope, added use, after *use, others *int64) *store.Statement {
	const statement = `INSERT INTO git_repository (account_uid, deployment_uid, objects, bytes, branches, generation) VALUES ($1, $2, $3, $4, 0, 1)
		ON CONFLICT (account_uid, deployment_uid) DO UPDATE SET objects = git_repository.objects + excluded.objects,
			bytes = git_repository.bytes + excluded.bytes, generation = git_repository.generation + 1
		RETURNING objects, bytes, branches,
			(SELECT CAST(COALESCE(SUM(other.bytes), 0) AS BIGINT) FROM git_repository AS other WHERE other.account_uid = $1 AND other.deployment_uid <> $2)`
	return &store.Statement{Query: statement, Args: []any{s.Account.UID, s.Deployment.UID, added.objects, added.bytes},
		Into: []any{&after.objects, &after.bytes, &after.branches, others}}
}

// keep takes blobs that were stored before off the use of the repository, and makes them new for the
// collection. It returns the use.
func keep(ctx context.Context, tx *store.Tx, s content.Scope, blobs []Stored, now time.Time) (after use, err error) {
	const count = `UPDATE git_repository SET objects = objects - $3, bytes = bytes - $4 WHERE account_uid = $1 AND deployment_uid = $2 RETURNING objects, bytes, branches`
	const refresh = "UPDATE git_object SET created_at = $4 WHERE account_uid = $1 AND deployment_uid = $2 AND hash = $3 AND created_at < $5"
	batch, bytes := make([]*store.Statement, len(blobs)), int64(0)
	for i, b := range blobs {
		bytes += int64(len(b.Data))
		batch[i] = &store.Statement{Query: refresh, Args: []any{s.Account.UID, s.Deployment.UID, b.Hash[:], now.UnixMicro(), now.Add(-refreshAfter).UnixMicro()}}
	}
	batch = append(batch, &store.Statement{Query: count, Args: []any{s.Account.UID, s.Deployment.UID, len(blobs), bytes}, Into: []any{&after.objects, &after.bytes, &after.branches}})
	if err := tx.Batch(ctx, batch...); err != nil {
		return after, fmt.Errorf("refresh Git objects: %w", err)
	}
	return after, nil
}
