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
	return after.check(before, others, r.Quota.withDefaults())
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
