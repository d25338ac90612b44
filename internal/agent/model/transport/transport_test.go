package transport

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"weak"

	"github.com/quoin-dev/quoin/internal/agent/model"
)

// TestRequestIsReleased: the conversation of a request is not kept while the answer is received.
func TestRequestIsReleased(t *testing.T) {
	received := make(chan int, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		received <- int(n)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: 1\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	t.Cleanup(s.Close)
	client, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	post := func() (*http.Response, weak.Pointer[byte]) {
		conversation := bytes.Repeat([]byte("x"), 1<<20)
		response, err := client.Post(s.URL, "application/json", bytes.NewReader(conversation))
		if err != nil {
			t.Fatal(err)
		}
		return response, weak.Make(&conversation[0])
	}
	response, conversation := post()
	defer response.Body.Close()
	if n := <-received; n != 1<<20 {
		t.Errorf("the server has received %d bytes", n)
	}
	events := NewEvents(response.Body)
	if !events.Next() || string(events.Data()) != "1" {
		t.Errorf("the event is %q: %v", events.Data(), events.Err())
	}
	response.Request = nil // the callers keep the body only
	for range 3 {
		runtime.GC()
	}
	if conversation.Value() != nil {
		t.Error("the conversation is kept while the answer is received")
	}
}

func TestEvents(t *testing.T) {
	for text, want := range map[string][]string{
		"data: 1\n\ndata:2\n\n":                       {"1", "2"},
		"data: 1\r\n\r\n":                             {"1"},
		"event: a\nid: 7\ndata: 1\n\n":                {"1"},
		": a comment\n\n\ndata: 1\n\n: ping\n\n":      {"1"},
		"data: {\ndata: }\n\n":                        {"{\n}"},
		"data:  two blanks\n\n":                       {" two blanks"},
		"data: 1\n\ndata: incomplete\n":               {"1"},
		"event: no data\n\ndata: 1\n\n":               {"1"},
		"dat: other\ndata: 1\n\n":                     {"1"},
		"data: " + strings.Repeat("x", 9000) + "\n\n": {strings.Repeat("x", 9000)},
		"": nil,
	} {
		for name, body := range map[string]io.Reader{"at once": strings.NewReader(text), "byte by byte": iotest.OneByteReader(strings.NewReader(text))} {
			var got []string
			events := NewEvents(body)
			for events.Next() {
				got = append(got, string(events.Data()))
			}
			if !slices.Equal(got, want) || events.Err() != nil {
				t.Errorf("%s, %.40q: got %q, want %q, error %v", name, text, got, want, events.Err())
			}
		}
	}
	broken := NewEvents(io.MultiReader(strings.NewReader("data: 1\n\ndata: 2"), iotest.ErrReader(io.ErrUnexpectedEOF)))
	if !broken.Next() || broken.Next() || broken.Err() == nil {
		t.Errorf("the error of a broken stream is %v", broken.Err())
	}
}

// TestLongEvent: the limit of an answer has its own error also if one event reaches it.
func TestLongEvent(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for range 2 * MaxStream >> 20 {
			if _, err := w.Write(bytes.Repeat([]byte("x"), 1<<20)); err != nil {
				return
			}
		}
	}))
	t.Cleanup(s.Close)
	client, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Post(s.URL, "application/json", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	events := NewEvents(response.Body)
	var failed *model.Error
	if events.Next() || !errors.As(events.Err(), &failed) || failed.Kind != model.Malformed {
		t.Errorf("the error is %v", events.Err())
	}
}
