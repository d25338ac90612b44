package backup

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/quoin-dev/quoin/internal/store"
)

// loaded is content that has been loaded before: as store.Load, it reads the first record only.
type loaded struct{ Content }

func (loaded) Load(_ context.Context, _ Header, next func() (store.Record, error)) error {
	_, err := next()
	return err
}

// TestMain runs the program as the command of a pod: `quoin restore --content-only --file -`.
func TestMain(m *testing.M) {
	if os.Getenv("QUOIN_TEST_LOAD") == "" {
		os.Exit(m.Run())
	}
	if _, err := LoadOnly(context.Background(), os.Stdin, loaded{}); err != nil {
		_, _ = os.Stderr.WriteString(err.Error())
		os.Exit(1)
	}
}

// random is a text that compression does not shorten to less than a pipe holds.
func random(n int) string {
	var out strings.Builder
	for x := uint64(1); out.Len() < n; {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		out.WriteByte('!' + byte(x%90))
	}
	return out.String()
}

// records returns a copy with more rows than a pipe holds.
func records(rows int) func() (store.Record, error) {
	sent := -1
	return func() (store.Record, error) {
		if sent++; sent == 0 {
			return store.Record{Migrations: []store.AppliedMigration{{Owner: "store"}}}, nil
		} else if sent > rows {
			return store.Record{}, io.EOF
		}
		return store.Record{Row: []any{random(64 << 10)}}, nil
	}
}

// A restore whose content is in the database already, because it was interrupted after that, succeeds with a command too: the
// command reads the whole archive, although it needs nothing of it.
func TestCommandRepeated(t *testing.T) {
	t.Setenv("QUOIN_TEST_LOAD", "1")
	command := Command{Args: []string{os.Args[0]}, Stderr: io.Discard}
	h := Header{Format: Format, ID: "one", Content: true}
	if err := command.Load(t.Context(), h, records(64)); err != nil {
		t.Errorf("repeated: %v", err)
	}
}

// What is loaded already is not loaded from a truncated archive with success.
func TestLoadOnlyReadsAll(t *testing.T) {
	var archive bytes.Buffer
	if err := sendContent(&archive, Header{Format: Format, ID: "one", Content: true}, records(2)); err != nil {
		t.Fatal(err)
	}
	whole := archive.Bytes()
	if summary, err := LoadOnly(t.Context(), bytes.NewReader(whole), loaded{}); err != nil || summary.Rows != 0 {
		text, _ := json.Marshal(summary)
		t.Errorf("%s, %v", text, err)
	}
	if _, err := LoadOnly(t.Context(), bytes.NewReader(whole[:len(whole)/2]), loaded{}); err == nil {
		t.Error("a truncated archive was accepted")
	}
}
