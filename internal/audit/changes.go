package audit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/quoin-dev/quoin/internal/masking"
)

// The bounds of Changes, in bytes of JSON.
const (
	// maxChanges bounds what is stored. Of fields that do not fit only the names are stored.
	maxChanges = 16 << 10
	// maxChangesInput bounds what is searched for secrets. Of larger input only the size is stored.
	maxChangesInput = 256 << 10
	// maxText bounds one string in it.
	maxText = 1 << 10
)

// change is the value of a field before and after; absent if the field was.
type change struct {
	Before json.RawMessage `json:"before,omitempty"`
	After  json.RawMessage `json:"after,omitempty"`
}

// Diff returns how the JSON of two values differs, in the form of Changes: nested fields are named
// with dots, {"spec.size": {"before": "Shared", "after": "Large"}}; lists are compared as a whole. A
// nil value does not exist.
func Diff(before, after any) (map[string]any, error) {
	changes := map[string]any{}
	fields := [2]map[string]any{{}, {}}
	for i, value := range []any{before, after} {
		text, err := json.Marshal(value)
		if err != nil {
			return nil, fmt.Errorf("compare: %w", err)
		}
		decoded, err := masking.DecodeJSON(text)
		if err != nil {
			return nil, fmt.Errorf("compare: %w", err)
		}
		flatten(fields[i], "", decoded)
	}
	for name := range fields[0] {
		if _, kept := fields[1][name]; !kept {
			fields[1][name] = nil
		}
	}
	for name, new := range fields[1] {
		old := fields[0][name]
		if reflect.DeepEqual(old, new) {
			continue
		}
		changes[name] = change{rawUnlessNil(old), rawUnlessNil(new)}
	}
	return changes, nil
}

// DiffJSON returns Diff as JSON, for Event.Changes.
func DiffJSON(before, after any) (json.RawMessage, error) {
	changes, err := Diff(before, after)
	if err != nil || len(changes) == 0 {
		return nil, err
	}
	return masking.EncodeJSON(changes)
}

// flatten collects the fields of a value by their paths. A null field is absent.
func flatten(into map[string]any, path string, value any) {
	object, ok := value.(map[string]any)
	if !ok || len(object) == 0 && path != "" {
		if value != nil {
			into[path] = value
		}
		return
	}
	for name, inner := range object {
		if path != "" {
			name = path + "." + name
		}
		flatten(into, name, inner)
	}
}

func rawUnlessNil(value any) json.RawMessage {
	if value == nil {
		return nil
	}
	text, err := masking.EncodeJSON(value)
	if err != nil {
		return nil // it was decoded from JSON
	}
	return text
}

// prepareChanges returns the JSON that is stored: masked, valid and at most maxChanges long. Input
// that is not JSON becomes a JSON string.
func prepareChanges(input json.RawMessage) json.RawMessage {
	if len(bytes.TrimSpace(input)) == 0 {
		return nil
	}
	if len(input) > maxChangesInput {
		return quoted(cutMark(len(input)))
	}
	value, err := masking.DecodeJSON(input)
	if err != nil {
		value = clean(string(input))
	}
	text, err := masking.EncodeJSON(fit(cutTexts(masking.Value(value)), maxChanges))
	if err != nil || len(text) > maxChanges {
		return quoted(cutMark(len(input)))
	}
	return text
}

// cutMark returns the text that replaces JSON that is left out.
func cutMark(size int) string { return fmt.Sprintf("[CUT: %d bytes]", size) }

func quoted(text string) json.RawMessage { return json.RawMessage(`"` + text + `"`) }

// cutTexts truncates the strings in a value and the names of its fields.
func cutTexts(value any) any {
	switch v := value.(type) {
	case string:
		return cut(v, maxText)
	case []any:
		for i := range v {
			v[i] = cutTexts(v[i])
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			inner := cutTexts(v[name])
			delete(v, name)
			v[cut(name, maxName)] = inner
		}
	}
	return value
}

const (
	// minObject is the smallest size in which an object is shown field by field.
	minObject = 64
	// fieldRoom is the size of the mark of one field, without its name.
	fieldRoom = len(`:"[CUT: 4194304 bytes]",`)
)

// fit returns a value whose JSON has at most limit bytes. An object keeps the names of its fields, as
// many as fit.
func fit(value any, limit int) any {
	size := encodedLength(value)
	if size <= limit {
		return value
	}
	object, ok := value.(map[string]any)
	if !ok || limit < minObject {
		return cutMark(size)
	}
	names := slices.Sorted(maps.Keys(object))
	room := limit - len(`{"[CUT]":"1000000 fields"}`)
	shown := 0
	for ; shown < len(names) && room >= encodedLength(names[shown])+fieldRoom; shown++ {
		room -= encodedLength(names[shown]) + fieldRoom
	}
	fitted := map[string]any{}
	for _, name := range names[:shown] {
		value := fit(object[name], fieldRoom-len(`:,`)+room)
		room -= max(0, encodedLength(value)-(fieldRoom-len(`:,`)))
		fitted[name] = value
	}
	if rest := len(names) - shown; rest > 0 {
		fitted["[CUT]"] = fmt.Sprintf("%d fields", rest)
	}
	return fitted
}

func encodedLength(value any) int {
	text, err := masking.EncodeJSON(value)
	if err != nil {
		return 0 // it was decoded from JSON
	}
	return len(text)
}
