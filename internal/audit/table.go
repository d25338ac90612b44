package audit

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/quoin-dev/quoin/internal/store"
)

// columns of audit_event, in the order of row and scan; words is write-only.
var columns = []string{
	"id", "account", "time", "name", "outcome", "reason", "source", "actor_kind", "actor_id", "actor_email", "deployment_id", "deployment_name",
	"object_kind", "object_namespace", "object_name", "object_id", "ip", "request_id", "changes", "words",
}

// separator separates columns; clean removes it from texts.
const separator = "\x1f"

var (
	outcomeColumn = slices.Index(columns, "outcome")
	// selected is what scan reads: the time, and all other columns as one text, because the cost of
	// the drivers is per column, not per byte.
	selected = "time, CONCAT_WS('" + separator + "', " + strings.Join(slices.DeleteFunc(slices.Clone(columns[:len(columns)-1]), func(c string) bool { return c == "time" }), ", ") + ")"
	// onConflict replaces an attempt by an outcome, and never an outcome.
	onConflict = func() string {
		var set []string
		for _, c := range columns[1:] {
			set = append(set, c+" = excluded."+c)
		}
		return " ON CONFLICT (id) DO UPDATE SET " + strings.Join(set, ", ") + " WHERE audit_event.account = excluded.account AND audit_event.outcome = '" + string(Attempted) + "'"
	}()
)

// row returns the values of the columns.
func (e *Event) row() []any {
	return []any{
		e.ID.String(), e.Account, e.Time.UnixMicro(), e.Name, string(e.Outcome), e.Reason, string(e.Source),
		string(e.Actor.Kind), e.Actor.ID, e.Actor.Email, e.Deployment.ID, e.Deployment.Name,
		e.Object.Kind, e.Object.Namespace, e.Object.Name, e.Object.ID, e.IP, e.RequestID, string(e.Changes), e.indexed(),
	}
}

// upsert stores rows, each of a different event.
func upsert(ctx context.Context, tx *store.Tx, rows [][]any) error {
	per := tx.Dialect().RowsPerInsert()
	if whole := len(rows) / per * per; whole > per {
		statement, err := tx.PrepareContext(ctx, insertStatement(per))
		if err != nil {
			return fmt.Errorf("store events: %w", err)
		}
		defer func() { _ = statement.Close() }()
		for chunk := range slices.Chunk(rows[:whole], per) {
			if _, err := statement.ExecContext(ctx, slices.Concat(chunk...)...); err != nil {
				return fmt.Errorf("store events: %w", err)
			}
		}
		rows = rows[whole:]
	}
	if len(rows) == 0 {
		return nil
	}
	if _, err := tx.ExecContext(ctx, insertStatement(len(rows)), slices.Concat(rows...)...); err != nil {
		return fmt.Errorf("store events: %w", err)
	}
	return nil
}

// insertStatement returns the statement for a number of rows.
func insertStatement(rows int) string {
	text := &strings.Builder{}
	text.WriteString("INSERT INTO audit_event (" + strings.Join(columns, ", ") + ") VALUES ")
	for i := range rows * len(columns) {
		switch {
		case i == 0:
			text.WriteString("($")
		case i%len(columns) == 0:
			text.WriteString("), ($")
		default:
			text.WriteString(", $")
		}
		text.WriteString(strconv.Itoa(i + 1))
	}
	return text.String() + ")" + onConflict
}

// scan reads the selected columns.
func (e *Event) scan(rows *sql.Rows) error {
	var micros int64
	var text string
	if err := rows.Scan(&micros, &text); err != nil {
		return err
	}
	var id, changes string
	for _, field := range [...]*string{
		&id, &e.Account, &e.Name, (*string)(&e.Outcome), &e.Reason, (*string)(&e.Source), (*string)(&e.Actor.Kind), &e.Actor.ID, &e.Actor.Email,
		&e.Deployment.ID, &e.Deployment.Name, &e.Object.Kind, &e.Object.Namespace, &e.Object.Name, &e.Object.ID, &e.IP, &e.RequestID, &changes,
	} {
		*field, text, _ = strings.Cut(text, separator)
	}
	var err error
	if e.ID, err = uuid.Parse(id); err != nil {
		return err
	}
	e.Time = time.UnixMicro(micros).UTC()
	if changes != "" {
		e.Changes = json.RawMessage(changes)
	}
	return nil
}
