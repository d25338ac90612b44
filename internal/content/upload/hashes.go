package upload

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/storer"

	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/modeltree"
	"github.com/quoin-dev/quoin/internal/store"
)

const (
	// hashesPerQuery is the number of hashes that one statement reads.
	hashesPerQuery = 500
	// contentsPerRead is the number of contents that are read at once to compute their hashes.
	contentsPerRead = 64
	// maxKnown bounds the memory of hashCache: about 15 MB.
	maxKnown = 100_000
)

// hashCache has the SHA-1 of the contents of blobs. Both follow from the content, so that an entry never
// changes and is the same for all tenants. It is safe for concurrent use.
type hashCache struct {
	mu    sync.RWMutex
	known map[plumbing.Hash][20]byte
}

// get adds the known hashes of blobs to a map, and returns the blobs whose hashes are not known.
func (c *hashCache) get(blobs []plumbing.Hash, into map[plumbing.Hash]string) (missing []plumbing.Hash) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, blob := range blobs {
		if sum, known := c.known[blob]; known {
			into[blob] = plumbing.Hash(sum).String()
			continue
		}
		missing = append(missing, blob)
	}
	return missing
}

func (c *hashCache) put(blob plumbing.Hash, sha1 string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil || len(c.known) >= maxKnown {
		c.known = map[plumbing.Hash][20]byte{}
	}
	c.known[blob] = [20]byte(plumbing.NewHash(sha1))
}

// Hashes returns the SHA-1 of the contents of files, by path. Symbolic links and submodules are left
// out. Contents are read only for files whose hashes are not stored yet.
func (u *Uploads) Hashes(ctx context.Context, s content.Scope, objects storer.EncodedObjectStorer, files []modeltree.File) (map[string]string, error) {
	hashes := make(map[plumbing.Hash]string, len(files))
	var blobs []plumbing.Hash
	for _, f := range files {
		if IsContent(f) {
			blobs = append(blobs, f.Hash)
		}
	}
	missing := u.known.get(blobs, hashes)
	missing, err := u.readHashes(ctx, s, missing, hashes)
	if err != nil {
		return nil, err
	}
	if err := u.computeHashes(ctx, s, objects, missing, hashes); err != nil {
		return nil, err
	}
	all := make(map[string]string, len(blobs))
	for _, f := range files {
		if sha1, ok := hashes[f.Hash]; ok && IsContent(f) {
			all[f.Path] = sha1
		}
	}
	return all, nil
}

// IsContent reports whether a file has content that clients read and write: it is no symbolic link and
// no submodule.
func IsContent(f modeltree.File) bool {
	return f.Mode != filemode.Symlink && f.Mode != filemode.Submodule
}

// readHashes adds the stored hashes of blobs to a map, and returns the blobs that have none.
func (u *Uploads) readHashes(ctx context.Context, s content.Scope, blobs []plumbing.Hash, into map[plumbing.Hash]string) (missing []plumbing.Hash, err error) {
	for from := 0; from < len(blobs); from += hashesPerQuery {
		part := blobs[from:min(len(blobs), from+hashesPerQuery)]
		args, parameters := []any{s.Account.UID, s.Deployment.UID}, make([]string, len(part))
		for i, blob := range part {
			args = append(args, blob.String())
			parameters[i] = fmt.Sprintf("$%d", len(args))
		}
		query := "SELECT blob, sha1 FROM upload_hash WHERE account_uid = $1 AND deployment_uid = $2 AND blob IN (" + strings.Join(parameters, ", ") + ")"
		err := u.DB.Read(ctx, func(q store.Querier) error {
			rows, err := q.QueryContext(ctx, query, args...)
			if err != nil {
				return fmt.Errorf("read hashes of files: %w", err)
			}
			defer func() { _ = rows.Close() }()
			for rows.Next() {
				var blob, sha1 string
				if err := rows.Scan(&blob, &sha1); err != nil {
					return fmt.Errorf("read hashes of files: %w", err)
				}
				into[plumbing.NewHash(blob)] = sha1
				u.known.put(plumbing.NewHash(blob), sha1)
			}
			return rows.Err()
		})
		if err != nil {
			return nil, err
		}
	}
	for _, blob := range blobs {
		if _, found := into[blob]; !found {
			missing = append(missing, blob)
		}
	}
	return missing, nil
}

// prefetcher is implemented by storers that read many objects in one request.
type prefetcher interface {
	Prefetch(hashes []plumbing.Hash) error
}

// computeHashes reads blobs, adds the hashes of their contents to a map, and stores them.
func (u *Uploads) computeHashes(ctx context.Context, s content.Scope, objects storer.EncodedObjectStorer, blobs []plumbing.Hash, into map[plumbing.Hash]string) error {
	for from := 0; from < len(blobs); from += contentsPerRead {
		part := blobs[from:min(len(blobs), from+contentsPerRead)]
		if p, ok := objects.(prefetcher); ok {
			if err := p.Prefetch(part); err != nil {
				return err
			}
		}
		for _, blob := range part {
			data, err := modeltree.Content(objects, blob)
			if err != nil {
				return err
			}
			into[blob] = sha1Of(data)
		}
		err := u.DB.Tx(ctx, func(tx *store.Tx) error {
			if err := tx.LockDeployment(ctx, s.Account, s.Deployment); err != nil {
				return err
			}
			return u.storeHashes(ctx, tx, s, part, into)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// storeHashes stores the hashes of the contents of blobs.
func (u *Uploads) storeHashes(ctx context.Context, tx *store.Tx, s content.Scope, blobs []plumbing.Hash, hashes map[plumbing.Hash]string) error {
	args, rows := []any{s.Account.UID, s.Deployment.UID, u.now().UnixMicro()}, make([]string, len(blobs))
	for i, blob := range blobs {
		args = append(args, blob.String(), hashes[blob])
		rows[i] = fmt.Sprintf("($1, $2, $%d, $%d, $3)", len(args)-1, len(args))
	}
	insert := "INSERT INTO upload_hash (account_uid, deployment_uid, blob, sha1, created_at) VALUES " + strings.Join(rows, ", ") + " ON CONFLICT (account_uid, deployment_uid, blob) DO NOTHING"
	if _, err := tx.ExecContext(ctx, insert, args...); err != nil {
		return fmt.Errorf("store the hashes of files: %w", err)
	}
	for _, blob := range blobs {
		u.known.put(blob, hashes[blob])
	}
	return nil
}

// keepHashes stores the hashes of the files of an upload.
func keepHashes(ctx context.Context, tx *store.Tx, s content.Scope, id string, now int64) error {
	const insert = `INSERT INTO upload_hash (account_uid, deployment_uid, blob, sha1, created_at)
		SELECT account_uid, deployment_uid, blob, sha1, CAST($4 AS BIGINT) FROM upload_file WHERE account_uid = $1 AND deployment_uid = $2 AND upload_id = $3
		ON CONFLICT (account_uid, deployment_uid, blob) DO NOTHING`
	if _, err := tx.ExecContext(ctx, insert, s.Account.UID, s.Deployment.UID, id, now); err != nil {
		return fmt.Errorf("store the hashes of files: %w", err)
	}
	return nil
}
