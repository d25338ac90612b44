package dataapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

// Entity is a cube or a view in the listing of entities.
type Entity struct {
	Name        string `json:"name"`
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`
	// Type is cube or view.
	Type       string   `json:"type"`
	DataSource string   `json:"dataSource,omitempty"`
	Measures   []Member `json:"measures"`
	Dimensions []Member `json:"dimensions"`
	Segments   []Member `json:"segments"`
}

// Member is a measure, a dimension or a segment.
type Member struct {
	Name        string `json:"name"`
	Title       string `json:"title,omitempty"`
	ShortTitle  string `json:"shortTitle,omitempty"`
	Description string `json:"description,omitempty"`
	Type        string `json:"type,omitempty"`
	AggType     string `json:"aggType,omitempty"`
	PrimaryKey  bool   `json:"primaryKey,omitempty"`
}

// DataSource is a data source of the model.
type DataSource struct {
	Name string `json:"name"`
	// Type is the value of the server's CUBEJS_DB_TYPE, such as postgres; empty if unknown.
	Type string `json:"type,omitempty"`
	// Entities are the names of the entities that refer to it.
	Entities []string `json:"entities,omitempty"`
}

// ErrNoDataSources means that the data sources are unknown.
var ErrNoDataSources = errors.New("neither the server's metadata nor spec.env of the deployment names a data source")

// Entities returns the cubes and views in the server's response to GET /v1/meta, in its order. The
// server omits entities that the token's security context does not permit.
func Entities(meta []byte) ([]Entity, error) {
	document := struct {
		Cubes []Entity `json:"cubes"`
	}{}
	if err := json.Unmarshal(meta, &document); err != nil {
		return nil, fmt.Errorf("read the server's metadata: %w", err)
	}
	for i := range document.Cubes {
		e := &document.Cubes[i]
		if e.Type == "" {
			e.Type = "cube" // servers before 0.32 have no type
		}
		for _, members := range []*[]Member{&e.Measures, &e.Dimensions, &e.Segments} {
			if *members == nil {
				*members = []Member{}
			}
		}
	}
	if document.Cubes == nil {
		return []Entity{}, nil
	}
	return document.Cubes, nil
}

// DataSources returns the data sources that entities refer to or, because the open-source server
// does not expose them, those that the deployment's variables configure. It returns
// ErrNoDataSources if there are neither.
func DataSources(entities []Entity, env []v1alpha1.EnvVar) ([]DataSource, error) {
	configured := configuredSources(env)
	var out []DataSource
	for _, e := range entities {
		if e.DataSource == "" {
			continue
		}
		i := slices.IndexFunc(out, func(d DataSource) bool { return d.Name == e.DataSource })
		if i < 0 {
			i = len(out)
			out = append(out, DataSource{Name: e.DataSource, Type: configured[e.DataSource]})
		}
		out[i].Entities = append(out[i].Entities, e.Name)
	}
	if len(out) == 0 {
		for name, kind := range configured {
			out = append(out, DataSource{Name: name, Type: kind})
		}
	}
	if len(out) == 0 {
		return nil, ErrNoDataSources
	}
	slices.SortFunc(out, func(a, b DataSource) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// configuredSources returns the data sources of the variables, with their types: default, or those
// of CUBEJS_DATASOURCES, whose variables contain the name (CUBEJS_DS_<NAME>_DB_TYPE).
// Source: packages/cubejs-backend-shared/src/env.ts, keyByDataSource. Variables with values from
// Secrets are ignored.
func configuredSources(env []v1alpha1.EnvVar) map[string]string {
	values := map[string]string{}
	for _, v := range env {
		if v.Value != nil {
			values[v.Name] = *v.Value
		}
	}
	out := map[string]string{}
	for name := range strings.SplitSeq(values["CUBEJS_DATASOURCES"], ",") {
		if name = strings.TrimSpace(name); name == "" {
			continue
		}
		variable := "CUBEJS_DS_" + strings.ToUpper(name) + "_DB_TYPE"
		if name == "default" {
			variable = "CUBEJS_DB_TYPE"
		}
		out[name] = values[variable]
	}
	if kind := values["CUBEJS_DB_TYPE"]; len(out) == 0 && kind != "" {
		out["default"] = kind
	}
	return out
}
