package rest

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/url"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/types"
)

// listID identifies a list: the operation, the account, the path and the parameters that filter or
// sort it. A cursor is valid for the list in which it was issued only.
type listID string

// pageParameters choose a page of a list and are not part of its identity.
var pageParameters = []string{"first", "after", "offset", "limit", "page"}

func newListID(operationID string, account types.UID, path string, query url.Values) listID {
	var filters []string
	for name, values := range query {
		if !slices.Contains(pageParameters, name) {
			filters = append(filters, url.Values{name: values}.Encode())
		}
	}
	slices.Sort(filters)
	text := make([]byte, 0, 256)
	for _, part := range [...]string{operationID, string(account), path} {
		text = strconv.AppendQuote(text, part)
	}
	for _, filter := range filters {
		text = strconv.AppendQuote(text, filter)
	}
	sum := sha256.Sum256(text)
	return listID(base64.RawURLEncoding.EncodeToString(sum[:9]))
}

// cursorVersion changes with the format of cursors or keys.
const cursorVersion = 1

// cursor is the position of an item in a list.
type cursor struct {
	Version int             `json:"v"`
	List    listID          `json:"l"`
	Key     json.RawMessage `json:"k"`
}

// encodeCursor returns the cursor of the item with a key. Keys are JSON values.
func encodeCursor(list listID, key any) (string, error) {
	// A key can have a name of 255 characters: if < > & were escaped, a cursor could be longer than what the parameter accepts.
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(key); err != nil {
		return "", err
	}
	k := bytes.TrimSpace(text.Bytes())
	// A cursor in JSON, without the cost of encoding it. Nothing in a list ID needs quoting.
	data := make([]byte, 0, len(`{"v":1,"l":"","k":}`)+len(list)+len(k))
	data = strconv.AppendInt(append(data, `{"v":`...), cursorVersion, 10)
	data = append(append(data, `,"l":"`...), list...)
	data = append(append(append(data, `","k":`...), k...), '}')
	return base64.RawURLEncoding.EncodeToString(data), nil
}

// decodeCursor returns the key of a cursor. The error has status 400 if the cursor is not one of the
// list.
func decodeCursor[K any](list listID, text string) (K, error) {
	var key K
	var c cursor
	data, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err == nil {
		err = decodeExactly(data, &c)
	}
	if err == nil && c.Version == cursorVersion && c.List == list && len(c.Key) > 0 && decodeExactly(c.Key, &key) == nil {
		return key, nil
	}
	var none K
	return none, BadRequest("after: %q is not a cursor of this list: use endCursor of the page before", Clip(text))
}

// decodeExactly decodes one JSON value without unknown properties.
func decodeExactly(data []byte, v any) error {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(v); err != nil {
		return err
	}
	if _, err := decoder.Token(); err != io.EOF {
		return io.ErrUnexpectedEOF
	}
	return nil
}
