package dbtsync

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/repository"
	"github.com/quoin-dev/quoin/internal/store"
)

const (
	// lease is how long a replica holds a run before it has to renew.
	lease = time.Minute
	// pollInterval is the time between two looks for runs that another replica has started or left.
	pollInterval = 5 * time.Second
)

// errLost is returned when a run is no longer this worker's: it was cancelled, or another worker has it.
var errLost = errors.New("the sync was cancelled or taken over")

// Worker works on the syncs of all deployments, one at a time. Any number of replicas may have one.
type Worker struct {
	Store *store.Store
	// Repositories are written to without a request, so their Record must not need one.
	Repositories *repository.Repositories
	// Open returns a session on the repository with the data model of a deployment, which is brought up to
	// date if it is the mirror of a remote, and the branch that production serves. When nil, it is the
	// repository that Quoin keeps, of any branches.
	Open func(ctx context.Context, s content.Scope) (session *repository.Session, production string, err error)
	// Record stores an event of a run without a request.
	Record content.Record
	// Moved is called after a branch has moved. It triggers an immediate fetch.
	Moved func(ctx context.Context, s content.Scope) error
	// Ended is called after the end of a sync; it may be nil.
	Ended func()
	Log   *slog.Logger
	// Now is the clock; time.Now if nil.
	Now func() time.Time

	owner string
	// served is the UID of the account whose sync was claimed last.
	served string
	// interrupt is called at each step of a run, by tests.
	interrupt func(step string) error
}

// session returns a session on the repository of a deployment, and the branch that production serves.
func (w *Worker) session(ctx context.Context, s content.Scope) (session *repository.Session, production string, err error) {
	if w.Open == nil {
		return w.Repositories.Session(ctx, s), "", nil
	}
	return w.Open(ctx, s)
}

func (w *Worker) now() time.Time {
	now := time.Now
	if w.Now != nil {
		now = w.Now
	}
	return now().UTC().Truncate(time.Microsecond)
}

// Run works on syncs until the context ends. A value of wake causes a look for new ones at once.
func (w *Worker) Run(ctx context.Context, wake <-chan struct{}) error {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		for more := true; more && ctx.Err() == nil; {
			var err error
			if more, err = w.Step(ctx); err != nil && ctx.Err() == nil {
				w.Log.Warn("A dbt sync could not be worked on; it is retried", "cause", err.Error())
				more = false
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-wake:
		case <-ticker.C:
		}
	}
}

// Step works on the oldest sync, of the account whose turn it is, that no replica holds. It reports whether there was one. A failure of a
// sync is not an error.
func (w *Worker) Step(ctx context.Context) (bool, error) {
	if w.owner == "" {
		w.owner = uuid.NewString()
	}
	r, err := w.claim(ctx)
	if r == nil || err != nil {
		return false, err
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	defer func() {
		cancel()
		<-ended
	}()
	go func() {
		defer close(ended)
		w.keep(ctx, cancel, r)
	}()
	err = r.work(ctx)
	if err == nil {
		observe(&r.Sync, w.now())
	}
	if w.Ended != nil {
		w.Ended()
	}
	if errors.Is(err, errLost) {
		w.Log.Info("A dbt sync was cancelled or taken over", "deployment", r.scope.Deployment.Name, "sync", r.ID)
		return true, nil
	}
	return true, err
}

// run is a sync that a worker holds.
type run struct {
	Sync
	worker *Worker
	scope  content.Scope
	in     New
	tries  int
	log    []Entry
}

// claim takes a sync that no replica holds; nil if there is none. Accounts have turns, in the order of their UIDs, so
// that an account with many syncs delays each of another one by one sync. Of an account, it takes the oldest.
func (w *Worker) claim(ctx context.Context) (*run, error) {
	var claimed *run
	err := w.Store.Tx(ctx, func(tx *store.Tx) error {
		claimed = nil
		now := w.now()
		statement := `UPDATE dbt_sync SET lease_owner = $1, lease_until = $2, tries = tries + 1 WHERE (account_uid, id) IN (
				SELECT account_uid, id FROM dbt_sync WHERE status = 'RUNNING' AND lease_until <= $3 ORDER BY CASE WHEN account_uid > $4 THEN 0 ELSE 1 END, account_uid, lease_until, id LIMIT 1` + tx.Dialect().ForUpdateSkipLocked() + `)
			RETURNING account_uid, deployment_uid, deployment_number, base_branch, root, catalog, author_name, author_email, tries, options, ` + syncColumns
		r := &run{worker: w}
		var options string
		// The columns before those of scan.
		row := tx.QueryRowContext(ctx, statement, w.owner, now.Add(lease).UnixMicro(), now.UnixMicro(), w.served)
		err := scanAfter(row, &r.Sync, &r.scope.Account.UID, &r.scope.Deployment.UID, &r.in.DeploymentNumber, &r.in.Base, &r.in.Root, &r.in.Catalog, &r.in.AuthorName, &r.in.AuthorEmail, &r.tries, &options)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err == nil {
			err = json.Unmarshal([]byte(options), &r.in.Options)
		}
		if err != nil {
			return fmt.Errorf("claim a sync: %w", err)
		}
		const names = `SELECT a.name, d.namespace, d.name FROM account a JOIN deployment d ON d.account_uid = a.uid WHERE a.uid = $1 AND d.uid = $2`
		err = tx.QueryRowContext(ctx, names, r.scope.Account.UID, r.scope.Deployment.UID).Scan(&r.scope.Account.Name, &r.scope.Deployment.Namespace, &r.scope.Deployment.Name)
		if err != nil {
			return fmt.Errorf("read the names of a deployment: %w", err)
		}
		claimed = r
		return nil
	})
	if claimed != nil {
		w.served = claimed.scope.Account.UID
	}
	return claimed, err
}

// before scans columns before those of scan.
type before struct {
	row  interface{ Scan(into ...any) error }
	into []any
}

// Scan implements the row of scan.
func (b before) Scan(into ...any) error { return b.row.Scan(append(b.into, into...)...) }

func scanAfter(row interface{ Scan(into ...any) error }, s *Sync, first ...any) error {
	return scan(before{row, first}, s)
}

// keep renews the lease of a run until its context ends, and ends the context if the run is lost.
func (w *Worker) keep(ctx context.Context, cancel context.CancelFunc, r *run) {
	ticker := time.NewTicker(lease / 3)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		err := w.Store.Tx(ctx, func(tx *store.Tx) error { return r.renew(ctx, tx) })
		if errors.Is(err, errLost) {
			cancel()
			return
		}
	}
}

// renew renews the lease, and checks that the run is this worker's.
func (r *run) renew(ctx context.Context, tx *store.Tx) error {
	const statement = `UPDATE dbt_sync SET lease_until = $4 WHERE account_uid = $1 AND id = $2 AND status = 'RUNNING' AND lease_owner = $3`
	result, err := tx.ExecContext(ctx, statement, r.scope.Account.UID, r.Number, r.worker.owner, r.worker.now().Add(lease).UnixMicro())
	return r.own(result, err)
}

// own returns errLost if a statement on the run has changed nothing.
func (r *run) own(result sql.Result, err error) error {
	if err != nil {
		return fmt.Errorf("update a sync: %w", err)
	}
	if changed, err := result.RowsAffected(); err != nil || changed != 1 {
		return errors.Join(err, errLost)
	}
	return nil
}
