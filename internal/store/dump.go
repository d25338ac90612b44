package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strings"
)

// Record is one element of a copy of the content. The first record of a copy has Migrations, that of
// a table has Table and Columns and precedes its rows, and each other record has Row. Copies are the
// same for both databases.
type Record struct {
	Migrations []AppliedMigration `json:"migrations,omitempty"`
	Table      string             `json:"table,omitempty"`
	Columns    []string           `json:"columns,omitempty"`
	// Row has a value for each column: a string, an int64, a bool, or []byte, which is base64 in JSON.
	Row []any `json:"row,omitempty"`
}

// AppliedMigration identifies a migration of an owner.
type AppliedMigration struct {
	Owner   string `json:"owner"`
	Version int64  `json:"version"`
	Name    string `json:"name"`
	SHA256  string `json:"sha256"`
}

// column is a column of a table of content.
type column struct{ name, kind string }

// The kinds of columns that are not copied as they are.
const (
	bytesColumn = "bytes"
	// boolColumn is a boolean in PostgreSQL, and a number in SQLite.
	boolColumn = "bool"
	// wordsColumn is a text search vector in PostgreSQL, and a text with the same words in SQLite.
	wordsColumn = "words"
)

// Dump copies the content of the database at a URL as it is at one point in time. Other processes may
// have the database open and write to it. write is called for each record, in the order in which Load
// needs them.
func Dump(ctx context.Context, url string, owners []Owner, write func(Record) error) error {
	s, err := openSnapshot(ctx, url)
	if err != nil {
		return fmt.Errorf("copy the content store: %w", err)
	}
	err = s.dump(ctx, append([]Owner{self}, owners...), write)
	if err = errors.Join(err, s.Close()); err != nil {
		return fmt.Errorf("copy the content store: %w", err)
	}
	return nil
}

// openSnapshot opens a database for reading. A SQLite file is not locked, so that the process that
// uses it can continue.
func openSnapshot(ctx context.Context, url string) (*Store, error) {
	if scheme, _, _ := strings.Cut(url, ":"); !strings.EqualFold(scheme, "sqlite") {
		return connect(ctx, url, slog.New(slog.DiscardHandler))
	}
	file, err := sqlitePath(url)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s does not exist", file)
	}
	connector, err := sqliteConnector(file, "deferred", "query_only(ON)")
	if err != nil {
		return nil, err
	}
	pool := sqlitePool(connector, 1)
	return &Store{dialect: SQLite, read: pool, write: pool, release: func() error { return nil }}, nil
}

func (s *Store) dump(ctx context.Context, owners []Owner, write func(Record) error) error {
	var options *sql.TxOptions
	if s.dialect == PostgreSQL {
		options = &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true}
	}
	tx, err := s.read.BeginTx(ctx, options)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	applied, err := allMigrations(ctx, tx)
	if err != nil {
		return fmt.Errorf("read migrations (has quoin apiserver created the database?): %w", err)
	}
	if err := checkKnown(owners, applied); err != nil {
		return err
	}
	if err := write(Record{Migrations: applied}); err != nil {
		return err
	}
	for _, owner := range owners {
		for _, table := range owner.Tables {
			if err := s.dumpTable(ctx, tx, table, write); err != nil {
				return fmt.Errorf("table %s: %w", table, err)
			}
		}
	}
	return nil
}

// allMigrations returns the applied migrations of all owners.
func allMigrations(ctx context.Context, q Querier) (applied []AppliedMigration, err error) {
	rows, err := q.QueryContext(ctx, "SELECT owner, version, name, sha256 FROM "+hashes+" ORDER BY owner, version")
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var m AppliedMigration
		if err := rows.Scan(&m.Owner, &m.Version, &m.Name, &m.SHA256); err != nil {
			return nil, err
		}
		applied = append(applied, m)
	}
	return applied, rows.Err()
}

// CheckMigrations returns an error unless the migrations of a copy are known: ErrNewer if a newer
// Quoin has made it.
func CheckMigrations(owners []Owner, copied []AppliedMigration) error {
	return checkKnown(append([]Owner{self}, owners...), copied)
}

// checkKnown is CheckMigrations for owners that include the store.
func checkKnown(owners []Owner, applied []AppliedMigration) error {
	if !slices.ContainsFunc(applied, func(a AppliedMigration) bool { return a.Owner == self.Name }) {
		return errors.New("it has no tables of Quoin")
	}
	known := map[string][]migration{}
	for _, owner := range owners {
		all, err := owner.migrations()
		if err != nil {
			return err
		}
		known[owner.Name] = all
	}
	for _, a := range applied {
		all := known[a.Owner]
		switch i := slices.IndexFunc(all, func(m migration) bool { return m.version == a.Version }); {
		case i < 0:
			return fmt.Errorf("%w: it has migration %s of %s, which this one does not know; use the newer Quoin", ErrNewer, a.Name, a.Owner)
		case all[i].sha256 != a.SHA256:
			return fmt.Errorf("migration %s of %s differs from the %s of this Quoin", a.Name, a.Owner, all[i].name)
		}
	}
	return nil
}

// columns returns the columns of a table that are copied; none if the table does not exist. The number
// of a row that SQLite assigns is not content.
func (s *Store) columns(ctx context.Context, q Querier, table string) (all []column, err error) {
	query := "SELECT column_name, data_type FROM information_schema.columns WHERE table_schema = current_schema() AND table_name = $1 ORDER BY ordinal_position"
	if s.dialect == SQLite {
		query = "SELECT name, type FROM pragma_table_info($1) WHERE NOT (type = 'INTEGER' AND pk > 0)"
	}
	rows, err := q.QueryContext(ctx, query, table)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var c column
		if err := rows.Scan(&c.name, &c.kind); err != nil {
			return nil, err
		}
		switch c.kind {
		case "bytea", "BLOB":
			c.kind = bytesColumn
		case "boolean", "BOOLEAN":
			c.kind = boolColumn
		case "tsvector":
			c.kind = wordsColumn
		default:
			c.kind = ""
		}
		all = append(all, c)
	}
	return all, rows.Err()
}

func (s *Store) dumpTable(ctx context.Context, q Querier, table string, write func(Record) error) error {
	columns, err := s.columns(ctx, q, table)
	if err != nil || len(columns) == 0 {
		return err // a later migration of this Quoin creates the table
	}
	names, selected := make([]string, len(columns)), make([]string, len(columns))
	for i, c := range columns {
		names[i], selected[i] = c.name, c.name
		if c.kind == wordsColumn {
			selected[i] = "array_to_string(tsvector_to_array(" + c.name + "), ' ')"
		}
	}
	if err := write(Record{Table: table, Columns: names}); err != nil {
		return err
	}
	rows, err := q.QueryContext(ctx, "SELECT "+strings.Join(selected, ", ")+" FROM "+table)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		row, to := make([]any, len(columns)), make([]any, len(columns))
		for i := range row {
			to[i] = &row[i]
		}
		if err := rows.Scan(to...); err != nil {
			return err
		}
		for i, c := range columns {
			if data, ok := row[i].([]byte); ok && c.kind != bytesColumn {
				row[i] = string(data)
			}
			if n, ok := row[i].(int64); ok && c.kind == boolColumn {
				row[i] = n != 0
			}
		}
		if err := write(Record{Row: row}); err != nil {
			return err
		}
	}
	return rows.Err()
}
