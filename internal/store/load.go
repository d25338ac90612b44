package store

import (
	"context"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pressly/goose/v3"
)

// ErrNotEmpty is returned by Load for a database that has content.
var ErrNotEmpty = errors.New("the content store is not empty")

// restored is the table of the copies that were loaded. Load creates it.
const restored = "restored_backup"

// Load writes a copy that Dump has made to the database at a URL, which must have no content, and then
// applies the migrations that are newer than the copy. next returns the records in the order of Dump,
// and io.EOF after the last one; with any other error nothing is written. id identifies the copy: if
// it has been loaded already, Load changes nothing and returns false.
func Load(ctx context.Context, url string, log *slog.Logger, owners []Owner, id string, next func() (Record, error)) (loaded bool, err error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	loaded, err = load(ctx, url, log, append([]Owner{self}, owners...), id, next)
	if err != nil || !loaded {
		return false, wrapLoad(err)
	}
	s, err := Open(ctx, url, log, owners...)
	if err != nil {
		return false, wrapLoad(err)
	}
	return true, wrapLoad(s.Close())
}

func wrapLoad(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("restore the content store: %w", err)
}

// CheckLoad returns ErrNotEmpty if Load would, and other errors if the database cannot be opened.
func CheckLoad(ctx context.Context, url string, owners []Owner, id string) error {
	s, err := connect(ctx, url, slog.New(slog.DiscardHandler))
	if err == nil {
		_, err = s.checkEmpty(ctx, s.read, append([]Owner{self}, owners...), id)
		err = errors.Join(err, s.Close())
	}
	return wrapLoad(err)
}

func load(ctx context.Context, url string, log *slog.Logger, owners []Owner, id string, next func() (Record, error)) (loaded bool, err error) {
	first, err := next()
	if err != nil {
		return false, err
	}
	if err := checkKnown(owners, first.Migrations); err != nil {
		return false, err
	}
	s, err := connect(ctx, url, log)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	s.owners = owners
	unlock, err := s.lockSchema(ctx)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	if before, err := s.checkEmpty(ctx, s.write, owners, id); before || err != nil {
		return false, err
	}
	if err := s.migrateTo(ctx, first.Migrations, log); err != nil {
		return false, err
	}
	// Not Store.Tx, which may run its work again: next cannot be repeated.
	err = s.transact(ctx, func(tx *Tx) error { return s.loadRows(ctx, tx, id, next) })
	return err == nil, err
}

// checkEmpty returns an error if a table of content has rows, unless they are those of the copy: then
// it returns true.
func (s *Store) checkEmpty(ctx context.Context, q Querier, owners []Owner, id string) (before bool, err error) {
	if exists, err := s.hasTable(ctx, restored); err != nil {
		return false, err
	} else if exists {
		var count int
		if err := q.QueryRowContext(ctx, "SELECT COUNT(*) FROM "+restored+" WHERE id = $1", id).Scan(&count); err != nil || count > 0 {
			return err == nil, err
		}
	}
	for _, owner := range owners {
		for _, table := range owner.Tables {
			exists, err := s.hasTable(ctx, table)
			if err != nil {
				return false, err
			}
			if !exists {
				continue
			}
			var rows int
			if err := q.QueryRowContext(ctx, "SELECT COUNT(*) FROM (SELECT 1 FROM "+table+" LIMIT 1) AS first_row").Scan(&rows); err != nil {
				return false, err
			}
			if rows > 0 {
				return false, fmt.Errorf("%w: table %s has rows; restore into a new database", ErrNotEmpty, table)
			}
		}
	}
	return false, nil
}

// migrateTo applies the migrations that a copy has, so that its rows fit.
func (s *Store) migrateTo(ctx context.Context, copied []AppliedMigration, log *slog.Logger) error {
	if err := s.createHashes(ctx); err != nil {
		return err
	}
	applied, err := allMigrations(ctx, s.write)
	if err != nil {
		return err
	}
	for _, a := range applied {
		if !slices.ContainsFunc(copied, func(m AppliedMigration) bool { return m.Owner == a.Owner && m.Version == a.Version }) {
			return fmt.Errorf("the database has migration %s of %s already, the copy is from before it; restore into a new database", a.Name, a.Owner)
		}
	}
	for _, owner := range s.owners {
		version := int64(0)
		for _, m := range copied {
			if m.Owner == owner.Name {
				version = max(version, m.Version)
			}
		}
		if version == 0 {
			continue
		}
		provider, err := s.provider(owner, log)
		if err != nil {
			return err
		}
		if _, err := provider.UpTo(ctx, version); err != nil {
			return err
		}
	}
	return nil
}

// provider returns goose's provider of the migrations of an owner.
func (s *Store) provider(owner Owner, log *slog.Logger) (*goose.Provider, error) {
	known, err := owner.migrations()
	if err != nil {
		return nil, err
	}
	options := []goose.ProviderOption{goose.WithDisableGlobalRegistry(true), goose.WithTableName(owner.versions())}
	for _, m := range known {
		options = append(options, goose.WithGoMigrations(m.step(s.dialect, owner, log)))
	}
	return goose.NewProvider(s.dialect.goose(), s.write, nil, options...)
}

// loadRows inserts all rows, and records that the copy is loaded.
func (s *Store) loadRows(ctx context.Context, tx *Tx, id string, next func() (Record, error)) error {
	table := &inserts{}
	defer func() { table.close() }()
	for {
		record, err := next()
		switch {
		case errors.Is(err, io.EOF):
			return recordLoad(ctx, tx, id)
		case err != nil:
			return err
		case record.Table != "":
			table.close()
			if table, err = s.newInserts(ctx, tx, record); err != nil {
				return fmt.Errorf("table %s: %w", record.Table, err)
			}
		default:
			if err := table.insert(ctx, record.Row); err != nil {
				return fmt.Errorf("table %s: %w", table.name, err)
			}
		}
	}
}

func recordLoad(ctx context.Context, tx *Tx, id string) error {
	if _, err := tx.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS "+restored+" (id TEXT PRIMARY KEY, restored_at BIGINT NOT NULL)"); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, "INSERT INTO "+restored+" (id, restored_at) VALUES ($1, $2)", id, time.Now().UnixMicro())
	return err
}

// inserts inserts the rows of a table. A table without a statement has no rows before its record.
type inserts struct {
	name      string
	columns   []column
	statement *sql.Stmt
}

// newInserts prepares the statement for a table of an owner. Names come from the copy, so they are
// used only if the database has them.
func (s *Store) newInserts(ctx context.Context, tx *Tx, of Record) (*inserts, error) {
	if !slices.ContainsFunc(s.owners, func(o Owner) bool { return slices.Contains(o.Tables, of.Table) }) {
		return nil, errors.New("it is not a table of content")
	}
	known, err := s.columns(ctx, tx, of.Table)
	if err != nil {
		return nil, err
	}
	t := &inserts{name: of.Table}
	parameters := make([]string, len(of.Columns))
	for i, name := range of.Columns {
		k := slices.IndexFunc(known, func(c column) bool { return c.name == name })
		if k < 0 {
			return nil, fmt.Errorf("column %q does not exist", name)
		}
		t.columns = append(t.columns, known[k])
		parameters[i] = "$" + strconv.Itoa(i+1)
	}
	t.statement, err = tx.PrepareContext(ctx, "INSERT INTO "+of.Table+" ("+strings.Join(of.Columns, ", ")+") VALUES ("+strings.Join(parameters, ", ")+")")
	return t, err
}

func (t *inserts) insert(ctx context.Context, row []any) error {
	if t.statement == nil {
		return errors.New("rows without a table")
	}
	if len(row) != len(t.columns) {
		return fmt.Errorf("a row has %d values for %d columns", len(row), len(t.columns))
	}
	values := make([]any, len(row))
	for i, value := range row {
		var err error
		if values[i], err = decode(value, t.columns[i]); err != nil {
			return fmt.Errorf("column %s: %w", t.columns[i].name, err)
		}
	}
	_, err := t.statement.ExecContext(ctx, values...)
	return err
}

func (t *inserts) close() {
	if t != nil && t.statement != nil {
		_ = t.statement.Close()
	}
}

// decode returns a value of a record for the driver. Records that were read from JSON have numbers as
// json.Number and bytes in base64.
func decode(value any, c column) (any, error) {
	switch v := value.(type) {
	case json.Number:
		n, err := v.Int64()
		if c.kind == boolColumn { // of a copy that has booleans as SQLite does
			return n != 0, err
		}
		return n, err
	case string:
		if c.kind == bytesColumn {
			return base64.StdEncoding.DecodeString(v)
		}
		return v, nil
	case int64, bool, []byte, nil:
		return v, nil
	}
	return nil, fmt.Errorf("a value is a %T", value)
}
