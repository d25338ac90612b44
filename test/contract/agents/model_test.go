package agents_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// llm is a server of a model that speaks the protocol of OpenAI. It answers the last message of the user by its first word:
//
//	sql        calls cubeSqlApi with the rest, and answers with the result
//	meta       calls cubeMeta with the rest, and answers with the result
//	wait       says a part of the answer, and the rest when the test lets it
//	silent     says nothing until the request ends
//	call       calls the tool of the first word of the rest, with the rest of it, and answers with the result
//	refuse     rejects the key
//	busy       is overloaded
//	loop       calls cubeMeta forever
//
// and others with the message itself.
type llm struct {
	*httptest.Server
	begun, ended chan string
	more         chan struct{}

	mu sync.Mutex
	// keys are those of the requests, and conversations what they had.
	keys          []string
	conversations []string
	// replaced are texts of questions, which it reads as others.
	replaced map[string]string
}

// rewrite has the model read a text of questions as another one, until the test ends.
func (m *llm) rewrite(t *testing.T, from, to string) {
	t.Helper()
	set := func(texts map[string]string) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.replaced = texts
	}
	set(map[string]string{from: to})
	t.Cleanup(func() { set(nil) })
}

func startModel() *llm {
	m := &llm{begun: make(chan string, 1000), ended: make(chan string, 1000), more: make(chan struct{})}
	m.Server = httptest.NewServer(http.HandlerFunc(m.serve))
	return m
}

// asked returns the conversations that the model has received with a text.
func (m *llm) asked(with string) (found []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.conversations {
		if strings.Contains(c, with) {
			found = append(found, c)
		}
	}
	return found
}

type completion struct {
	Messages []struct {
		Role    string
		Content json.RawMessage
	}
	Tools []struct {
		Function struct{ Name string }
	}
}

// text returns the content of a message.
func text(content json.RawMessage) string {
	var s string
	if json.Unmarshal(content, &s) == nil {
		return s
	}
	var parts []struct{ Text string }
	_ = json.Unmarshal(content, &parts)
	all := ""
	for _, p := range parts {
		all += p.Text
	}
	return all
}

func (m *llm) serve(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet { // the list of models
		_, _ = io.WriteString(w, `{"object":"list","data":[{"id":"scripted","object":"model"}]}`)
		return
	}
	body, _ := io.ReadAll(r.Body)
	m.mu.Lock()
	m.keys, m.conversations = append(m.keys, r.Header.Get("Authorization")), append(m.conversations, string(body))
	m.mu.Unlock()
	var in completion
	if err := json.Unmarshal(body, &in); err != nil || len(in.Messages) == 0 {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	last := in.Messages[len(in.Messages)-1]
	question := ""
	for _, message := range in.Messages {
		if message.Role == "user" {
			question = text(message.Content)
		}
	}
	m.mu.Lock()
	for from, to := range m.replaced {
		question = strings.ReplaceAll(question, from, to)
	}
	m.mu.Unlock()
	word, rest, _ := strings.Cut(question, " ")
	out := &chunks{w}
	switch {
	case word == "refuse":
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, `{"error":{"message":"Incorrect API key provided"}}`)
	case word == "busy":
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = io.WriteString(w, `{"error":{"message":"Rate limit reached"}}`)
	case word == "silent":
		m.begun <- question
		<-r.Context().Done()
		m.ended <- question
	case word == "loop":
		out.call("cubeMeta", `{"searchQuery":"orders"}`)
	case last.Role == "tool":
		out.say("The result: ", text(last.Content))
	case word == "meta":
		out.call("cubeMeta", fmt.Sprintf(`{"searchQuery":%q}`, rest))
	case word == "sql":
		out.call("cubeSqlApi", fmt.Sprintf(`{"sqlQuery":%q,"queryTitle":"Orders","description":"Orders","userRequest":"Orders"}`, rest))
	case word == "call":
		rest, _, _ = strings.Cut(rest, "\n\n<data-") // what comes with the message
		tool, input, _ := strings.Cut(rest, " ")
		out.call(tool, input)
	case word == "wait":
		out.delta(`{"content":"One, "}`, "null")
		m.begun <- question
		select {
		case <-m.more:
			out.say("two, ", "three.")
		case <-r.Context().Done():
			m.ended <- question
		}
	default:
		out.say(strings.SplitAfter("You said "+question, " ")...)
	}
}

// chunks are the events of a response.
type chunks struct{ http.ResponseWriter }

func (c *chunks) event(data string) {
	c.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(c, "data: "+data+"\n\n")
	_ = http.NewResponseController(c.ResponseWriter).Flush()
}

func (c *chunks) delta(delta, reason string) {
	c.event(`{"id":"x","object":"chat.completion.chunk","created":1,"model":"scripted","choices":[{"index":0,"delta":` + delta + `,"finish_reason":` + reason + `}]}`)
}

func (c *chunks) end(reason string) {
	c.delta("{}", `"`+reason+`"`)
	c.event(`{"id":"x","object":"chat.completion.chunk","created":1,"model":"scripted","choices":[],"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15}}`)
	c.event("[DONE]")
}

func (c *chunks) say(texts ...string) {
	for _, t := range texts {
		content, _ := json.Marshal(t)
		c.delta(`{"role":"assistant","content":`+string(content)+`}`, "null")
	}
	c.end("stop")
}

func (c *chunks) call(tool, input string) {
	arguments, _ := json.Marshal(input)
	c.delta(`{"role":"assistant","tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"`+tool+`","arguments":`+string(arguments)+`}}]}`, "null")
	c.end("tool_calls")
}

// drain forgets what earlier tests have left.
func (m *llm) drain(t *testing.T) {
	t.Helper()
	for {
		select {
		case <-m.begun:
		case <-m.ended:
		default:
			return
		}
	}
}
