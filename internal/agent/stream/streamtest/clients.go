// Package streamtest has readers of chat streams that behave as known clients of the AI API do. All of them must show the same
// answer.
package streamtest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// line has the fields that the clients read.
type line struct {
	ID        string   `json:"id"`
	Role      string   `json:"role"`
	Content   string   `json:"content"`
	GraphPath []string `json:"graphPath"`
	IsDelta   bool     `json:"isDelta"`
	Sort      float64  `json:"sort"`
	ToolCall  any      `json:"toolCall"`
	Error     string   `json:"error"`
}

// Client reads the chunks of a response as they arrive, and returns the answer that it shows.
type Client func(chunks []string) (answer string, err error)

// Clients are the readers by name.
var Clients = map[string]Client{
	"the last final line":             Recipe,
	"messages by id":                  Upsert,
	"joined deltas, chunks by itself": JoinDeltas,
}

// Recipe keeps the last line of the assistant whose graphPath begins with final and has at most two elements. It carries the
// rest of a chunk over to the next one.
func Recipe(chunks []string) (string, error) {
	answer := ""
	for _, text := range strings.Split(strings.Join(chunks, ""), "\n") {
		l, err := parse(text)
		if l == nil || err != nil {
			if err != nil {
				return answer, err
			}
			continue
		}
		if l.Role == "assistant" && len(l.GraphPath) > 0 && len(l.GraphPath) <= 2 && l.GraphPath[0] == "final" {
			answer = l.Content
		}
	}
	return answer, nil
}

// Upsert keeps messages by id, as the React example does: text of deltas is appended, other lines and those of tools replace. It
// shows the messages by the last sort of each, and the answer is the last one.
func Upsert(chunks []string) (string, error) {
	byID := map[string]*line{}
	for _, text := range strings.Split(strings.Join(chunks, ""), "\n") {
		l, err := parse(text)
		if err != nil {
			return "", err
		}
		if l == nil || l.ID == "__cutoff__" || l.ID == "__state__" {
			continue
		}
		if known := byID[l.ID]; known != nil && l.IsDelta && l.ToolCall == nil {
			l.Content = known.Content + l.Content
		}
		byID[l.ID] = l
	}
	var shown []*line
	for _, l := range byID {
		if l.Role == "assistant" && l.ToolCall == nil {
			shown = append(shown, l)
		}
	}
	if len(shown) == 0 {
		return "", nil
	}
	return slices.MaxFunc(shown, func(a, b *line) int { return int(a.Sort - b.Sort) }).Content, nil
}

// JoinDeltas parses each chunk by itself, without the rest of the one before. It joins deltas of an id, and a line that is none
// replaces them.
func JoinDeltas(chunks []string) (string, error) {
	texts, last := map[string]string{}, ""
	for _, chunk := range chunks {
		for _, text := range strings.Split(chunk, "\n") {
			l, err := parse(text)
			if err != nil {
				return "", err
			}
			if l == nil || l.Role != "assistant" || l.ToolCall != nil || strings.HasPrefix(l.ID, "__") {
				continue
			}
			if last = l.ID; l.IsDelta {
				texts[l.ID] += l.Content
			} else {
				texts[l.ID] = l.Content
			}
		}
	}
	return texts[last], nil
}

// AppendDeltas parses each chunk by itself, ignores what it cannot parse, and joins all deltas of the assistant, as the Node example
// does. What the agent says before a tool call comes before the answer.
func AppendDeltas(chunks []string) string {
	answer := ""
	for _, chunk := range chunks {
		for _, text := range strings.Split(chunk, "\n") {
			l := line{}
			if json.Unmarshal([]byte(text), &l) == nil && l.Role == "assistant" && l.IsDelta {
				answer += l.Content
			}
		}
	}
	return answer
}

// parse returns a line; nil if it is empty.
func parse(text string) (*line, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	l := &line{}
	if err := json.Unmarshal([]byte(text), l); err != nil {
		return nil, fmt.Errorf("line %.100q: %w", text, err)
	}
	if l.Error != "" {
		return nil, fmt.Errorf("the stream ends with the error %q", l.Error)
	}
	return l, nil
}
