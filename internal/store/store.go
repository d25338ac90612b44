// Package store is the content store: a SQL database for everything that is not cluster state, on
// SQLite for one replica and on PostgreSQL for several. Schema and statements are the same on both;
// Dialect holds the differences.
//
// Tables belong to owners (Owner), packages such as internal/audit and internal/content/folder,
// each with its own migrations. The store itself owns the tables of accounts, deployments and
// sequences, and knows no other.
//
//	database.go        a database that is opened in the background and retried while it is away
//	store.go           an open database
//	migrate.go         migrations by owner
//	tx.go              transactions and their retries
//	batch.go           statements that are sent together
//	postgresqlconn.go  connections to PostgreSQL, which begin transactions with their first statements
//	sqliteconn.go      connections to SQLite, which keep prepared statements
//	tenants.go         accounts, deployments, integer ids
//	page.go            keyset pagination
//	purge.go           deletion of the content of deleted accounts and deployments
//	dump.go            a copy of the content for backups
//	load.go            a database from such a copy
package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
)

var (
	// ErrNewer is returned for a database whose schema was made by a newer Quoin.
	ErrNewer = errors.New("the database is of a newer Quoin")
	// ErrInUse is returned for a SQLite file that another process has open.
	ErrInUse = errors.New("the database is in use by another process")
	// ErrUnavailable is returned while the database is closed, cannot be reached, or cannot write.
	ErrUnavailable = errors.New("the database is not available")
	// ErrUnknownOutcome is returned, together with ErrUnavailable, when the answer to a commit was
	// lost: the transaction may have been committed.
	ErrUnknownOutcome = errors.New("the outcome of the transaction is unknown")
)

// Store is an open database.
type Store struct {
	dialect Dialect
	owners  []Owner
	read    *sql.DB
	write   *sql.DB
	// newReader returns a further pool of connections for reading.
	newReader func(parameters map[string]string) *sql.DB
	mu        sync.Mutex
	readers   []*sql.DB // guarded by mu
	// release releases the lock that keeps other processes away.
	release func() error
}

// Open opens the database at a URL and applies the missing migrations of the owners:
//
//	sqlite:///var/lib/quoin/content.db     created with its directory if missing; one process only
//	postgres://user:password@host/name     any number of processes; parameters as in libpq
//
// Errors and log lines never contain the password.
func Open(ctx context.Context, url string, log *slog.Logger, owners ...Owner) (*Store, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	s, err := connect(ctx, url, log)
	if err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	s.owners = append([]Owner{self}, owners...)
	if err := s.migrate(ctx, log); err != nil {
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

// Dialect returns which of the two databases it is.
func (s *Store) Dialect() Dialect { return s.dialect }

// Replicated reports whether several processes may have the database open.
func (s *Store) Replicated() bool { return s.dialect == PostgreSQL }

// Reader returns the connections for statements that change nothing. Statements should be short
// and not be kept open while waiting for something else: an open one keeps old rows from being
// removed.
func (s *Store) Reader() *sql.DB { return s.read }

// NewReader returns connections for reading apart from Reader's, with PostgreSQL parameters of
// their own, such as {"enable_sort": "off"}. They are closed with the store.
func (s *Store) NewReader(parameters map[string]string) *sql.DB {
	reader := s.newReader(parameters)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.readers = append(s.readers, reader)
	return reader
}

// Ping returns an error if the database does not answer, for readiness.
func (s *Store) Ping(ctx context.Context) error {
	var migrations int
	if err := s.read.QueryRowContext(ctx, "SELECT COUNT(*) FROM "+hashes).Scan(&migrations); err != nil {
		return fmt.Errorf("database: %w", err)
	}
	return nil
}

// Close closes the database. The store must not be used afterwards.
func (s *Store) Close() error {
	failed := []error{s.read.Close(), s.write.Close()}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, reader := range s.readers {
		failed = append(failed, reader.Close())
	}
	return errors.Join(append(failed, s.release())...)
}
