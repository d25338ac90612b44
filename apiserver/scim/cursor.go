package scim

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"time"

	"github.com/quoin-dev/quoin/apiserver/scim/scimerror"
)

// cursorLifetime is the validity of a cursor (RFC 9865 section 2).
const cursorLifetime = time.Hour

// cursor identifies the next page of a list by keyset pagination. It is stateless: any replica
// continues after the last resource of the page, whatever was created or deleted meanwhile.
type cursor struct {
	// Type is the name of the resource type with which the next page begins.
	Type string `json:"y"`
	// Position of the last resource on the page; nil if the page has no resource of the type.
	Position *Position `json:"p,omitempty"`
	// Query is the hash of tenant, filter and order.
	Query []byte `json:"q"`
	// Issued is the time of issue in seconds since the Unix epoch.
	Issued int64 `json:"a"`
}

// queryHash returns a hash that identifies a list.
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
		return nil, scimerror.Bad(scimerror.InvalidCursor, "cursor: %s was not issued by this service", scimerror.Quote(s))
	}
	if string(c.Query) != string(query) {
		return nil, scimerror.Bad(scimerror.InvalidCursor, "cursor: was issued for a list with another filter or order")
	}
	issued := time.Unix(c.Issued, 0)
	if now.Sub(issued) > cursorLifetime || issued.Sub(now) > time.Minute {
		return nil, scimerror.Bad(scimerror.ExpiredCursor, "cursor: expired at %s; start again with an empty cursor", issued.Add(cursorLifetime).UTC().Format(time.RFC3339))
	}
	return c, nil
}
