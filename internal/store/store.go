// Package store opens the content store: what is not cluster state lives in SQL, on SQLite for
// one process and on PostgreSQL for several. Schema and statements are the same on both; where
// the two differ is in Dialect. Families of content, such as internal/audit, each have their
// tables in migrations and a package of their own beside this one.
package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"strings"
)

var (
	// ErrNewer is that the schema was made by a newer Quoin than this one.
	ErrNewer = errors.New("the database is of a newer Quoin")
	// ErrInUse is that another process has the SQLite file open.
	ErrInUse = errors.New("the database is in use by another process")
)

// Store is an open database.
type Store struct {
	dialect Dialect
	read    *sql.DB
	write   *sql.DB
	// release gives back what keeps other processes away.
	release func() error
}

// Open opens the database at a URL and brings its schema up to date:
//
//	sqlite:///var/lib/quoin/content.db     made with its folder when it is missing; one process only
//	postgres://user:password@host/name     any number of processes; parameters as libpq takes them
//
// Errors and log lines never hold the password.
func Open(ctx context.Context, url string, log *slog.Logger) (*Store, error) {
	return open(ctx, url, log, migrations)
}

func open(ctx context.Context, url string, log *slog.Logger, steps []migration) (*Store, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	s, err := connect(ctx, url, log)
	if err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	if err := s.migrate(ctx, steps, log); err != nil {
		return nil, errors.Join(fmt.Errorf("open database: %w", err), s.Close())
	}
	return s, nil
}

func connect(ctx context.Context, url string, log *slog.Logger) (*Store, error) {
	scheme, _, _ := strings.Cut(url, ":")
	switch strings.ToLower(scheme) {
	case "sqlite":
		return openSQLite(ctx, url, log)
	case "postgres", "postgresql":
		return openPostgreSQL(ctx, url, log)
	}
	return nil, errors.New("its URL must begin with sqlite:/// or postgres://")
}

// Dialect tells which database it is.
func (s *Store) Dialect() Dialect { return s.dialect }

// Replicated tells whether several processes may have the database open.
func (s *Store) Replicated() bool { return s.dialect == PostgreSQL }

// Reader is for statements that change nothing. None should take long, nor be kept open while
// something else is waited for: a statement keeps old rows from being removed.
func (s *Store) Reader() *sql.DB { return s.read }

// Write runs work in a transaction and commits it. It is durable when there is no error; when
// there is one, it may still have been committed, if the answer was lost.
func (s *Store) Write(ctx context.Context, work func(tx *sql.Tx) error) error {
	tx, err := s.write.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("begin transaction: %w", err)
	}
	if err := work(tx); err != nil {
		_ = tx.Rollback() // the first error says more
		return err
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}

// Ping tells whether the database answers, for readiness.
func (s *Store) Ping(ctx context.Context) error {
	var steps int
	if err := s.read.QueryRowContext(ctx, "SELECT COUNT(*) FROM "+versions).Scan(&steps); err != nil {
		return fmt.Errorf("database: %w", err)
	}
	return nil
}

// Close closes the database; nobody may use it any more.
func (s *Store) Close() error {
	return errors.Join(s.read.Close(), s.write.Close(), s.release())
}
