package rest

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

// folder has further folders, and is streamed.
type folder struct {
	Name    string   `json:"name"`
	Folders []folder `json:"folders,omitempty"`
}

func (f folder) StreamJSON(s *Stream) {
	inner := f.Folders
	f.Folders = nil
	if len(inner) == 0 {
		s.Value(f)
		return
	}
	s.Open(f)
	s.Text(`,"folders":`)
	Items(s, inner, func(f folder) { f.StreamJSON(s) })
	s.Text("}")
}

// plain has the same JSON and is not streamed.
type plain struct {
	Name    string  `json:"name"`
	Folders []plain `json:"folders,omitempty"`
}

func plainOf(f folder) plain {
	p := plain{Name: f.Name}
	for _, inner := range f.Folders {
		p.Folders = append(p.Folders, plainOf(inner))
	}
	return p
}

var streamed = folder{"<a> & \"b\"\n}", []folder{{"b", nil}, {"", []folder{{"c}", nil}}}, {strings.Repeat("é", 3*streamBytes), nil}}}

func TestStreamIsTheSame(t *testing.T) {
	got, want := &bytes.Buffer{}, &bytes.Buffer{}
	if err := errors.Join(strictJSON.Marshal(got, streamed), strictJSON.Marshal(want, plainOf(streamed))); err != nil {
		t.Fatal(err)
	}
	if got.String() != want.String() {
		t.Errorf("%.200s\nwant\n%.200s", got, want)
	}
}

// pieces remembers the largest piece that it was given, and fails after a number of them.
type pieces struct{ largest, left int }

func (p *pieces) Write(data []byte) (int, error) {
	if p.left--; p.left < 0 {
		return 0, errors.New("closed")
	}
	p.largest = max(p.largest, len(data))
	return len(data), nil
}

func TestStreamIsWrittenInPieces(t *testing.T) {
	many := folder{"root", make([]folder, 100_000)}
	out := &pieces{left: 1000}
	if err := strictJSON.Marshal(out, many); err != nil || out.largest > streamBytes {
		t.Errorf("the largest piece has %d bytes, %v", out.largest, err)
	}
	if err := strictJSON.Marshal(&pieces{left: 1}, many); err == nil || err.Error() != "closed" {
		t.Errorf("%v, want the error of the writer", err)
	}
}
