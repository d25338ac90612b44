package query

import (
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode"
)

// InvalidError is a query that is not run because a field of it is not valid.
type InvalidError struct {
	Field, Reason string
}

// Error implements error.
func (e *InvalidError) Error() string { return e.Field + ": " + e.Reason }

// Limits of a run.
type Limits struct {
	// Rows of the result.
	Rows int
	// Bytes of the response of the data plane.
	Bytes int64
	// Duration of the run, with all waits for the data plane.
	Duration time.Duration
}

// DefaultLimits are those of a report that a person waits for. The rows are as many as the server returns at most
// (CUBEJS_DB_QUERY_LIMIT).
var DefaultLimits = Limits{Rows: 50_000, Bytes: 32 << 20, Duration: 110 * time.Second}

// LimitError is a run that was ended by a limit. There is no partial result.
type LimitError struct {
	// Limit is rows, bytes or duration.
	Limit string
	// Allowed is the value of the limit.
	Allowed string
}

// Error implements error.
func (e *LimitError) Error() string {
	switch e.Limit {
	case "duration":
		return fmt.Sprintf("the query was cancelled after %s, the limit: narrow it with filters, or add a pre-aggregation to the model", e.Allowed)
	default:
		return fmt.Sprintf("the result has more than %s %s, the limit: narrow it with filters or a smaller LIMIT", e.Allowed, e.Limit)
	}
}

// ServerError is a refusal or failure that the gateway or the data plane reports.
type ServerError struct {
	// Status is the HTTP status. It is 200 if the server reports the failure of a query that it had begun to answer.
	Status int
	// Message of the server.
	Message string
	// RequestID is in the logs of the gateway and the server.
	RequestID string
}

// Error implements error.
func (e *ServerError) Error() string {
	return fmt.Sprintf("the data API answered: %s (request id %s)", e.Message, e.RequestID)
}

// UnavailableError is a data API that does not answer, or not as documented. It has no addresses.
type UnavailableError struct{ Reason string }

// Error implements error.
func (e *UnavailableError) Error() string { return e.Reason }

// Forbidden reports whether the token does not permit the query, as opposed to a query that has no rows.
func (e *ServerError) Forbidden() bool {
	return e.Status == http.StatusForbidden || e.HiddenMember()
}

// HiddenMember reports whether the query has a member that exists and that the token does not permit. Versions of the server differ in
// whether the message begins with the class of the error.
func (e *ServerError) HiddenMember() bool {
	return strings.HasPrefix(strings.TrimPrefix(e.Message, "Error: "), "You requested hidden member")
}

// maxMessage is how much of a message of a server is shown.
const maxMessage = 2000

// clip returns a text for readers: its beginning, without control characters.
func clip(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD"))
	if len(text) > maxMessage {
		text = strings.ToValidUTF8(text[:maxMessage], "") + "…"
	}
	return strings.TrimSpace(text)
}
