// Package upload has the uploads of data models: a transaction that is started, takes files one by one,
// and is finished with the list of the files that the model consists of. Finishing makes one commit.
//
//	upload.go      the model, its limits, starting
//	files.go       adding a file
//	join.go        files of concurrent requests are added together
//	finish.go      finishing
//	hashes.go      the SHA-1 of files, which clients compare
//	expiry.go      deletion of expired rows
//	migrations/    the tables
//
// The content of files is stored as objects of the deployment's repository, which keeps objects that
// nothing refers to for longer than an upload is valid. An upload is not bound to a process: any replica
// continues it.
package upload

import (
	"context"
	"crypto/rand"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/modeltree"
	"github.com/quoin-dev/quoin/internal/store"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Owner has the tables of uploads.
var Owner = store.Owner{Name: "upload", Migrations: migrations, Tables: []string{"upload", "upload_file", "upload_last", "upload_hash"}, Purge: purge}

// purge is Owner.Purge.
var purge = store.PurgeInOrder(
	store.PurgeTable("upload_file", "account_uid, upload_id, path"),
	store.PurgeTable("upload_hash", "account_uid, deployment_uid, blob"),
	store.PurgeTable("upload_last", "account_uid, deployment_uid"),
	store.PurgeTable("upload", "account_uid, id"),
)

// Limits of uploads.
const (
	// Lifetime is how long an upload can be continued, and finishing repeated. It is shorter than the
	// time for which a repository keeps objects that nothing refers to.
	Lifetime = 24 * time.Hour
	// MaxFiles is the maximum number of files of an upload, and of those that it is finished with.
	MaxFiles = modeltree.MaxFiles
	// MaxFileBytes is the maximum size of a file.
	MaxFileBytes = 8 << 20
	// MaxBytes is the maximum size of all files of an upload.
	MaxBytes = modeltree.MaxBytes
	// MaxOpen is the maximum number of open uploads of a deployment.
	MaxOpen = 100
	// MaxOpenOfCreator is the number of open uploads of a principal in a deployment: the oldest one is
	// abandoned when a further one starts.
	MaxOpenOfCreator = 20
)

// Uploads are the uploads of all deployments.
type Uploads struct {
	DB     content.Database
	Record content.Record
	// Now is the clock; time.Now if nil.
	Now func() time.Time

	known     hashCache
	additions additions
}

func (u *Uploads) now() time.Time {
	now := time.Now
	if u.Now != nil {
		now = u.Now
	}
	return now().UTC().Truncate(time.Microsecond)
}

// Start starts an upload to a branch on behalf of a principal, and returns its id.
func (u *Uploads) Start(ctx context.Context, s content.Scope, by, branch string) (string, error) {
	return u.start(ctx, s, by, branch, rand.Text())
}

// livePrefix begins the ids of live previews.
const livePrefix = "live-"

// StartLive is Start for a live preview, which is not an upload of the deployment for Last.
func (u *Uploads) StartLive(ctx context.Context, s content.Scope, by, branch string) (string, error) {
	return u.start(ctx, s, by, branch, livePrefix+rand.Text())
}

// IsLive reports whether the id of an upload is that of a live preview.
func IsLive(id string) bool { return strings.HasPrefix(id, livePrefix) }

func (u *Uploads) start(ctx context.Context, s content.Scope, by, branch, id string) (string, error) {
	now := u.now()
	err := u.DB.Tx(ctx, func(tx *store.Tx) error {
		if err := tx.LockDeployment(ctx, s.Account, s.Deployment); err != nil {
			return err
		}
		if err := makeRoom(ctx, tx, s, by, now); err != nil {
			return err
		}
		const insert = `INSERT INTO upload (account_uid, deployment_uid, id, branch, created_at, created_by, expires_at, files, bytes, finished_at, request, last_hash, announced)
			VALUES ($1, $2, $3, $4, $5, $6, $7, 0, 0, 0, '', '', 0)`
		if _, err := tx.ExecContext(ctx, insert, s.Account.UID, s.Deployment.UID, id, branch, now.UnixMicro(), by, now.Add(Lifetime).UnixMicro()); err != nil {
			return fmt.Errorf("start an upload: %w", err)
		}
		return u.Record(ctx, tx, audit.Event{Name: audit.StartedUploadingFiles, Object: audit.Object{Kind: "Branch", Name: branch}})
	})
	if err != nil {
		return "", err
	}
	return id, nil
}

// makeRoom abandons the oldest open upload of a principal that has too many. It returns an error if the
// deployment has too many.
func makeRoom(ctx context.Context, tx *store.Tx, s content.Scope, by string, now time.Time) error {
	const abandon = `UPDATE upload SET expires_at = $5 WHERE account_uid = $1 AND id IN (
		SELECT id FROM upload WHERE deployment_uid = $2 AND account_uid = $1 AND finished_at = 0 AND created_by = $3 AND expires_at > $5
		ORDER BY created_at DESC, id LIMIT $6 OFFSET $4)`
	if _, err := tx.ExecContext(ctx, abandon, s.Account.UID, s.Deployment.UID, by, MaxOpenOfCreator-1, now.UnixMicro(), MaxOpen); err != nil {
		return fmt.Errorf("abandon the oldest upload: %w", err)
	}
	const count = "SELECT COUNT(*) FROM upload WHERE deployment_uid = $1 AND account_uid = $2 AND finished_at = 0 AND expires_at > $3"
	var open int
	if err := tx.QueryRowContext(ctx, count, s.Deployment.UID, s.Account.UID, now.UnixMicro()).Scan(&open); err != nil {
		return fmt.Errorf("count open uploads: %w", err)
	}
	if open >= MaxOpen {
		return content.Errorf(content.Conflict, "the deployment has %d open uploads; allowed: %d: finish one, or wait until one has expired", open, MaxOpen)
	}
	return nil
}

// row is an upload as it is stored.
type row struct {
	id, branch, request, lastHash string
	files, bytes                  int64
	finished, announced           bool
}

// get returns an upload of a principal that is not expired.
func (u *Uploads) get(ctx context.Context, q store.Querier, s content.Scope, by, id string) (*row, error) {
	const query = `SELECT id, branch, request, last_hash, files, bytes, finished_at > 0, announced > 0 FROM upload
		WHERE account_uid = $1 AND deployment_uid = $2 AND id = $3 AND created_by = $4 AND expires_at > $5`
	r := &row{}
	err := q.QueryRowContext(ctx, query, s.Account.UID, s.Deployment.UID, id, by, u.now().UnixMicro()).
		Scan(&r.id, &r.branch, &r.request, &r.lastHash, &r.files, &r.bytes, &r.finished, &r.announced)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, content.Errorf(content.NotFound, "transaction: the upload does not exist: it has expired, or was started for another deployment or by another caller; start a new one")
	}
	if err != nil {
		return nil, fmt.Errorf("read an upload: %w", err)
	}
	return r, nil
}

// open is get for an upload that is not finished.
func (u *Uploads) open(ctx context.Context, q store.Querier, s content.Scope, by, id string) (*row, error) {
	r, err := u.get(ctx, q, s, by, id)
	if err == nil && r.finished {
		return nil, content.Errorf(content.Conflict, "transaction: the upload is finished; start a new one")
	}
	return r, err
}

// Branch returns the branch of an upload.
func (u *Uploads) Branch(ctx context.Context, s content.Scope, by, id string) (branch string, err error) {
	err = u.DB.Read(ctx, func(q store.Querier) error {
		r, err := u.get(ctx, q, s, by, id)
		if err == nil {
			branch = r.branch
		}
		return err
	})
	return branch, err
}
