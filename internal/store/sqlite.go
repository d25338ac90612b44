package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"modernc.org/sqlite"
)

// sqliteReaders is how many statements may read at once.
const sqliteReaders = 4

// pragmas are set on every connection, in this order. FULL: a commit is on disk when it returns.
// The WAL is cut back after it has grown in a long transaction.
var pragmas = []string{"busy_timeout(2000)", "journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(ON)", "journal_size_limit(67108864)"}

func openSQLite(ctx context.Context, text string, log *slog.Logger) (s *Store, err error) {
	file, err := sqlitePath(text)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil { //nolint:gosec // the administrator chooses the path
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
	write, err := sqlitePool(file, 1, "immediate")
	if err != nil {
		return nil, err
	}
	s = &Store{dialect: SQLite, write: write, release: release}
	if s.read, err = sqlitePool(file, sqliteReaders, "deferred", "query_only(ON)"); err != nil {
		return nil, errors.Join(err, write.Close())
	}
	if err := checkDurable(ctx, write); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", file, err), s.read.Close(), write.Close())
	}
	return s, nil
}

// sqlitePath is the file of a URL.
func sqlitePath(text string) (string, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host != "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || !filepath.IsAbs(u.Path) || strings.HasSuffix(u.Path, "/") {
		return "", errors.New("its URL must be sqlite:// and the absolute path of a file, such as sqlite:///var/lib/quoin/content.db")
	}
	return filepath.Clean(u.Path), nil
}

// lockFile keeps other processes away as long as this one lives. Two would not see each other's
// locks on a network's file system, and WAL needs memory that they share.
func lockFile(name string) (release func() error, err error) {
	file, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600) //nolint:gosec // the administrator chooses the path
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = file.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("%w: %s is locked; SQLite is for one replica, use PostgreSQL for more", ErrInUse, name)
		}
		return nil, fmt.Errorf("lock %s: %w", name, err)
	}
	return sync.OnceValue(file.Close), nil
}

// makePrivate sees to it that only we can read the file; SQLite gives those beside it the same
// mode. A volume's group may have been given the right since it was made.
func makePrivate(name string, log *slog.Logger) error {
	file, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600) //nolint:gosec // the administrator chooses the path
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	err = file.Chmod(0o600)
	if errors.Is(err, fs.ErrPermission) {
		log.Warn("Others may be able to read the database: its file belongs to another user", "file", name)
		return nil
	}
	return err
}

func sqlitePool(file string, connections int, lock string, more ...string) (*sql.DB, error) {
	query := url.Values{"_txlock": {lock}, "_pragma": append(pragmas[:len(pragmas):len(pragmas)], more...)}
	address := url.URL{Scheme: "file", Path: file, RawQuery: query.Encode()}
	connector, err := sqlite.NewConnector(address.String())
	if err != nil {
		return nil, err
	}
	pool := sql.OpenDB(connector)
	pool.SetMaxOpenConns(connections)
	pool.SetMaxIdleConns(connections)
	return pool, nil
}

// checkDurable fails where the file system does not allow what is promised.
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
