package semantic

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

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

// maxProbes is the number of members of a query that are looked for among those that are hidden from the asker, and probeTime how long
// one may take.
const (
	maxProbes = 8
	probeTime = 10 * time.Second
)

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

// hiddenInSQL returns a hidden member that SQL names; "" if there is none. The server plans SQL with what the asker sees, and reports
// that a hidden table or column does not exist.
func (t *tools) hiddenInSQL(ctx context.Context, s *statement) string {
	cubes, err := t.metadata(ctx)
	if err != nil {
		return ""
	}
	seen, names := visible(cubes), map[string]string{}
	for i := range cubes {
		names[strings.ToLower(cubes[i].Name)] = cubes[i].Name
	}
	var candidates []string
	for _, table := range slices.Sorted(maps.Keys(s.tables)) {
		cube := cmp.Or(names[strings.ToLower(table)], table)
		for _, column := range slices.Sorted(maps.Keys(s.names)) {
			if !s.tables[column] && !keywords[column] && !seen[cube+"."+column] {
				candidates = append(candidates, cube+"."+column)
			}
		}
	}
	return t.firstHidden(ctx, candidates)
}

// hiddenInJSON returns a hidden member that a JSON query names; "" if there is none.
func (t *tools) hiddenInJSON(ctx context.Context, names map[string]bool) string {
	cubes, err := t.metadata(ctx)
	if err != nil {
		return ""
	}
	seen := visible(cubes)
	var candidates []string
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if !seen[name] {
			candidates = append(candidates, name)
		}
	}
	return t.firstHidden(ctx, candidates)
}

// memberName is the name of a member with that of its cube.
var memberName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*\.[A-Za-z_][A-Za-z0-9_]*$`)

// firstHidden returns the first of the names that is one of a hidden member.
func (t *tools) firstHidden(ctx context.Context, names []string) string {
	left := maxProbes
	for _, name := range names {
		if !memberName.MatchString(name) {
			continue
		}
		if left--; left < 0 {
			return ""
		}
		for _, kind := range []string{"dimensions", "measures"} {
			if t.isHidden(ctx, kind, name) {
				return name
			}
		}
	}
	return ""
}

// isHidden reports whether a member that the asker does not see exists: for JSON queries the server distinguishes that from members that
// do not exist. It reports that the member is hidden, or returns no rows. The query is that of the asker, and its rows are not used.
func (t *tools) isHidden(ctx context.Context, kind, name string) bool {
	text, err := json.Marshal(map[string]any{kind: []string{name}, "limit": 1})
	if err != nil {
		return false
	}
	limits := t.Limits
	limits.Duration = min(limits.Duration, probeTime)
	result, err := t.Runner.Run(ctx, query.Query{JSON: text, First: 1}, t.Target, limits)
	if err == nil {
		result.Release()
		return true
	}
	var refused *query.ServerError
	return errors.As(err, &refused) && refused.HiddenMember()
}
