package query

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strconv"
	"time"
	_ "time/tzdata" // time zones do not depend on the machine
	"unicode/utf8"
)

// maxQuery is the largest query in bytes.
const maxQuery = 256 << 10

// Query is what is run. Exactly one of SQL and JSON is set.
type Query struct {
	// SQL is a statement of the semantic SQL dialect.
	SQL string
	// JSON is a query of /v1/load: an object.
	JSON json.RawMessage
	// TimeZone is a name of the IANA database; UTC if empty. The timezone of a JSON query takes precedence.
	TimeZone string
	// Cache selects the cached results that may be used; stale-if-slow if empty.
	Cache Cache
	// First is how many rows are returned at most; no limit of the query's own if 0. They are the first rows: unlike beyond
	// Limits, it is no error that there are more.
	First int
}

// Cache selects the cached results that the server may answer with.
type Cache string

// The modes of the server. Source: packages/cubejs-backend-shared/src/types.
const (
	StaleIfSlow          Cache = "stale-if-slow"
	StaleWhileRevalidate Cache = "stale-while-revalidate"
	MustRevalidate       Cache = "must-revalidate"
	NoCache              Cache = "no-cache"
)

// Target is where a query runs and on whose behalf.
type Target struct {
	// URL is the address of the data API with its base path, such as https://sales.data.example.com/cubejs-api.
	URL string
	// Identity stands for the security context of the tokens: equal identities see the same data. It is part of
	// what decides whether two runs are one.
	Identity string
	// Account is whose results these are, for Runner.MaxHeldOfAccount.
	Account string
	// Token returns a valid token. It is called for each request, since a query may take longer than a token is
	// valid.
	Token func(ctx context.Context) (string, error)
}

// normalize returns the query with its defaults, or an *InvalidError.
func (q Query) normalize() (Query, error) {
	if q.TimeZone == "" {
		q.TimeZone = "UTC"
	}
	if q.Cache == "" {
		q.Cache = StaleIfSlow
	}
	switch {
	case (q.SQL == "") == (len(q.JSON) == 0):
		return q, &InvalidError{"query", "exactly one of SQL and JSON is required"}
	case len(q.SQL)+len(q.JSON) > maxQuery:
		return q, &InvalidError{"query", fmt.Sprintf("%d bytes; the maximum is %d", len(q.SQL)+len(q.JSON), maxQuery)}
	case !utf8.ValidString(q.SQL):
		return q, &InvalidError{"sql", "not valid UTF-8"}
	}
	if err := checkZone(q.TimeZone); err != nil {
		return q, err
	}
	switch q.Cache {
	case StaleIfSlow, StaleWhileRevalidate, MustRevalidate, NoCache:
	default:
		return q, &InvalidError{"cache", fmt.Sprintf("%q; allowed: %s, %s, %s, %s", q.Cache, StaleIfSlow, StaleWhileRevalidate, MustRevalidate, NoCache)}
	}
	if q.First < 0 {
		return q, &InvalidError{"limit", fmt.Sprintf("%d; expected a positive number", q.First)}
	}
	if q.SQL != "" {
		return q, nil
	}
	return q.complete()
}

func checkZone(name string) error {
	if name == "Local" { // the zone of the machine, for the time package only
		return &InvalidError{"timezone", `"Local"; expected a name of the IANA time zone database, such as Europe/Berlin`}
	}
	if _, err := time.LoadLocation(name); err != nil {
		return &InvalidError{"timezone", fmt.Sprintf("%q; expected a name of the IANA time zone database, such as Europe/Berlin", clip(name))}
	}
	return nil
}

// complete returns a JSON query with its time zone and its number of rows in it.
func (q Query) complete() (Query, error) {
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(q.JSON, &fields); err != nil || fields == nil {
		return q, &InvalidError{"json", "expected a JSON object"}
	}
	if own, ok := fields["timezone"]; ok && string(own) != "null" {
		if err := json.Unmarshal(own, &q.TimeZone); err != nil {
			return q, &InvalidError{"json.timezone", "expected a string"}
		}
		if err := checkZone(q.TimeZone); err != nil {
			return q, err
		}
	}
	zone, err := json.Marshal(q.TimeZone)
	if err != nil {
		return q, err
	}
	fields["timezone"] = zone
	if own, err := strconv.Atoi(string(fields["limit"])); q.First > 0 && (err != nil || own <= 0 || own > q.First) {
		fields["limit"] = json.RawMessage(strconv.Itoa(q.First))
	}
	q.JSON, err = json.Marshal(fields)
	return q, err
}

// key is equal for runs that have the same result.
type key [sha256.Size]byte

func (q Query) key(t Target, l Limits) key {
	h := sha256.New()
	fmt.Fprintf(h, "%q %q %q %q %q %q %d %d %d %d", t.URL, t.Identity, q.SQL, q.JSON, q.TimeZone, q.Cache, q.First, l.Rows, l.Bytes, l.Duration)
	return key(h.Sum(nil))
}

// compact returns JSON without white space; the text itself if it is not JSON.
func compact(text json.RawMessage) string {
	var out bytes.Buffer
	if err := json.Compact(&out, text); err != nil {
		return string(text)
	}
	return out.String()
}
