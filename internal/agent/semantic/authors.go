package semantic

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/quoin-dev/quoin/internal/agent"
)

// maxListed is the maximum length of a list of certified queries or skills in bytes, and maxInstructions that of a skill.
const maxListed, maxInstructions = 24 << 10, 30 << 10

var certifiedSchema = inputSchema(fields(map[string]any{
	"searchQuery": text("Words to look for; all queries without them."),
	"name":        text("The name of the query to run; without it, queries are listed."),
}))

func (t *tools) certifiedTool() agent.Tool {
	return tool("certifiedQueries", "Finds queries that the authors of this agent have checked, by words of the questions that they answer. "+
		"Look here first: if one answers the question, run it by its name instead of writing a query.", certifiedSchema, t.certified)
}

// certified runs certifiedQueries.
func (t *tools) certified(ctx context.Context, in agent.Input) (*agent.Result, error) {
	var which struct {
		SearchQuery string `json:"searchQuery"`
		Name        string `json:"name"`
	}
	if err := decode(in, &which); err != nil {
		return nil, err
	}
	if which.Name == "" {
		return listed("queries", which.SearchQuery, t.CertifiedQueries, func(q CertifiedQuery) string { return q.Name + " " + q.UserRequest + " " + q.Description })
	}
	at := slices.IndexFunc(t.CertifiedQueries, func(q CertifiedQuery) bool { return q.Name == which.Name })
	if at < 0 {
		return nil, badRequest("name: there is no certified query %.100q", which.Name)
	}
	input, err := readInput(in)
	if err != nil {
		return nil, err
	}
	q := t.CertifiedQueries[at]
	input.SQLQuery, input.Query = q.SQL, nil
	if input.UserRequest == "" {
		input.UserRequest = head(q.UserRequest, maxField)
	}
	return t.runSQL(ctx, in.MaxRows, input)
}

var skillsSchema = inputSchema(map[string]any{"name": text("The name of the skill; without it, skills are listed.")})

func (t *tools) skillsTool() agent.Tool {
	var all strings.Builder
	for _, s := range t.Skills {
		line := fmt.Sprintf("\n%s: %s. %s", s.Name, s.Title, short(s.Description))
		if all.Len()+len(line) > maxListed/4 {
			all.WriteString("\nand others, which a call without a name lists")
			break
		}
		all.WriteString(line)
	}
	return tool(SkillsTool, "Returns instructions of the authors of this agent for a task. Follow them when the question is about their task, or begins with a slash and their name. The skills are:"+all.String(), skillsSchema, t.skills)
}

// skills runs skills.
func (t *tools) skills(_ context.Context, in agent.Input) (*agent.Result, error) {
	var which struct {
		Name string `json:"name"`
	}
	if err := decode(in, &which); err != nil {
		return nil, err
	}
	if which.Name == "" {
		return listed("skills", "", t.Skills, func(s Skill) string { return s.Name })
	}
	at := slices.IndexFunc(t.Skills, func(s Skill) bool { return s.Name == strings.TrimPrefix(which.Name, "/") })
	if at < 0 {
		return nil, badRequest("name: there is no skill %.100q", which.Name)
	}
	s := t.Skills[at]
	// The client gets no instructions.
	wire, err := encode(s)
	if err != nil {
		return nil, err
	}
	return &agent.Result{Wire: wire, Text: head(s.Instructions, maxInstructions), Instructions: true}, nil
}

// listed returns the elements of a list that match, the best first, as many as fit.
func listed[T any](name, search string, all []T, of func(T) string) (*agent.Result, error) {
	if len(search) > maxSearch {
		return nil, badRequest("searchQuery: %d bytes; allowed: %d", len(search), maxSearch)
	}
	words := wordsOf(search)
	matching := slices.DeleteFunc(slices.Clone(all), func(e T) bool { return len(words) > 0 && score(words, of(e)) == 0 })
	slices.SortStableFunc(matching, func(a, b T) int { return score(words, of(b)) - score(words, of(a)) })
	out, left := []json.RawMessage{}, maxListed
	for _, e := range matching {
		text, err := encode(e)
		if err != nil {
			return nil, err
		}
		if left -= len(text); left < 0 {
			break
		}
		out = append(out, text)
	}
	wire, err := encode(map[string]any{name: out, "total": len(matching)})
	return &agent.Result{Wire: wire}, err
}
