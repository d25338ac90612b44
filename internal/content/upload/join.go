package upload

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/repository"
	"github.com/quoin-dev/quoin/internal/store"
)

const (
	// maxJoined and maxJoinedBytes bound the files that one transaction adds.
	maxJoined      = 64
	maxJoinedBytes = 16 << 20
	// addTimeout bounds a transaction that adds files.
	addTimeout = time.Minute
)

// errNotAdded is returned for files whose transaction has panicked.
var errNotAdded = errors.New("the file was not added")

// addition is a file that waits to be added.
type addition struct {
	by, id string
	file
	data []byte
	done chan error
}

// upload returns what names the upload, and its creator.
func (a *addition) upload() uploadKey { return uploadKey{a.by, a.id} }

type uploadKey struct{ by, id string }

// additions are the files that wait, by deployment. Concurrent requests of a deployment would wait for
// each other's transactions, so while one runs, those that come are collected for the next one. It is
// safe for concurrent use.
type additions struct {
	mu sync.Mutex
	// waiting has an entry for each deployment whose files are being added.
	waiting map[content.Scope][]*addition // guarded by mu
}

// add adds a file, and reports whether the caller must start the worker of the deployment.
func (q *additions) add(s content.Scope, a *addition) (start bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.waiting == nil {
		q.waiting = map[content.Scope][]*addition{}
	}
	_, runs := q.waiting[s]
	q.waiting[s] = append(q.waiting[s], a)
	return !runs
}

// take returns the files of the next transaction of a deployment; none if its worker ends.
func (q *additions) take(s content.Scope) []*addition {
	q.mu.Lock()
	defer q.mu.Unlock()
	all := q.waiting[s]
	n, bytes := 0, 0
	for n < len(all) && n < maxJoined && (n == 0 || bytes+len(all[n].data) <= maxJoinedBytes) {
		bytes += len(all[n].data)
		n++
	}
	if n == 0 {
		delete(q.waiting, s)
		return nil
	}
	q.waiting[s] = all[n:]
	return all[:n:n]
}

// withdraw removes a file that waits. It reports false for one that is being added, or was.
func (q *additions) withdraw(s content.Scope, a *addition) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	i := slices.Index(q.waiting[s], a)
	if i < 0 {
		return false
	}
	q.waiting[s] = slices.Delete(slices.Clone(q.waiting[s]), i, i+1) // take has returned a part of the same array
	return true
}

// work adds the files of a deployment: the first ones itself, because it takes longer to wake another goroutine, and
// then those that came meanwhile in the background, until none wait. It does not end with the request that calls it,
// because it adds the files of others.
func (u *Uploads) work(ctx context.Context, s content.Scope, to *repository.Repositories) {
	ctx = context.WithoutCancel(ctx)
	defer func() { // after a panic too, which the server recovers from
		if all := u.additions.take(s); len(all) > 0 {
			go u.workOn(ctx, s, all, to)
		}
	}()
	u.addNext(ctx, s, u.additions.take(s), to)
}

// workOn adds the given files of a deployment, and then others until none wait.
func (u *Uploads) workOn(ctx context.Context, s content.Scope, all []*addition, to *repository.Repositories) {
	for ; len(all) > 0; all = u.additions.take(s) {
		u.addNext(ctx, s, all, to)
	}
}

// addNext adds files, and tells each request the outcome.
func (u *Uploads) addNext(ctx context.Context, s content.Scope, all []*addition, to *repository.Repositories) {
	defer func() { // after a panic: no request must wait forever
		for _, a := range all {
			select {
			case a.done <- errNotAdded:
			default:
			}
		}
	}()
	err := u.addTogether(ctx, s, all, to)
	var rejected *content.Error
	for _, a := range all {
		if errors.As(err, &rejected) && len(all) > 1 { // because of one of them
			a.done <- u.addTogether(ctx, s, []*addition{a}, to)
			continue
		}
		a.done <- err
	}
}

// addTogether adds files in one transaction.
func (u *Uploads) addTogether(ctx context.Context, s content.Scope, all []*addition, to *repository.Repositories) error {
	ctx, cancel := context.WithTimeout(ctx, addTimeout)
	defer cancel()
	blobs := make([]repository.Stored, len(all))
	for i, a := range all {
		var err error
		if blobs[i], err = repository.NewBlob(a.data); err != nil {
			return err
		}
		a.blob = blobs[i].Hash
	}
	// Finishing waits for the disk, and checks that all files are there (decision 0053).
	return u.DB.TxAsync(ctx, func(tx *store.Tx) error {
		if len(all) == 1 && tx.Dialect() == store.PostgreSQL {
			if done, err := to.StoreBlobAlone(ctx, tx, s, blobs[0], u.alone(all[0])); done || err != nil {
				return err
			}
		}
		counts, inserts := u.insertions(s, all)
		more := make([]*store.Statement, 0, len(counts)+len(inserts))
		for _, c := range counts {
			more = append(more, c.statement)
		}
		return to.StoreBlobs(ctx, tx, s, blobs, append(more, inserts...), func() error {
			for i, insert := range inserts {
				if insert.Rows > 0 || counts[all[i].upload()].statement.Rows == 0 {
					continue
				}
				if err := counts[all[i].upload()].replace(ctx, tx, s, all[i]); err != nil {
					return err
				}
			}
			return u.checkCounts(ctx, tx, s, counts)
		})
	})
}
