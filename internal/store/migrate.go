package store

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"text/template"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"
	"github.com/pressly/goose/v3/lock"
)

//go:embed migrations/*.sql
var files embed.FS

// self owns the tables of the store. Its migrations come first, so that tables of content can
// refer to accounts and deployments.
var self = Owner{Name: "store", Migrations: files, Tables: []string{"account", "deployment", "account_sequence"}}

// Owner is a package that owns tables. Its migrations depend on those of the store and on its own,
// never on those of another owner.
type Owner struct {
	// Name is part of the names of tables; it never changes. Lower-case letters and underscores.
	Name string
	// Migrations has the files migrations/<number>_<name>.sql, numbered from 0001 without a gap:
	// templates in which {{if .PostgreSQL}} tells the databases apart. They go forward only and
	// never change once released, because a database stores the hash of each. A replica of the
	// previous release must keep working with the new schema.
	Migrations fs.FS
	// Tables are the tables of content, for backups: those to which others refer come first. Columns
	// that hold UIDs of Kubernetes objects are named uid, or their names end in _uid: a restore
	// replaces their values by the UIDs of the restored objects.
	Tables []string
	// Purge deletes at most limit rows of a deleted account, or of one of its deployments, and
	// reports whether there may be more. It is nil for owners whose rows belong to neither.
	Purge func(ctx context.Context, tx *Tx, of Deleted, limit int) (more bool, err error)
}

var ownerName = regexp.MustCompile(`^[a-z][a-z_]{0,30}$`)

// migration is one step of an owner's schema.
type migration struct {
	version int64
	name    string
	sha256  string
	text    *template.Template
}

// migrations reads the migrations of an owner.
func (o Owner) migrations() ([]migration, error) {
	if !ownerName.MatchString(o.Name) {
		return nil, fmt.Errorf("owner %q: the name must match %s", o.Name, ownerName)
	}
	names, err := fs.Glob(o.Migrations, "migrations/*.sql")
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	all := make([]migration, 0, len(names))
	for i, file := range names {
		text, err := fs.ReadFile(o.Migrations, file)
		if err != nil {
			return nil, err
		}
		name := strings.TrimSuffix(strings.TrimPrefix(file, "migrations/"), ".sql")
		if !strings.HasPrefix(name, fmt.Sprintf("%04d_", i+1)) {
			return nil, fmt.Errorf("owner %q: migration %q is not number %04d", o.Name, name, i+1)
		}
		parsed, err := template.New(name).Option("missingkey=error").Parse(string(text))
		if err != nil {
			return nil, fmt.Errorf("owner %q: %w", o.Name, err)
		}
		sum := sha256.Sum256(text)
		all = append(all, migration{int64(i + 1), name, hex.EncodeToString(sum[:]), parsed})
	}
	return all, nil
}

// hashes is the table of the migrations applied, with the hashes of their texts. The versions are
// in addition in a table of goose for each owner.
const hashes = "migration_hash"

// versions returns the name of goose's table of an owner.
func (o Owner) versions() string { return "migration_" + o.Name }

// migrate applies the missing migrations of all owners. Replicas that start at the same time wait
// for each other; SQLite has one process.
func (s *Store) migrate(ctx context.Context, log *slog.Logger) (err error) {
	unlock, err := s.lockSchema(ctx)
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	defer func() { err = errors.Join(err, unlock()) }()
	if err := s.createHashes(ctx); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	for i, owner := range s.owners {
		if slices.ContainsFunc(s.owners[:i], func(o Owner) bool { return o.Name == owner.Name }) {
			return fmt.Errorf("migrate: owner %q is listed twice", owner.Name)
		}
		if err := s.migrateOwner(ctx, owner, log); err != nil {
			return fmt.Errorf("migrate %s: %w", owner.Name, err)
		}
	}
	return nil
}

// createHashes creates the table of the applied migrations.
func (s *Store) createHashes(ctx context.Context) error {
	_, err := s.write.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS "+hashes+" (owner TEXT NOT NULL, version BIGINT NOT NULL, name TEXT NOT NULL, sha256 TEXT NOT NULL, PRIMARY KEY (owner, version))")
	return err
}

// lockSchema acquires the advisory lock of migrations in PostgreSQL. It asks for it every second
// until ctx ends. It is goose's own, so replicas of releases that used goose's lock wait too.
func (s *Store) lockSchema(ctx context.Context) (unlock func() error, err error) {
	if s.dialect != PostgreSQL {
		return func() error { return nil }, nil
	}
	const everySecond, unlimited = 1, 1 << 32
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(everySecond, unlimited))
	if err != nil {
		return nil, err
	}
	connection, err := s.write.Conn(ctx)
	if err != nil {
		return nil, err
	}
	if err := locker.SessionLock(ctx, connection); err != nil {
		return nil, errors.Join(err, connection.Close())
	}
	return func() error {
		ctx := context.WithoutCancel(ctx)
		return errors.Join(locker.SessionUnlock(ctx, connection), connection.Close())
	}, nil
}

func (s *Store) migrateOwner(ctx context.Context, owner Owner, log *slog.Logger) error {
	known, err := owner.migrations()
	if err != nil {
		return err
	}
	if err := s.adopt(ctx, owner); err != nil {
		return err
	}
	if err := checkApplied(ctx, s.write, owner, known); err != nil || len(known) == 0 {
		return err
	}
	provider, err := s.provider(owner, log)
	if err != nil {
		return err
	}
	_, err = provider.Up(ctx)
	return err
}

// step returns the migration for goose, which applies it and records its version in one
// transaction.
func (m migration) step(d Dialect, owner Owner, log *slog.Logger) *goose.Migration {
	return goose.NewGoMigration(m.version, &goose.GoFunc{RunTx: func(ctx context.Context, tx *sql.Tx) error {
		text := &strings.Builder{}
		if err := m.text.Execute(text, map[string]bool{"PostgreSQL": d == PostgreSQL}); err != nil {
			return err
		}
		log.Info("Migrating the database", "owner", owner.Name, "migration", m.name)
		if _, err := tx.ExecContext(ctx, text.String()); err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		return m.record(ctx, tx, owner)
	}}, nil)
}

func (m migration) record(ctx context.Context, tx *sql.Tx, owner Owner) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO "+hashes+" (owner, version, name, sha256) VALUES ($1, $2, $3, $4)", owner.Name, m.version, m.name, m.sha256)
	return err
}

// checkApplied returns an error unless the applied migrations of an owner are known ones with the
// same text.
func checkApplied(ctx context.Context, db *sql.DB, owner Owner, known []migration) error {
	applied, err := appliedMigrations(ctx, db, "SELECT version, name, sha256 FROM "+hashes+" WHERE owner = $1 ORDER BY version", owner.Name)
	if err != nil {
		return err
	}
	for _, a := range applied {
		i := slices.IndexFunc(known, func(m migration) bool { return m.version == a.version })
		switch {
		case i < 0:
			return fmt.Errorf("%w: it has migration %s, this one knows %d; run the newer Quoin, or restore a backup from before the upgrade", ErrNewer, a.name, len(known))
		case known[i].sha256 != a.sha256:
			return fmt.Errorf("migration %s differs from the %s of this Quoin", a.name, known[i].name)
		}
	}
	return nil
}

func appliedMigrations(ctx context.Context, db *sql.DB, query string, args ...any) (applied []migration, err error) {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, fmt.Errorf("read migrations: %w", err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var m migration
		if err := rows.Scan(&m.version, &m.name, &m.sha256); err != nil {
			return nil, fmt.Errorf("read migrations: %w", err)
		}
		applied = append(applied, m)
	}
	return applied, rows.Err()
}

// The tables of migrations of the first release, which had one owner, the audit log. They are left
// in place: a replica of that release that starts again during an upgrade finds its schema.
const (
	firstOwner  = "audit"
	firstHashes = "schema_migration_hash"
)

// adopt copies the applied migrations of the first release to the tables of their owner.
func (s *Store) adopt(ctx context.Context, owner Owner) error {
	if owner.Name != firstOwner {
		return nil
	}
	adopted, err := appliedMigrations(ctx, s.write, "SELECT version, name, sha256 FROM "+hashes+" WHERE owner = $1", owner.Name)
	if err != nil || len(adopted) > 0 {
		return err
	}
	if exists, err := s.hasTable(ctx, firstHashes); err != nil || !exists {
		return err
	}
	applied, err := appliedMigrations(ctx, s.write, "SELECT version, name, sha256 FROM "+firstHashes+" ORDER BY version")
	if err != nil || len(applied) == 0 {
		return err
	}
	versions, err := database.NewStore(s.dialect.goose(), owner.versions())
	if err != nil {
		return err
	}
	return s.Tx(ctx, func(tx *Tx) error {
		if err := versions.CreateVersionTable(ctx, tx.tx); err != nil {
			return err
		}
		for _, m := range append([]migration{{version: 0}}, applied...) {
			if err := versions.Insert(ctx, tx.tx, database.InsertRequest{Version: m.version}); err != nil {
				return err
			}
			if m.version == 0 {
				continue // goose's mark of a new table
			}
			if err := m.record(ctx, tx.tx, owner); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *Store) hasTable(ctx context.Context, name string) (exists bool, err error) {
	query := "SELECT to_regclass($1) IS NOT NULL"
	if s.dialect == SQLite {
		query = "SELECT COUNT(*) > 0 FROM sqlite_master WHERE type = 'table' AND name = $1"
	}
	if err := s.write.QueryRowContext(ctx, query, name).Scan(&exists); err != nil {
		return false, fmt.Errorf("look for table %s: %w", name, err)
	}
	return exists, nil
}
