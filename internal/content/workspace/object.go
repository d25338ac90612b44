package workspace

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/store"
)

// MaxObject is the maximum size of an opaque JSON object in bytes, in canonical form.
const MaxObject = 1 << 20

// Object is a JSON object whose numbers are json.Number.
type Object = map[string]any

// encode returns an object in canonical form: the names in order, without white space. Equal objects
// have the same form.
func encode(field string, o Object) (string, error) {
	if o == nil {
		o = Object{}
	}
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(o); err != nil {
		return "", fmt.Errorf("encode %s: %w", field, err)
	}
	if text.Len()-1 > MaxObject {
		return "", content.Errorf(content.Invalid, "%s: it has %d bytes; allowed: %d", field, text.Len()-1, MaxObject)
	}
	return strings.TrimSuffix(text.String(), "\n"), nil
}

// Decode returns a JSON object.
func Decode(text []byte) (Object, error) {
	o := Object{}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	err := decoder.Decode(&o)
	return o, err
}

// merged returns an object with the properties of another one in addition. A property that is null in
// the other one is left out.
func merged(o, with Object) Object {
	out := Object{}
	maps.Copy(out, o)
	for name, value := range with {
		if value == nil {
			delete(out, name)
		} else {
			out[name] = value
		}
	}
	return out
}

// readLong reads the opaque parts of items of a table that have none yet.
func (f *feedStatement) readLong(ctx context.Context, q store.Querier, table string, items map[int64]*Item) error {
	var wanted []int64
	for id, i := range items {
		if i.Meta == "" {
			wanted = append(wanted, id)
		}
	}
	query := "SELECT id, meta FROM " + table + " WHERE account_uid = $1 AND deployment_uid = $2 AND id IN (%s)"
	return eachOf(ctx, q, query, []any{f.scope.Account.UID, f.scope.Deployment.UID}, wanted, func(rows *sql.Rows) error {
		var id int64
		var meta string
		err := rows.Scan(&id, &meta)
		if i := items[id]; err == nil && i != nil {
			i.Meta = meta
		}
		return err
	})
}
