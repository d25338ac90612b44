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
	"time"
)

//go:embed migrations/*.sql
var files embed.FS

// migrations are all there are, in order.
var migrations = readMigrations(files, "migrations")

// migration is one step of the schema. Steps go forward only, and never change once released: a
// database remembers the hash of each.
type migration struct {
	version int
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
		all = append(all, migration{i + 1, name, hex.EncodeToString(sum[:]), template.Must(template.New(name).Option("missingkey=error").Parse(string(text)))})
	}
	return all
}

// statements are the migration's for one database.
func (m migration) statements(d Dialect) (string, error) {
	text := &strings.Builder{}
	if err := m.text.Execute(text, map[string]bool{"PostgreSQL": d == PostgreSQL}); err != nil {
		return "", err
	}
	return text.String(), nil
}

// migrationLock is the advisory lock in PostgreSQL, any number that nobody else takes.
const migrationLock = 0x71756f696e // "quoin"

// migrate makes the missing steps, in one transaction. Processes that start at the same time
// wait for each other: in SQLite a transaction for writing is exclusive.
func (s *Store) migrate(ctx context.Context, steps []migration, log *slog.Logger) error {
	return s.Write(ctx, func(tx *sql.Tx) error {
		if s.dialect == PostgreSQL {
			if _, err := tx.ExecContext(ctx, "SELECT pg_advisory_xact_lock($1)", int64(migrationLock)); err != nil {
				return fmt.Errorf("lock schema: %w", err)
			}
		}
		const table = `CREATE TABLE IF NOT EXISTS schema_migration (version INTEGER PRIMARY KEY, name TEXT NOT NULL, sha256 TEXT NOT NULL, applied BIGINT NOT NULL)`
		if _, err := tx.ExecContext(ctx, table); err != nil {
			return fmt.Errorf("make table of migrations: %w", err)
		}
		applied, err := checkApplied(ctx, tx, steps)
		if err != nil {
			return err
		}
		for _, step := range steps[applied:] {
			if err := step.apply(ctx, tx, s.dialect); err != nil {
				return fmt.Errorf("migration %s: %w", step.name, err)
			}
			log.Info("Migrated the database", "migration", step.name)
		}
		return nil
	})
}

func (m migration) apply(ctx context.Context, tx *sql.Tx, d Dialect) error {
	text, err := m.statements(d)
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, text); err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, "INSERT INTO schema_migration (version, name, sha256, applied) VALUES ($1, $2, $3, $4)", m.version, m.name, m.sha256, time.Now().UnixMicro())
	return err
}

// checkApplied counts the steps that have been made, and fails unless they are the first of ours.
func checkApplied(ctx context.Context, tx *sql.Tx, steps []migration) (applied int, err error) {
	rows, err := tx.QueryContext(ctx, "SELECT version, name, sha256 FROM schema_migration ORDER BY version")
	if err != nil {
		return 0, fmt.Errorf("read migrations: %w", err)
	}
	defer func() { _ = rows.Close() }()
	for ; rows.Next(); applied++ {
		var m migration
		if err := rows.Scan(&m.version, &m.name, &m.sha256); err != nil {
			return 0, fmt.Errorf("read migrations: %w", err)
		}
		switch {
		case m.version > len(steps):
			return 0, fmt.Errorf("%w: it has migration %s, this one knows %d; run the newer Quoin, or restore a backup from before the upgrade", ErrNewer, m.name, len(steps))
		case m.version != applied+1 || m.sha256 != steps[applied].sha256:
			return 0, fmt.Errorf("migration %s is not the one that this Quoin knows as %s", m.name, steps[applied].name)
		}
	}
	return applied, rows.Err()
}
