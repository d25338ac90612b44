package store_test

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-dev/quoin/internal/store"
	"github.com/quoin-dev/quoin/internal/store/postgrestest"
	"github.com/quoin-dev/quoin/internal/store/storetest"
)

// notes is an owner with a column of each kind, and with a second migration.
func notes(migrations int) store.Owner {
	files := fstest.MapFS{"migrations/0001_note.sql": {Data: []byte(`CREATE TABLE note (
		{{if not .PostgreSQL}}number INTEGER PRIMARY KEY,{{end}}
		account_uid TEXT NOT NULL REFERENCES account (uid) ON UPDATE CASCADE,
		id BIGINT NOT NULL,
		data {{if .PostgreSQL}}BYTEA{{else}}BLOB{{end}} NOT NULL,
		words {{if .PostgreSQL}}TSVECTOR{{else}}TEXT{{end}} NOT NULL,
		shown BOOLEAN NOT NULL DEFAULT TRUE,
		missing TEXT);`)}}
	if migrations > 1 {
		files["migrations/0002_title.sql"] = &fstest.MapFile{Data: []byte(`ALTER TABLE note ADD COLUMN title TEXT NOT NULL DEFAULT '';
			UPDATE note SET title = 'migrated';`)}
	}
	return store.Owner{Name: "note", Migrations: files, Tables: []string{"note"}}
}

// filled returns a database with a row.
func filled(t *testing.T, url string) string {
	t.Helper()
	s, err := store.Open(t.Context(), url, nil, notes(1))
	if err != nil {
		t.Fatal(err)
	}
	err = s.Tx(t.Context(), func(tx *store.Tx) error {
		if err := tx.LockAccount(t.Context(), store.Account{UID: "u1", Name: "demo"}); err != nil {
			return err
		}
		if _, err := tx.NextID(t.Context(), "u1", "note"); err != nil {
			return err
		}
		_, err := tx.ExecContext(t.Context(), "INSERT INTO note (account_uid, id, data, words) VALUES ($1, $2, $3, $4)", "u1", int64(1)<<53-1, []byte{0, 1, 0xff}, "amber blue-9")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return url
}

// dumped returns the records of a database, after JSON.
func dumped(t *testing.T, url string, owner store.Owner) (records []store.Record) {
	t.Helper()
	err := store.Dump(t.Context(), url, []store.Owner{owner}, func(r store.Record) error {
		text, err := json.Marshal(r)
		if err != nil {
			return err
		}
		decoder := json.NewDecoder(strings.NewReader(string(text)))
		decoder.UseNumber()
		var read store.Record
		if err := decoder.Decode(&read); err != nil {
			return err
		}
		records = append(records, read)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return records
}

// iterate returns the records, and then an error.
func iterate(records []store.Record, end error) func() (store.Record, error) {
	return func() (store.Record, error) {
		if len(records) == 0 {
			return store.Record{}, end
		}
		next := records[0]
		records = records[1:]
		return next, nil
	}
}

// A copy of each database can be loaded in each, and is the same again.
func TestDumpAndLoad(t *testing.T) {
	server := postgrestest.StartServer(t)
	databases := map[string]func(testing.TB) string{"SQLite": storetest.SQLiteURL, "PostgreSQL": server.Database}
	for from, source := range databases {
		for to, target := range databases {
			t.Run(from+" to "+to, func(t *testing.T) {
				records, url := dumped(t, filled(t, source(t)), notes(1)), target(t)
				owners := []store.Owner{notes(1)}
				broken := errors.New("broken")
				if _, err := store.Load(t.Context(), url, nil, owners, "one", iterate(records, broken)); !errors.Is(err, broken) {
					t.Errorf("broken copy: %v", err)
				}
				if err := store.CheckLoad(t.Context(), url, owners, "one"); err != nil {
					t.Errorf("after a broken copy: %v", err)
				}
				for _, want := range []bool{true, false} { // the second time it changes nothing
					if loaded, err := store.Load(t.Context(), url, nil, owners, "one", iterate(records, io.EOF)); loaded != want || err != nil {
						t.Errorf("loaded %v: %v", loaded, err)
					}
				}
				if diff := cmp.Diff(records, dumped(t, url, notes(1))); diff != "" {
					t.Errorf("copy of the copy (-first +second):\n%s", diff)
				}
				if _, err := store.Load(t.Context(), url, nil, owners, "two", iterate(records, io.EOF)); !errors.Is(err, store.ErrNotEmpty) {
					t.Errorf("another copy: %v", err)
				}
			})
		}
	}
}

// The rows of an older copy are migrated; a newer copy is rejected before anything is written.
func TestLoadMigrates(t *testing.T) {
	storetest.ForEach(t, func(t *testing.T, newDatabase func(testing.TB) string) {
		records := dumped(t, filled(t, newDatabase(t)), notes(1))
		url := newDatabase(t)
		newer := []store.Owner{notes(2)}
		if _, err := store.Load(t.Context(), url, nil, newer, "one", iterate(records, io.EOF)); err != nil {
			t.Fatal(err)
		}
		title := ""
		read(t, url, newer, func(q store.Querier) error {
			return q.QueryRowContext(t.Context(), "SELECT title FROM note").Scan(&title)
		})
		if title != "migrated" {
			t.Errorf("title %q", title)
		}
		if err := store.CheckMigrations([]store.Owner{notes(1)}, dumped(t, url, notes(2))[0].Migrations); !errors.Is(err, store.ErrNewer) {
			t.Errorf("newer copy: %v", err)
		}
		_, err := store.Load(t.Context(), newDatabase(t), nil, []store.Owner{notes(1)}, "one", iterate(dumped(t, url, notes(2)), io.EOF))
		if !errors.Is(err, store.ErrNewer) {
			t.Errorf("newer copy: %v", err)
		}
		url = newDatabase(t)
		read(t, url, newer, func(store.Querier) error { return nil })
		if _, err := store.Load(t.Context(), url, nil, newer, "one", iterate(records, io.EOF)); err == nil || !strings.Contains(err.Error(), "the copy is from before it") {
			t.Errorf("older copy in a newer database: %v", err)
		}
	})
}

// A copy of a SQLite database by an earlier release has numbers for booleans.
func TestLoadNumbersAsBooleans(t *testing.T) {
	storetest.ForEach(t, func(t *testing.T, newDatabase func(testing.TB) string) {
		records := dumped(t, filled(t, storetest.SQLiteURL(t)), notes(1))
		for _, r := range records {
			for i, value := range r.Row {
				if value == true {
					r.Row[i] = json.Number("1")
				}
			}
		}
		url, shown := newDatabase(t), false
		if _, err := store.Load(t.Context(), url, nil, []store.Owner{notes(1)}, "one", iterate(records, io.EOF)); err != nil {
			t.Fatal(err)
		}
		read(t, url, []store.Owner{notes(1)}, func(q store.Querier) error {
			return q.QueryRowContext(t.Context(), "SELECT shown FROM note").Scan(&shown)
		})
		if !shown {
			t.Error("the boolean is false")
		}
	})
}

// Names in a copy are not trusted.
func TestLoadRejectsUnknownNames(t *testing.T) {
	migrations := dumped(t, filled(t, storetest.SQLiteURL(t)), notes(1))[0]
	for name, tc := range map[string]struct {
		records []store.Record
		want    string
	}{
		"table":   {[]store.Record{{Table: "sqlite_master", Columns: []string{"name"}}}, "not a table of content"},
		"column":  {[]store.Record{{Table: "note", Columns: []string{"id) SELECT 1; --"}}}, "does not exist"},
		"values":  {[]store.Record{{Table: "note", Columns: []string{"id"}}, {Row: []any{"1", "2"}}}, "2 values for 1 columns"},
		"no name": {[]store.Record{{Row: []any{"1"}}}, "rows without a table"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := store.Load(t.Context(), storetest.SQLiteURL(t), nil, []store.Owner{notes(1)}, "one", iterate(append([]store.Record{migrations}, tc.records...), io.EOF))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
}

// The copy is made while another process uses the file, and is that of one point in time.
func TestDumpWhileInUse(t *testing.T) {
	url := filled(t, storetest.SQLiteURL(t))
	s, err := store.Open(t.Context(), url, nil, notes(1))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	rows := 0
	err = store.Dump(t.Context(), url, []store.Owner{notes(1)}, func(r store.Record) error {
		if r.Row != nil {
			rows++
		}
		return s.Tx(t.Context(), func(tx *store.Tx) error {
			_, err := tx.ExecContext(t.Context(), "INSERT INTO note (account_uid, id, data, words) VALUES ('u1', 2, '', '')")
			return err
		})
	})
	if err != nil || rows != 3 {
		t.Errorf("%d rows of an account, a sequence and a note: %v", rows, err)
	}
	for _, url := range []string{storetest.SQLiteURL(t), "mysql://host"} {
		if err := store.Dump(t.Context(), url, nil, nil); err == nil {
			t.Errorf("%s was copied", url)
		}
	}
}

func read(t *testing.T, url string, owners []store.Owner, work func(store.Querier) error) {
	t.Helper()
	s, err := store.Open(t.Context(), url, nil, owners...)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	if err := s.Read(t.Context(), work); err != nil {
		t.Fatal(err)
	}
}
