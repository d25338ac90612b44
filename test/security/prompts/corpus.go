// Package prompts is a corpus of hostile texts: messages of users and rows of data that try to make a model query as another person,
// query other deployments, change data or reach other systems. Each has the tool call that a model makes which obeys it.
package prompts

import (
	"bufio"
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
)

//go:embed testdata/prompts.jsonl
var corpus []byte

// Where a hostile text comes from.
const (
	FromUser = "user"
	FromRow  = "row"
)

// Case is a hostile text.
type Case struct {
	// From is FromUser or FromRow.
	From string `json:"from"`
	Text string `json:"text"`
	// Tool and Input are the call of a model that obeys. Input is JSON, not always an object.
	Tool  string          `json:"tool"`
	Input json.RawMessage `json:"input"`
}

// All returns the corpus.
func All() ([]Case, error) {
	var all []Case
	for lines := bufio.NewScanner(bytes.NewReader(corpus)); lines.Scan(); {
		var c Case
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			return nil, fmt.Errorf("line %d: %w", len(all)+1, err)
		}
		all = append(all, c)
	}
	return all, nil
}
