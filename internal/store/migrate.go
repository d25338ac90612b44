package store

import (
	"context"
	"database/sql"
	"embed"
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
// forward only, and never change once released.
type migration struct {
	version int64
	name    string
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
		all = append(all, migration{int64(i + 1), name, template.Must(template.New(name).Option("missingkey=error").Parse(string(text)))})
	}
	return all
}

// step is the migration as goose makes it: in a transaction, in which its version is recorded too.
func (m migration) step(d Dialect, log *slog.Logger) *goose.Migration {
	return goose.NewGoMigration(m.version, &goose.GoFunc{RunTx: func(ctx context.Context, tx *sql.Tx) error {
		text := &strings.Builder{}
		if err := m.text.Execute(text, map[string]bool{"PostgreSQL": d == PostgreSQL}); err != nil {
			return err
		}
		log.Info("Migrating the database", "migration", m.name)
		if _, err := tx.ExecContext(ctx, text.String()); err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		return nil
	}}, nil)
}

// versions is the table that says which migrations have been made.
const versions = "schema_migration"

// migrate makes the missing steps. Processes that start at the same time wait for each other: in
// PostgreSQL by an advisory lock that they ask for every second, for as long as ctx lets them;
// SQLite lets one process in.
func (s *Store) migrate(ctx context.Context, steps []migration, log *slog.Logger) error {
	options := []goose.ProviderOption{goose.WithDisableGlobalRegistry(true), goose.WithTableName(versions)}
	for _, m := range steps {
		options = append(options, goose.WithGoMigrations(m.step(s.dialect, log)))
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
	current, known, err := provider.GetVersions(ctx)
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	if current > known {
		return fmt.Errorf("%w: it has migration %d, this one knows %d; run the newer Quoin, or restore a backup from before the upgrade", ErrNewer, current, known)
	}
	return nil
}
