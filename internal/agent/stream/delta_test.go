package stream

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// FuzzDelta compares the encoding of lines that append text with that of encoding/json.
func FuzzDelta(f *testing.F) {
	for _, text := range []string{"", "Twelve", "é 數", "a\"b", `a\b`, "a\nb", "\u2028", "\u2029", "\x7f", "\xff", "<a>&", strings.Repeat("x", MaxDelta)} {
		f.Add("a1", text, text, PathFinal, PathTools, int64(7), true)
		f.Add(text, "x", "", text, text, int64(-1), false)
	}
	f.Fuzz(func(t *testing.T, id, content, thinking, path, further string, sort int64, inProcess bool) {
		l := Delta(id, content, path, further)
		l.Thinking, l.Sort, l.IsInProcess = thinking, sort, &inProcess
		want := &bytes.Buffer{}
		e := json.NewEncoder(want)
		e.SetEscapeHTML(false)
		if err := e.Encode((*fields)(&l)); err != nil {
			t.Fatal(err)
		}
		const before = "before"
		got, ok := l.appendDelta([]byte(before))
		if line := before + strings.TrimSuffix(want.String(), "\n"); ok && string(got) != line || !ok && string(got) != before {
			t.Errorf("%v %s, want %s", ok, got, line)
		}
	})
}

// Text without an escape is the usual case, and needs no memory.
func TestDeltaNeedsNoMemory(t *testing.T) {
	buffer := make([]byte, 0, 1<<10)
	for _, text := range []string{"", " orders", "größer", "訂單"} {
		l := Delta("a1", text, PathFinal)
		allocations := testing.AllocsPerRun(100, func() {
			if _, ok := l.appendDelta(buffer); !ok {
				t.Fatalf("%q is not encoded", text)
			}
		})
		if allocations > 0 {
			t.Errorf("%q: %v allocations", text, allocations)
		}
	}
}
