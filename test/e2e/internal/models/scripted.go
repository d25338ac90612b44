package models

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"sync"

	. "github.com/onsi/ginkgo/v2"
)

// Scripted is a model server with the protocol of OpenAI, whose model does the same for every message: it calls cubeMeta, then
// cubeJsonQuery or cubeSqlApi with the message as the query, and answers with what that has returned.
type Scripted struct {
	// URL is the address of the server; the paths of the API begin with /v1.
	URL string

	mu   sync.Mutex
	keys []string
}

// metaSearch is what the model looks for with cubeMeta.
const metaSearch = "customers"

// StartScripted starts a server at an address of this machine, until the end of the journey.
func StartScripted(address string) *Scripted {
	GinkgoHelper()
	s := &Scripted{}
	s.URL = listen(address, s.serve).URL
	return s
}

// Keys returns the different API keys of the requests.
func (s *Scripted) Keys() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	keys := slices.Clone(s.keys)
	slices.Sort(keys)
	return slices.Compact(keys)
}

// request has the fields of a request that the script needs.
type request struct {
	Messages []struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	} `json:"messages"`
}

func (s *Scripted) serve(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		_, _ = io.WriteString(w, `{"object":"list","data":[{"id":"scripted","object":"model"}]}`)
		return
	}
	s.mu.Lock()
	s.keys = append(s.keys, r.Header.Get("Authorization"))
	s.mu.Unlock()
	in := &request{}
	if err := json.NewDecoder(r.Body).Decode(in); err != nil {
		http.Error(w, `{"error":{"message":"not JSON"}}`, http.StatusBadRequest)
		return
	}
	// The results since the last message of the user.
	question, results := "", []string(nil)
	for _, m := range in.Messages {
		switch text := textOf(m.Content); m.Role {
		case "user":
			question, results = text, nil
		case "tool":
			results = append(results, text)
		}
	}
	out := &events{w}
	switch len(results) {
	case 0:
		out.call("call_meta", "cubeMeta", object{"searchQuery": metaSearch})
	case 1:
		if json.Valid([]byte(question)) {
			out.call("call_query", "cubeJsonQuery", object{"query": json.RawMessage(question), "queryTitle": "Customers"})
			return
		}
		out.call("call_query", "cubeSqlApi", object{"sqlQuery": question, "queryTitle": "Customers"})
	default:
		out.text("The result: ", results[1])
	}
}

// textOf returns the text of a message, which may have parts.
func textOf(content json.RawMessage) string {
	text := ""
	if json.Unmarshal(content, &text) == nil {
		return text
	}
	var parts []struct {
		Text string `json:"text"`
	}
	if json.Unmarshal(content, &parts) == nil {
		for _, p := range parts {
			text += p.Text
		}
	}
	return text
}

// events are those of a response.
type events struct{ http.ResponseWriter }

// object is an object of JSON.
type object = map[string]any

func (e *events) send(data string) {
	e.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(e, "data: "+data+"\n\n")
	_ = http.NewResponseController(e.ResponseWriter).Flush()
}

// chunk sends a piece of the answer; reason is nil before the last one.
func (e *events) chunk(delta object, reason any) {
	text, _ := json.Marshal(object{ // strings and numbers
		"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "scripted", "choices": []object{{"index": 0, "delta": delta, "finish_reason": reason}},
	})
	e.send(string(text))
}

func (e *events) end(reason string) {
	e.chunk(object{}, reason)
	e.send(`{"id":"x","object":"chat.completion.chunk","created":1,"model":"scripted","choices":[],"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15}}`)
	e.send("[DONE]")
}

// text sends an answer in pieces.
func (e *events) text(pieces ...string) {
	for _, piece := range pieces {
		e.chunk(object{"role": "assistant", "content": piece}, nil)
	}
	e.end("stop")
}

// call sends a tool call.
func (e *events) call(id, tool string, input object) {
	arguments, _ := json.Marshal(input) // texts, and valid JSON
	function := object{"name": tool, "arguments": string(arguments)}
	e.chunk(object{"role": "assistant", "tool_calls": []object{{"index": 0, "id": id, "type": "function", "function": function}}}, nil)
	e.end("tool_calls")
}
