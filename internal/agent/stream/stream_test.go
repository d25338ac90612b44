package stream_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-dev/quoin/internal/agent/stream"
	"github.com/quoin-dev/quoin/internal/agent/stream/streamtest"
)

func sorted(l stream.Line, sort int64) stream.Line { l.Sort = sort; return l }

// answer are the lines of a response: the model speaks, calls a tool, and answers.
func answer(t testing.TB) []stream.Line {
	t.Helper()
	lines := []stream.Line{
		sorted(stream.User("1795316968000-message", "Orders by status?"), 1),
		sorted(stream.Delta("a0", "Let me ", stream.PathFinal), 2),
		sorted(stream.Delta("a0", "look.", stream.PathFinal), 3),
		sorted(stream.Whole("a0", "Let me look.", stream.PathAgent), 4),
		sorted(stream.ToolStarted("a1", "cubeMeta", `{"searchQuery":"orders"}`), 5),
		sorted(stream.ToolEnded("a1", "cubeMeta", `{"searchQuery":"orders"}`, `{"cubes":[]}`), 6),
		sorted(stream.Thinking("a3", "Hm.", stream.PathFinal), 7),
		sorted(stream.Delta("a3", "Twelve <orders>\n", stream.PathFinal), 8),
		sorted(stream.Delta("a3", "are done.", stream.PathFinal), 9),
		sorted(stream.Whole("a3", "Twelve <orders>\nare done.", stream.PathFinal), 10),
	}
	lines[len(lines)-1].Thinking = "Hm." // as its text, the whole of it
	var messages stream.Messages
	for i := range lines {
		messages.Add(&lines[i])
	}
	var texts [][]byte
	for _, m := range messages.All() {
		text, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, text)
	}
	return append(append([]stream.Line{stream.Cutoff("0b9c", true)}, lines...), sorted(stream.State(texts...), 11))
}

func TestLines(t *testing.T) {
	for want, l := range map[string]stream.Line{
		`{"id":"__cutoff__","role":"assistant","sort":0,"state":{"chatId":"0b9c","isStreaming":true}}`:                                                                    stream.Cutoff("0b9c", true),
		`{"id":"1-message","role":"user","content":"","isDelta":false,"sort":1}`:                                                                                          sorted(stream.User("1-message", ""), 1),
		`{"id":"a","role":"assistant","content":"x < y\n","graphPath":["final"],"isDelta":true,"isInProcess":true,"sort":2}`:                                              sorted(stream.Delta("a", "x < y\n", "final"), 2),
		`{"id":"a","role":"assistant","content":"","thinking":"hm","graphPath":["final"],"isDelta":true,"isInProcess":true,"sort":2}`:                                     sorted(stream.Thinking("a", "hm", "final"), 2),
		`{"id":"a","role":"assistant","content":"y","graphPath":["final"],"isDelta":false,"isInProcess":false,"sort":3}`:                                                  sorted(stream.Whole("a", "y", "final"), 3),
		`{"id":"a","role":"assistant","graphPath":["data_agent","tools"],"isDelta":false,"isInProcess":true,"sort":4,"toolCall":{"name":"t","input":"{}"}}`:               sorted(stream.ToolStarted("a", "t", "{}"), 4),
		`{"id":"a","role":"assistant","graphPath":["data_agent","tools"],"isDelta":false,"isInProcess":false,"sort":5,"toolCall":{"name":"t","input":"{}","result":"1"}}`: sorted(stream.ToolEnded("a", "t", "{}", "1"), 5),
		`{"error":"the model \"m\" is not available"}`:                                                                                                                    stream.Error(`the model "m" is not available`),
	} {
		got, err := l.Encode()
		if err != nil || string(got) != want {
			t.Errorf("%v: got\n%s, want\n%s", err, got, want)
		}
		back, err := stream.Decode(got)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(l, *back); diff != "" {
			t.Errorf("%s: %s", want, diff)
		}
		if nested, err := json.Marshal([]stream.Line{l}); err != nil || json.Unmarshal(nested, &[]stream.Line{}) != nil {
			t.Errorf("in a list: %s, %v", nested, err)
		}
	}
	if got, want := stream.ToolError("BadRequestError", `no member "a"`), `{"error":"Error: BadRequestError: no member \"a\""}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if l := stream.State(); string(l.State) != `{"messages":[]}` {
		t.Errorf("an empty state is %s", l.State)
	}
}

func TestLongLine(t *testing.T) {
	l := stream.Whole("a", strings.Repeat("x", stream.MaxLine), "final")
	if _, err := l.Encode(); err == nil || !strings.Contains(err.Error(), `line "a"`) {
		t.Errorf("got %v", err)
	}
}

func TestInvalidLines(t *testing.T) {
	for text, want := range map[string]string{
		`[]`:                                 "line: json",
		`{"id":1}`:                           "line: json",
		`{}`:                                 "id is missing",
		`{"id":"a","role":"system"}`:         `role is "system"; allowed: user, assistant`,
		`{"id":"a","role":"user","sort":-1}`: "sort is negative",
		`{"id":"a","role":"assistant","toolCall":{"input":"{}"}}`:                           "toolCall.name is missing",
		`{"id":"a","role":"assistant","toolCall":{"name":"t","input":"{"}}`:                 "toolCall.input is not JSON",
		`{"id":"a","role":"assistant","toolCall":{"name":"t","input":"{}","result":"x"}}`:   "toolCall.result is not JSON",
		`{"id":"a","role":"assistant","isDelta":true,"toolCall":{"name":"t","input":"{}"}}`: "must not have isDelta",
	} {
		if _, err := stream.Decode([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}

// chunks records each flush of a response.
type chunks struct {
	*httptest.ResponseRecorder
	flushed []string
	failing error
}

func (c *chunks) Write(p []byte) (int, error) {
	if c.failing != nil {
		return 0, c.failing
	}
	return c.ResponseRecorder.Write(p)
}

func (c *chunks) Flush() {
	c.flushed = append(c.flushed, c.Body.String())
	c.Body.Reset()
}

// written returns the chunks of a response with keep-alives between its lines.
func written(t testing.TB, lines []stream.Line) *chunks {
	t.Helper()
	c := &chunks{ResponseRecorder: httptest.NewRecorder()}
	w := stream.NewWriter(c)
	for _, l := range lines {
		if err := errors.Join(w.Write(l), w.KeepAlive()); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

func TestWriterFlushesEachLine(t *testing.T) {
	c := written(t, answer(t))
	for i, chunk := range c.flushed {
		if want := i%2 == 1; (chunk == "\n") != want || strings.Count(chunk, "\n") != 1 || !strings.HasSuffix(chunk, "\n") {
			t.Errorf("chunk %d is %q", i, chunk)
		}
	}
	want := http.Header{"Content-Type": {"application/json"}, "Cache-Control": {"no-cache, no-transform"}, "X-Accel-Buffering": {"no"}}
	if diff := cmp.Diff(want, c.Result().Header); diff != "" || c.Code != http.StatusOK {
		t.Errorf("status %d, header %s", c.Code, diff)
	}
	c.failing = errors.New("gone")
	if err := stream.NewWriter(c).Write(stream.Error("x")); !errors.Is(err, c.failing) {
		t.Errorf("a failed write is %v", err)
	}
}

// TestClientsShowTheSameAnswer: the readers of all known clients end with the same answer, however the network cuts the stream
// for those that can stand it.
func TestClientsShowTheSameAnswer(t *testing.T) {
	const want = "Twelve <orders>\nare done."
	c := written(t, answer(t))
	for name, read := range streamtest.Clients {
		if got, err := read(c.flushed); got != want || err != nil {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if got := streamtest.AppendDeltas(c.flushed); got != "Let me look."+want {
		t.Errorf("all deltas: %q", got)
	}
	var split []string
	for all := strings.Join(c.flushed, ""); all != ""; {
		n := min(7, len(all))
		split, all = append(split, all[:n]), all[n:]
	}
	for name, read := range map[string]streamtest.Client{"recipe": streamtest.Recipe, "upsert": streamtest.Upsert} {
		if got, err := read(split); got != want || err != nil {
			t.Errorf("%s, split: %q, %v", name, got, err)
		}
	}
}

func TestReader(t *testing.T) {
	in := strings.Join(written(t, answer(t)).flushed, "")
	r := stream.NewReader(strings.NewReader(strings.ReplaceAll(in, "\n", "\r\n")))
	var got []stream.Line
	for {
		l, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, *l)
	}
	if diff := cmp.Diff(answer(t), got); diff != "" {
		t.Error(diff)
	}
	long := stream.NewReader(strings.NewReader(strings.Repeat("x", stream.MaxLine+10)))
	if _, err := long.Next(); !errors.Is(err, stream.ErrLongLine) {
		t.Errorf("a long line is %v", err)
	}
	failing := stream.NewReader(io.MultiReader(strings.NewReader("\n"), &failingReader{}))
	if _, err := failing.Next(); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a broken connection is %v", err)
	}
}

type failingReader struct{}

func (*failingReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func TestMessages(t *testing.T) {
	var m stream.Messages
	for _, l := range answer(t) {
		m.Add(&l)
	}
	result := `{"cubes":[]}`
	want := []stream.Message{
		{ID: "1795316968000-message", Role: "user", Content: "Orders by status?", Sort: 1},
		{ID: "a0", Role: "assistant", Content: "Let me look.", Path: []string{"data_agent"}, Sort: 4},
		{ID: "a1", Role: "assistant", Path: []string{"data_agent", "tools"}, Sort: 6, ToolCall: &stream.ToolCall{Name: "cubeMeta", Input: `{"searchQuery":"orders"}`, Result: &result}},
		{ID: "a3", Role: "assistant", Content: "Twelve <orders>\nare done.", Thinking: "Hm.", Path: []string{"final"}, Sort: 10},
	}
	if diff := cmp.Diff(want, m.All()); diff != "" {
		t.Error(diff)
	}
	if got, ok := m.Answer(); got != "Twelve <orders>\nare done." || !ok {
		t.Errorf("the answer is %q, %t", got, ok)
	}
	// The history of a thread is one line a message, and amounts to the same.
	var history stream.Messages
	for i := range m.All() {
		l := m.All()[i].Line()
		if l.Delta() {
			t.Errorf("%s is a delta", l.ID)
		}
		history.Add(&l)
	}
	if diff := cmp.Diff(m.All(), history.All()); diff != "" {
		t.Error(diff)
	}
	failed := stream.Error("down")
	if m.Add(&failed); m.Err() != "down" {
		t.Errorf("the error is %q", m.Err())
	}
}

// FuzzReader: a stream that can be read at all is the same after it was written again, in one line each.
func FuzzReader(f *testing.F) {
	f.Add([]byte(strings.Join(written(f, answer(f)).flushed, "")))
	f.Add([]byte(`{"error":"x"}` + "\n\n" + `{"id":"a","role":"user","state":{"a":` + "\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r := stream.NewReader(bytes.NewReader(data))
		for {
			l, err := r.Next()
			if err != nil {
				return
			}
			text, err := l.Encode()
			if err != nil {
				continue // longer in its canonical form
			}
			if bytes.ContainsAny(text, "\n\r") {
				t.Fatalf("a line is %q", text)
			}
			back, err := stream.Decode(text)
			if err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			again, err := back.Encode()
			if err != nil || !bytes.Equal(again, text) {
				t.Fatalf("%s became %s, %v", text, again, err)
			}
		}
	})
}
