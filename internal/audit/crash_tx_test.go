package audit

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/uuid"

	"github.com/quoin-dev/quoin/internal/store"
	"github.com/quoin-dev/quoin/internal/store/storetest"
)

// childContentURL makes the test binary a process that changes content and records events in the
// same transactions, until it is killed.
const childContentURL = "QUOIN_AUDIT_CHILD_CONTENT_URL"

// content owns a table of content for these tests.
var content = store.Owner{Name: "content", Migrations: fstest.MapFS{
	"migrations/0001_note.sql": {Data: []byte("CREATE TABLE note (id TEXT PRIMARY KEY)")},
}}

// changeContent writes to standard output how far each transaction is. It pauses between the steps,
// so that it can be killed there.
func changeContent(url string) error {
	ctx := context.Background()
	s, err := store.Open(ctx, url, nil, Owner, content)
	if err != nil {
		return err
	}
	for {
		id := uuid.Must(uuid.NewV7())
		step := func(what string) {
			report(what, id)
			time.Sleep(time.Millisecond)
		}
		err := s.Tx(ctx, func(tx *store.Tx) error {
			step("begun")
			if _, err := tx.ExecContext(ctx, "INSERT INTO note VALUES ($1)", id.String()); err != nil {
				return err
			}
			step("written")
			defer step("recorded")
			return RecordTx(ctx, tx, Event{ID: id, Account: "demo", Name: CreatedObject, Source: SourceREST, Actor: Actor{Kind: ActorKey}})
		})
		if err != nil {
			return err
		}
		step("committed")
	}
}

func TestKillBetweenContentAndEvent(t *testing.T) {
	storetest.ForEach(t, func(t *testing.T, newDatabase func(testing.TB) string) {
		url, committed := newDatabase(t), map[string]bool{}
		for i, step := range []string{"written", "recorded", "begun", "committed", "written", "recorded"} {
			killAt(t, url, step, 5+i, committed)
			checkContent(t, url, committed)
		}
	})
}

// killAt runs the child and kills it when it reports a step for the nth time.
func killAt(t *testing.T, url, step string, nth int, committed map[string]bool) {
	t.Helper()
	times := 0
	storetest.KillChild(t, childContentURL, url, func(line string) bool {
		what, id, _ := strings.Cut(line, " ")
		if what == "committed" {
			committed[id] = true
		}
		if what == step {
			times++
		}
		return times == nth
	})
}

// checkContent compares content with events, and both with what was acknowledged.
func checkContent(t *testing.T, url string, committed map[string]bool) {
	t.Helper()
	s, err := store.Open(t.Context(), url, nil, Owner, content)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	ids := func(query string) map[string]bool {
		rows, err := s.Reader().QueryContext(t.Context(), query)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = rows.Close() }()
		found := map[string]bool{}
		for rows.Next() {
			var id string
			if err := rows.Scan(&id); err != nil {
				t.Fatal(err)
			}
			found[id] = true
		}
		return found
	}
	notes, events := ids("SELECT id FROM note"), ids("SELECT id FROM audit_event")
	if fmt.Sprint(notes) != fmt.Sprint(events) {
		t.Errorf("%d changes and %d events differ", len(notes), len(events))
	}
	for id := range committed {
		if !notes[id] {
			t.Errorf("change %s was acknowledged and is lost", id)
		}
	}
}
