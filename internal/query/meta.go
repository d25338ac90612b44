package query

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
)

// Cube is a cube or a view, as its metadata describe it.
type Cube struct {
	// Name, and Title for people.
	Name  string `json:"name"`
	Title string `json:"title"`
	// Type is cube or view; empty from servers that do not tell.
	Type        string   `json:"type"`
	Description string   `json:"description"`
	Meta        Meta     `json:"meta"`
	Measures    []Member `json:"measures"`
	Dimensions  []Member `json:"dimensions"`
	Segments    []Member `json:"segments"`
}

// Member is a measure, a dimension or a segment. Name has the name of the cube and a dot before it.
type Member struct {
	Name        string `json:"name"`
	Title       string `json:"title"`
	ShortTitle  string `json:"shortTitle"`
	Description string `json:"description"`
	Type        string `json:"type"`
	// AggType is that of a measure.
	AggType string `json:"aggType"`
	Meta    Meta   `json:"meta"`
}

// Meta is what a model has for language models in meta.
type Meta struct {
	// AIContext is the text of ai_context; empty if it is no text.
	AIContext string
}

// UnmarshalJSON implements json.Unmarshaler. Models may have any value in meta.
func (m *Meta) UnmarshalJSON(data []byte) error {
	var in struct {
		AIContext json.RawMessage `json:"ai_context"`
	}
	*m = Meta{}
	if json.Unmarshal(data, &in) == nil && len(in.AIContext) > 0 && json.Unmarshal(in.AIContext, &m.AIContext) != nil {
		m.AIContext = ""
	}
	return nil
}

// Cubes returns the cubes and views that the tokens of a target may see. The error is a *ServerError with status 403 if they must
// not read metadata.
func (r *Runner) Cubes(ctx context.Context, t Target, l Limits) ([]Cube, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, l.Duration, &LimitError{"duration", l.Duration.String()})
	defer cancel()
	var meta struct {
		Cubes []Cube `json:"cubes"`
	}
	err := newRun(r.HTTP, Query{}, t, l).repeat(ctx, "/v1/meta", nil, func(body io.Reader, _ string) error {
		if json.NewDecoder(&limitedReader{body, l.Bytes, l.Bytes}).Decode(&meta) != nil {
			return fmt.Errorf("%w: it is not the JSON of /v1/meta", errMalformed)
		}
		return nil
	})
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, err
	}
	return meta.Cubes, nil
}
