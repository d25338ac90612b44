package semantic

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/quoin-dev/quoin/internal/agent"
	"github.com/quoin-dev/quoin/internal/query"
)

const (
	// maxMeta is the maximum length of the cubes of a result in bytes; a model gets at most 32 KiB of a result.
	maxMeta = 24 << 10
	// maxNames is the maximum number of names of cubes in a result that has not all of them, and maxNameBytes their length.
	maxNames, maxNameBytes = 200, 4 << 10
	// maxDescription is the maximum length of a description and of the context of a member in bytes.
	maxDescription = 600
	// maxSearch is the maximum length of a search in bytes.
	maxSearch = 1000
)

// metaResult is the result of cubeMeta.
type metaResult struct {
	Cubes       []metaCube `json:"cubes"`
	SearchQuery string     `json:"searchQuery"`
	// Truncated is true if more cubes or members match than the result has.
	Truncated bool `json:"truncated,omitempty"`
	// OtherNames are names of cubes that the result does not have.
	OtherNames []string `json:"otherNames,omitempty"`
}

type metaCube struct {
	Name        string       `json:"name"`
	Type        string       `json:"type"`
	Title       string       `json:"title"`
	Description string       `json:"description,omitempty"`
	AIContext   string       `json:"aiContext,omitempty"`
	Members     []metaMember `json:"members"`
}

type metaMember struct {
	Name        string `json:"name"`
	Title       string `json:"title"`
	Description string `json:"description"`
	Type        string `json:"type"`
	AggType     string `json:"aggType,omitempty"`
	AIContext   string `json:"aiContext,omitempty"`
	// MemberType is measure, dimension or segment.
	MemberType string `json:"memberType"`
}

var metaSchema = inputSchema(map[string]any{"searchQuery": text("Words to look for, such as: orders status")}, "searchQuery")

func (t *tools) metaTool() agent.Tool {
	return tool("cubeMeta", "Finds views of the semantic model with their measures and dimensions, by words of their names, titles and descriptions. "+
		"Call it before a query: queries may only use members that it returns. Without words it returns the first views.", metaSchema, t.meta)
}

// meta runs cubeMeta.
func (t *tools) meta(ctx context.Context, in agent.Input) (*agent.Result, error) {
	var input struct {
		SearchQuery string `json:"searchQuery"`
	}
	if err := decode(in, &input); err != nil {
		return nil, err
	}
	if len(input.SearchQuery) > maxSearch {
		return nil, badRequest("searchQuery: %d bytes; allowed: %d", len(input.SearchQuery), maxSearch)
	}
	cubes, err := t.metadata(ctx)
	if err != nil {
		return nil, err
	}
	words := wordsOf(input.SearchQuery)
	found := t.search(cubes, words)
	wire, err := json.Marshal(t.bound(found, cubes, input.SearchQuery))
	if err != nil {
		return nil, err
	}
	return &agent.Result{Wire: wire}, nil
}

// offered returns the cubes that the tool offers: views, if the model has any, and of them the accessible ones.
func (t *tools) offered(cubes []query.Cube) []query.Cube {
	views := slices.ContainsFunc(cubes, func(c query.Cube) bool { return c.Type == "view" })
	var out []query.Cube
	for i := range cubes {
		if c := &cubes[i]; (!views || c.Type == "view") && (len(t.AccessibleViews) == 0 || slices.Contains(t.AccessibleViews, c.Name)) {
			out = append(out, *c)
		}
	}
	return out
}

// ranked is a cube that matches, with its members: the best first.
type ranked struct {
	cube    metaCube
	score   int
	members []rankedMember
}

type rankedMember struct {
	metaMember
	score int
}

// search returns the offered cubes that match, the best first. A cube has all its members, those that match first.
func (t *tools) search(cubes []query.Cube, words []string) []ranked {
	var out []ranked
	offered := t.offered(cubes)
	for i := range offered {
		if r := rank(&offered[i], words); r.score > 0 || len(words) == 0 {
			out = append(out, r)
		}
	}
	slices.SortStableFunc(out, func(a, b ranked) int {
		if a.score != b.score {
			return b.score - a.score
		}
		return strings.Compare(a.cube.Name, b.cube.Name)
	})
	return out
}

func rank(c *query.Cube, words []string) ranked {
	out := ranked{cube: metaCube{
		Name: c.Name, Type: c.Type, Title: c.Title, Description: short(c.Description), AIContext: short(c.Meta.AIContext), Members: []metaMember{},
	}}
	if out.cube.Type == "" {
		out.cube.Type = "cube"
	}
	out.score = nameWeight * score(words, c.Name, c.Title)
	out.score += score(words, c.Description, c.Meta.AIContext)
	best := 0
	for _, kind := range []struct {
		name    string
		members []query.Member
	}{{"measure", c.Measures}, {"dimension", c.Dimensions}, {"segment", c.Segments}} {
		for i := range kind.members {
			m := &kind.members[i]
			own := strings.TrimPrefix(m.Name, c.Name+".")
			s := nameWeight*score(words, own, m.ShortTitle) + score(words, m.Description, m.Meta.AIContext)
			best = max(best, s)
			out.members = append(out.members, rankedMember{metaMember{
				Name: m.Name, Title: m.Title, Description: short(m.Description), Type: m.Type, AggType: m.AggType, AIContext: short(m.Meta.AIContext), MemberType: kind.name,
			}, s})
		}
	}
	out.score += best
	slices.SortStableFunc(out.members, func(a, b rankedMember) int { return b.score - a.score })
	return out
}

// bound returns as much of what was found as fits.
func (t *tools) bound(found []ranked, cubes []query.Cube, search string) metaResult {
	out := metaResult{Cubes: []metaCube{}, SearchQuery: search}
	left := maxMeta
	for _, r := range found {
		if left -= sizeOf(r.cube); left < 0 {
			out.Truncated = true
			break
		}
		for _, m := range r.members {
			if left -= sizeOf(m.metaMember); left < 0 {
				out.Truncated = true
				break
			}
			r.cube.Members = append(r.cube.Members, m.metaMember)
		}
		out.Cubes = append(out.Cubes, r.cube)
	}
	if len(out.Cubes) == 0 || out.Truncated {
		out.OtherNames = t.otherNames(cubes, out.Cubes)
	}
	return out
}

// otherNames returns names of offered cubes that are not among those.
func (t *tools) otherNames(cubes []query.Cube, those []metaCube) []string {
	var out []string
	size := 0
	for _, c := range t.offered(cubes) {
		if slices.ContainsFunc(those, func(m metaCube) bool { return m.Name == c.Name }) {
			continue
		}
		if size += len(c.Name); len(out) == maxNames || size > maxNameBytes {
			break
		}
		out = append(out, c.Name)
	}
	return out
}

// sizeOf returns the length of a value as JSON.
func sizeOf(v any) int {
	text, _ := json.Marshal(v) // strings
	return len(text)
}

// short returns the beginning of a text.
func short(text string) string { return head(strings.TrimSpace(text), maxDescription) }

// head returns the beginning of a text of at most n bytes, with a mark if it is not all of it.
func head(text string, n int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n], "") + "…"
}
