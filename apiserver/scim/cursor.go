package scim

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"time"

	"github.com/quoin-dev/quoin/apiserver/scim/scimerror"
)

// cursorLifetime is how long a cursor is good (RFC 9865 section 2).
const cursorLifetime = time.Hour

// cursor is where a client goes on in a list. Nothing is kept for it on the server: any replica
// continues behind the resource that was last on the page, whatever came and went meanwhile.
type cursor struct {
	// Type is the name of the resource type that the next page begins in.
	Type string `json:"y"`
	// Position of the last resource on the page; nil when no resource of the type was on it.
	Position *Position `json:"p,omitempty"`
	// Query is the hash of what the cursor is for: tenant, filter, order.
	Query []byte `json:"q"`
	// Issued is when, in seconds since 1970.
	Issued int64 `json:"a"`
}

// queryHash tells lists apart.
func queryHash(parts ...string) []byte {
	h := sha256.New()
	for _, part := range parts {
		h.Write([]byte(part))
		h.Write([]byte{0})
	}
	return h.Sum(nil)[:12]
}

func (c *cursor) String() string {
	data, err := json.Marshal(c)
	if err != nil {
		return "" // cannot happen: all fields are always encoded
	}
	return base64.RawURLEncoding.EncodeToString(data)
}

func parseCursor(s string, query []byte, now time.Time) (*cursor, error) {
	data, err := base64.RawURLEncoding.DecodeString(s)
	c := &cursor{}
	if err != nil || json.Unmarshal(data, c) != nil || c.Type == "" || c.Position != nil && c.Position.ID == "" {
		return nil, scimerror.Bad(scimerror.InvalidCursor, "cursor: %s was not given out here", scimerror.Quote(s))
	}
	if string(c.Query) != string(query) {
		return nil, scimerror.Bad(scimerror.InvalidCursor, "cursor: is for a list with another filter or order")
	}
	issued := time.Unix(c.Issued, 0)
	if now.Sub(issued) > cursorLifetime || issued.Sub(now) > time.Minute {
		return nil, scimerror.Bad(scimerror.ExpiredCursor, "cursor: was good until %s; begin anew with an empty cursor", issued.Add(cursorLifetime).UTC().Format(time.RFC3339))
	}
	return c, nil
}
