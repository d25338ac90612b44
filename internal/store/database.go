package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// openRetry is the time between two attempts to open a database.
const openRetry = 3 * time.Second

// Database is a store that is opened in the background: a server can start, and answer what needs
// no database, while the database is away. Until it is open, Tx and Read return ErrUnavailable.
type Database struct {
	url    string
	log    *slog.Logger
	owners []Owner
	jobs   []func(ctx context.Context, s *Store) error
	// needed are the jobs that others need.
	needed []func(ctx context.Context, s *Store) error
	opened atomic.Pointer[Store]
}

// NewDatabase returns the database at a URL, with the tables of the owners. Run opens it.
func NewDatabase(url string, log *slog.Logger, owners ...Owner) *Database {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Database{url: url, log: log, owners: owners}
}

// WhileOpen registers a job, before Run is called. It runs from when the store is open until its
// context ends; then the store is closed. If a job returns earlier with an error, all end, and the
// store is opened again.
func (d *Database) WhileOpen(job func(ctx context.Context, s *Store) error) {
	d.jobs = append(d.jobs, job)
}

// WhileUsed registers a job that those of WhileOpen need, such as the log in which they record what they do: its
// context ends when they have ended.
func (d *Database) WhileUsed(job func(ctx context.Context, s *Store) error) {
	d.needed = append(d.needed, job)
}

// Run opens the database and keeps it open until the context ends. It retries until that succeeds,
// and returns an error only if waiting cannot help: ErrNewer.
func (d *Database) Run(ctx context.Context) error {
	for {
		err := d.serve(ctx)
		if err == nil || ctx.Err() != nil || errors.Is(err, ErrNewer) {
			return err
		}
		d.log.Error("Cannot open the database; requests that need it fail until it is open", "err", err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(openRetry):
		}
	}
}

// serve opens the store, runs the jobs, and closes the store.
func (d *Database) serve(ctx context.Context) error {
	s, err := Open(ctx, d.url, d.log, d.owners...)
	if err != nil {
		return err
	}
	d.opened.Store(s)
	used, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	needed, neededCtx := errgroup.WithContext(used)
	for _, job := range d.needed {
		needed.Go(func() error { return job(neededCtx, s) })
	}
	group, groupCtx := errgroup.WithContext(ctx)
	for _, job := range d.jobs {
		group.Go(func() error { return job(groupCtx, s) })
	}
	group.Go(func() error { // with no jobs too
		select {
		case <-groupCtx.Done():
			return nil
		case <-neededCtx.Done(): // one of them has failed
			return context.Cause(neededCtx)
		}
	})
	err = group.Wait()
	end()
	err = cmp.Or(err, needed.Wait())
	d.opened.Store(nil)
	return errors.Join(err, s.Close())
}

// Tx is Store.Tx.
func (d *Database) Tx(ctx context.Context, work func(tx *Tx) error) error {
	return d.with(ctx, func(s *Store) error { return s.Tx(ctx, work) })
}

// TxAsync is Store.TxAsync.
func (d *Database) TxAsync(ctx context.Context, work func(tx *Tx) error) error {
	return d.with(ctx, func(s *Store) error { return s.TxAsync(ctx, work) })
}

// Read is Store.Read.
func (d *Database) Read(ctx context.Context, work func(q Querier) error) error {
	return d.with(ctx, func(s *Store) error { return s.Read(ctx, work) })
}

func (d *Database) with(ctx context.Context, work func(*Store) error) error {
	s := d.opened.Load()
	if s == nil {
		return fmt.Errorf("%w: it is not open", ErrUnavailable)
	}
	err := work(s)
	if err != nil && ctx.Err() == nil && d.opened.Load() != s && !errors.Is(err, ErrUnavailable) {
		return fmt.Errorf("%w: it was closed: %w", ErrUnavailable, err)
	}
	return err
}
