package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"modernc.org/sqlite"

	"github.com/quoin-dev/quoin/internal/store/filelock"
)

// sqliteReaders is the number of connections of a pool for reading.
const sqliteReaders = 4

// pragmas are set on every connection, in this order. With FULL a commit is on disk when it returns; with
// NORMAL, which TxAsync uses, once a later one with FULL is, or the log is copied into the database.
// The WAL is truncated after it has grown in a long transaction.
var pragmas = []string{"busy_timeout(2000)", "journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(ON)", "journal_size_limit(67108864)"}

func openSQLite(ctx context.Context, text string, log *slog.Logger) (s *Store, err error) {
	file, err := sqlitePath(text)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return nil, err
	}
	release, err := lockFile(file + ".lock")
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, release())
		}
	}()
	if err := makePrivate(file, log); err != nil {
		return nil, err
	}
	write, err := sqliteConnector(file, "immediate")
	if err != nil {
		return nil, err
	}
	read, err := sqliteConnector(file, "deferred", "query_only(ON)")
	if err != nil {
		return nil, err
	}
	newReader := func(map[string]string) *sql.DB { return sqlitePool(read, sqliteReaders) }
	s = &Store{dialect: SQLite, read: newReader(nil), write: sqlitePool(write, 1), newReader: newReader, release: release}
	if err := checkDurable(ctx, s.write); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", file, err), s.read.Close(), s.write.Close())
	}
	return s, nil
}

// sqlitePath returns the file of a URL.
func sqlitePath(text string) (string, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host != "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || !filepath.IsAbs(u.Path) || strings.HasSuffix(u.Path, "/") {
		return "", errors.New("its URL must be sqlite:// and the absolute path of a file, such as sqlite:///var/lib/quoin/content.db")
	}
	return filepath.Clean(u.Path), nil
}

// lockFile locks out other processes for the lifetime of this one. On a network file system two
// processes would not see each other's locks, and WAL needs shared memory.
func lockFile(name string) (release func() error, err error) {
	file, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600) //nolint:gosec // the administrator chooses the path
	if err != nil {
		return nil, err
	}
	if err := filelock.Lock(file); err != nil {
		_ = file.Close()
		if errors.Is(err, filelock.ErrLocked) {
			return nil, fmt.Errorf("%w: %s is locked; SQLite supports one replica, use PostgreSQL for more", ErrInUse, name)
		}
		return nil, fmt.Errorf("lock %s: %w", name, err)
	}
	return sync.OnceValue(file.Close), nil
}

// makePrivate makes the file readable for its owner only; SQLite creates the files beside it with
// the same mode. A volume may have added the permission of its group since the file was created.
func makePrivate(name string, log *slog.Logger) error {
	file, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600) //nolint:gosec // the administrator chooses the path
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	err = file.Chmod(0o600)
	if errors.Is(err, fs.ErrPermission) {
		log.Warn("Other users may be able to read the database: its file belongs to another user", "file", name)
		return nil
	}
	return err
}

func sqliteConnector(file, lock string, more ...string) (driver.Connector, error) {
	query := url.Values{"_txlock": {lock}, "_pragma": append(pragmas[:len(pragmas):len(pragmas)], more...)}
	address := url.URL{Scheme: "file", Path: file, RawQuery: query.Encode()}
	connector, err := sqlite.NewConnector(address.String())
	return preparingConnector{connector}, err
}

func sqlitePool(connector driver.Connector, connections int) *sql.DB {
	pool := sql.OpenDB(connector)
	pool.SetMaxOpenConns(connections)
	pool.SetMaxIdleConns(connections)
	return pool
}

// checkDurable returns an error if the file system does not support the journal mode that makes
// commits durable.
func checkDurable(ctx context.Context, pool *sql.DB) error {
	var journal string
	var synchronous int
	if err := pool.QueryRowContext(ctx, "PRAGMA journal_mode").Scan(&journal); err != nil {
		return err
	}
	if err := pool.QueryRowContext(ctx, "PRAGMA synchronous").Scan(&synchronous); err != nil {
		return err
	}
	if journal != "wal" || synchronous != 2 {
		return fmt.Errorf("the file system does not allow a write-ahead log (journal_mode %s, synchronous %d)", journal, synchronous)
	}
	return nil
}
