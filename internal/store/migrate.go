package store

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"log/slog"
	"path"
	"slices"
	"strings"
	"text/template"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

//go:embed migrations/*.sql
var files embed.FS

// migrations are all there are, in order.
var migrations = readMigrations(files, "migrations")

// migration is one step of the schema, a template of which each database has its text. Steps go
// forward only, and never change once released: a database remembers the hash of each.
type migration struct {
	version int64
	name    string
	sha256  string
	text    *template.Template
}

// readMigrations reads <version>_<name>.sql, versions counting from 0001 without a gap. They are
// part of the program: what is wrong with them panics when it starts, and in every test.
func readMigrations(folder fs.FS, root string) []migration {
	names, err := fs.Glob(folder, path.Join(root, "*.sql"))
	if err != nil {
		panic(err)
	}
	slices.Sort(names)
	var all []migration
	for i, file := range names {
		text, err := fs.ReadFile(folder, file)
		if err != nil {
			panic(err)
		}
		name := strings.TrimSuffix(path.Base(file), ".sql")
		if !strings.HasPrefix(name, fmt.Sprintf("%04d_", i+1)) {
			panic(fmt.Sprintf("migration %q is not number %04d", name, i+1))
		}
		sum := sha256.Sum256(text)
		all = append(all, migration{int64(i + 1), name, hex.EncodeToString(sum[:]), template.Must(template.New(name).Option("missingkey=error").Parse(string(text)))})
	}
	return all
}

// step is the migration as goose makes it: in a transaction, in which its version is recorded too,
// and only where those before it are what we know.
func (m migration) step(d Dialect, known []migration, log *slog.Logger) *goose.Migration {
	return goose.NewGoMigration(m.version, &goose.GoFunc{RunTx: func(ctx context.Context, tx *sql.Tx) error {
		const table = "CREATE TABLE IF NOT EXISTS " + hashes + " (version BIGINT PRIMARY KEY, name TEXT NOT NULL, sha256 TEXT NOT NULL)"
		if _, err := tx.ExecContext(ctx, table); err != nil {
			return fmt.Errorf("make table of hashes: %w", err)
		}
		if err := checkMade(ctx, tx, known); err != nil {
			return err
		}
		text := &strings.Builder{}
		if err := m.text.Execute(text, map[string]bool{"PostgreSQL": d == PostgreSQL}); err != nil {
			return err
		}
		log.Info("Migrating the database", "migration", m.name)
		if _, err := tx.ExecContext(ctx, text.String()); err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		_, err := tx.ExecContext(ctx, "INSERT INTO "+hashes+" (version, name, sha256) VALUES ($1, $2, $3)", m.version, m.name, m.sha256)
		return err
	}}, nil)
}

// Tables that say which migrations have been made, which is goose's, and which texts they had.
const (
	versions = "schema_migration"
	hashes   = "schema_migration_hash"
)

// migrate makes the missing steps. Processes that start at the same time wait for each other: in
// PostgreSQL by an advisory lock that they ask for every second, for as long as ctx lets them;
// SQLite lets one process in.
func (s *Store) migrate(ctx context.Context, steps []migration, log *slog.Logger) error {
	options := []goose.ProviderOption{goose.WithDisableGlobalRegistry(true), goose.WithTableName(versions)}
	for _, m := range steps {
		options = append(options, goose.WithGoMigrations(m.step(s.dialect, steps, log)))
	}
	if s.dialect == PostgreSQL {
		const everySecond, forever = 1, 1 << 32
		locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(everySecond, forever))
		if err != nil {
			return fmt.Errorf("migrate: %w", err)
		}
		options = append(options, goose.WithSessionLocker(locker))
	}
	provider, err := goose.NewProvider(s.dialect.goose(), s.write, nil, options...)
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	if _, err := provider.Up(ctx); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	return checkMade(ctx, s.read, steps)
}

// checkMade fails unless the migrations that have been made are ours.
func checkMade(ctx context.Context, database interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}, known []migration) error {
	rows, err := database.QueryContext(ctx, "SELECT version, name, sha256 FROM "+hashes+" ORDER BY version")
	if err != nil {
		return fmt.Errorf("read migrations: %w", err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var made migration
		if err := rows.Scan(&made.version, &made.name, &made.sha256); err != nil {
			return fmt.Errorf("read migrations: %w", err)
		}
		i := slices.IndexFunc(known, func(m migration) bool { return m.version == made.version })
		switch {
		case i < 0:
			return fmt.Errorf("%w: it has migration %s, this one knows %d; run the newer Quoin, or restore a backup from before the upgrade", ErrNewer, made.name, len(known))
		case known[i].sha256 != made.sha256:
			return fmt.Errorf("migration %s is not the one that this Quoin knows as %s", made.name, known[i].name)
		}
	}
	return rows.Err()
}
