package semantic

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/quoin-dev/quoin/internal/agent"
	"github.com/quoin-dev/quoin/internal/query"
)

func forbidden(format string, args ...any) error {
	return &agent.ToolError{Class: agent.ForbiddenError, Message: fmt.Sprintf(format, args...)}
}

// isForbidden reports whether an error says that the asker may not see something.
func isForbidden(err error) bool {
	var failed *agent.ToolError
	return errors.As(err, &failed) && failed.Class == agent.ForbiddenError
}

// hidden returns the members that exist and that the asker does not see; none if that is not known.
func (t *tools) hidden(ctx context.Context, cubes []query.Cube) []string {
	if t.AllMembers == nil {
		return nil
	}
	all, err := t.AllMembers(ctx)
	if err != nil {
		return nil
	}
	seen := visible(cubes)
	return slices.DeleteFunc(slices.Clone(all), func(name string) bool { return seen[name] })
}

// visible returns the names of members that the asker sees, and of their cubes.
func visible(cubes []query.Cube) map[string]bool {
	out := map[string]bool{}
	for i := range cubes {
		c := &cubes[i]
		out[c.Name] = true
		for _, members := range [][]query.Member{c.Measures, c.Dimensions, c.Segments} {
			for j := range members {
				out[members[j].Name] = true
			}
		}
	}
	return out
}

// hidesMatch reports whether all the words of a search are in the name of a hidden member.
func (t *tools) hidesMatch(ctx context.Context, cubes []query.Cube, words []string) bool {
	return slices.ContainsFunc(t.hidden(ctx, cubes), func(name string) bool {
		return !slices.ContainsFunc(words, func(w string) bool { return score([]string{w}, name) == 0 })
	})
}

// hiddenInSQL returns the hidden cube or member that SQL names; "" if there is none. A column counts if the SQL names its cube, and
// no cube that it names has a column of this name that the asker sees.
func (t *tools) hiddenInSQL(ctx context.Context, s *statement) string {
	cubes, err := t.metadata(ctx)
	if err != nil {
		return ""
	}
	seen := visible(cubes)
	named := func(name string) bool { return s.names[name] || s.names[strings.ToLower(name)] }
	shown := map[string]bool{} // columns of the cubes that the SQL names
	for name := range seen {
		if cube, column, ok := strings.Cut(name, "."); ok && named(cube) {
			shown[column] = true
		}
	}
	for _, name := range t.hidden(ctx, cubes) {
		cube, column, ok := strings.Cut(name, ".")
		switch {
		case !ok || !named(cube):
		case !seen[cube]:
			return cube
		case named(column) && !shown[column]:
			return name
		}
	}
	return ""
}

// hiddenInJSON returns the hidden member that a JSON query names; "" if there is none.
func (t *tools) hiddenInJSON(ctx context.Context, names map[string]bool) string {
	cubes, err := t.metadata(ctx)
	if err != nil {
		return ""
	}
	for _, name := range t.hidden(ctx, cubes) {
		if names[name] {
			return name
		}
	}
	return ""
}
