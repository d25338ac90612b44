package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
)

// The bounds of Changes, in bytes of JSON.
const (
	// mostChanges is what is stored. Fields that do not fit are there by name.
	mostChanges = 16 << 10
	// mostChangesGiven is what is looked into for secrets. Of more nothing is stored but its size.
	mostChangesGiven = 256 << 10
	// mostText is what is stored of one string in it.
	mostText = 1 << 10
)

var errMoreJSON = errors.New("something follows the JSON value")

// change is what happened to one field. Neither is there when the field was not.
type change struct {
	Before json.RawMessage `json:"before,omitempty"`
	After  json.RawMessage `json:"after,omitempty"`
}

// Diff tells how the JSON of two values differs, as Changes has it: a field of an object in an
// object is named with a dot, {"spec.size": {"before": "Shared", "after": "Large"}}; lists are
// compared whole. A nil value is one that did not exist, or does not any more.
func Diff(before, after any) (map[string]any, error) {
	changes := map[string]any{}
	fields := [2]map[string]any{{}, {}}
	for i, value := range []any{before, after} {
		text, err := json.Marshal(value)
		if err != nil {
			return nil, fmt.Errorf("compare: %w", err)
		}
		decoded, err := decode(text)
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

// flatten collects the fields of a value by their paths. null is a field that is not there.
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
	text, err := encode(value)
	if err != nil {
		return nil // it was decoded from JSON
	}
	return text
}

// encode writes JSON without escapes but those that JSON asks for.
func encode(value any) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), nil
}

// prepareChanges is the JSON that is stored: masked, valid and at most mostChanges long. What is
// not JSON becomes a string of it.
func prepareChanges(given json.RawMessage) json.RawMessage {
	if len(bytes.TrimSpace(given)) == 0 {
		return nil
	}
	if len(given) > mostChangesGiven {
		return quoted(cutMark(len(given)))
	}
	value, err := decode(given)
	if err != nil {
		value = clean(string(given))
	}
	text, err := encode(fit(cutTexts(maskValue(value, 0)), mostChanges))
	if err != nil || len(text) > mostChanges {
		return quoted(cutMark(len(given)))
	}
	return text
}

// cutMark stands for JSON that is left out.
func cutMark(size int) string { return fmt.Sprintf("[CUT: %d bytes]", size) }

func quoted(text string) json.RawMessage { return json.RawMessage(`"` + text + `"`) }

// cutTexts cuts the strings in a value and in the names of fields.
func cutTexts(value any) any {
	switch v := value.(type) {
	case string:
		return cut(v, mostText)
	case []any:
		for i := range v {
			v[i] = cutTexts(v[i])
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			inner := cutTexts(v[name])
			delete(v, name)
			v[cut(name, mostName)] = inner
		}
	}
	return value
}

const (
	// leastObject is the room in which an object is worth showing.
	leastObject = 64
	// fieldRoom is what the mark of one field needs, besides its name.
	fieldRoom = len(`:"[CUT: 4194304 bytes]",`)
)

// fit is a value whose JSON has at most so many bytes. Of an object every field stays by name, as
// far as even the names fit.
func fit(value any, most int) any {
	size := encodedLength(value)
	if size <= most {
		return value
	}
	object, ok := value.(map[string]any)
	if !ok || most < leastObject {
		return cutMark(size)
	}
	names := slices.Sorted(maps.Keys(object))
	room := most - len(`{"[CUT]":"1000000 fields"}`)
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
	text, err := encode(value)
	if err != nil {
		return 0 // it came out of JSON
	}
	return len(text)
}
