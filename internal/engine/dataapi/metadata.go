package dataapi

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

// Limits of listings. The metadata are produced by pods, whose code belongs to their tenant.
const (
	// maxMetadata limits the octets of the metadata that are read, and maxListing those of the listing.
	maxMetadata = 8 << 20
	maxListing  = 4 << 20
	// maxValue limits what is buffered of the metadata: a value that is not an object or list of the listing.
	maxValue = 1 << 20
)

// Reasons why there is no listing. The texts are shown to callers.
var (
	// ErrNoDataSources means that the data sources are unknown.
	ErrNoDataSources = errors.New("neither the server's metadata nor spec.env of the deployment names a data source")
	// ErrTooLarge means that the metadata or the listing exceed a limit.
	ErrTooLarge = fmt.Errorf("the environment's metadata are too large for a listing: "+
		"the maximum is %d MiB of metadata with values of %d MiB, and %d MiB for the listing; GET /v1/meta has no limit",
		maxMetadata>>20, maxValue>>20, maxListing>>20)
	// ErrMalformed means that the metadata are not those of a data-plane server.
	ErrMalformed = errors.New("the environment's metadata are malformed: expected the JSON object of GET /v1/meta")
)

// entityFields are the fields of cubes and views in the listing of entities. Lists of members follow them.
var entityFields = []field{
	{name: "name", kind: '"', required: true}, {name: "title", kind: '"'}, {name: "description", kind: '"'},
	{name: "type", kind: '"'}, {name: "dataSource", kind: '"'},
}

// Indexes of entityFields.
const (
	entityName       = 0
	entityType       = 3
	entityDataSource = 4
)

// memberFields are the fields of measures, dimensions and segments in the listing of entities.
var memberFields = []field{
	{name: "name", kind: '"', required: true}, {name: "title", kind: '"'}, {name: "shortTitle", kind: '"'},
	{name: "description", kind: '"'}, {name: "type", kind: '"'}, {name: "aggType", kind: '"'}, {name: "primaryKey", kind: 't'},
}

// DataSource is a data source of the model.
type DataSource struct {
	Name string `json:"name"`
	// Type is the value of the server's CUBEJS_DB_TYPE, such as postgres; empty if unknown.
	Type string `json:"type,omitempty"`
	// Entities are the names of the entities that refer to it.
	Entities []string `json:"entities,omitempty"`
}

// sections are the fields of an entity that list members, in the order of the listing.
var sections = [...]string{"measures", "dimensions", "segments"}

// Entities appends the listing of entities to out, as JSON: the cubes and views in the server's response to GET /v1/meta,
// in its order. type is cube or view. The server omits entities that the token's security context does not permit. The
// metadata are read as a stream. The error is ErrTooLarge, ErrMalformed or an error of the reader.
func Entities(out *bytes.Buffer, meta io.Reader) error {
	start := out.Len()
	out.WriteString(`{"entities":[`)
	entity, member := make([][]byte, len(entityFields)), make([][]byte, len(memberFields))
	var members [len(sections)][]byte
	first := true
	err := readCubes(meta, func(d *decoder) error {
		size := out.Len() - start
		for i := range members {
			members[i] = members[i][:0]
		}
		err := d.entity(entity, func(section int) error {
			if err := d.fields(memberFields, member, func([]byte) error { return d.skip() }); err != nil {
				return err
			}
			before := len(members[section])
			if before > 0 {
				members[section] = append(members[section], ',')
			}
			members[section] = append(appendFields(members[section], memberFields, member), '}')
			size += len(members[section]) - before
			return limitListing(size)
		})
		if err != nil {
			return err
		}
		if !first {
			out.WriteByte(',')
		}
		first = false
		out.Write(appendFields(out.AvailableBuffer(), entityFields, entity))
		for i, list := range members {
			out.WriteString(`,"` + sections[i] + `":[`)
			out.Write(list)
			out.WriteByte(']')
		}
		out.WriteByte('}')
		return limitListing(out.Len() - start)
	})
	if err != nil {
		return err
	}
	out.WriteString("]}\n")
	return nil
}

// entity reads a cube or a view, and stores its fields. It calls member with the section of each member, which must read
// it; nil skips members.
func (d *decoder) entity(values [][]byte, member func(section int) error) error {
	err := d.fields(entityFields, values, func(name []byte) error {
		section := slices.Index(sections[:], string(name))
		if section < 0 {
			return d.skip()
		}
		return d.list(func() error {
			if member == nil {
				return d.skip()
			}
			return member(section)
		})
	})
	if len(values[entityType]) == 0 {
		values[entityType] = append(values[entityType], `"cube"`...) // servers before 0.32 have no type
	}
	return err
}

func limitListing(size int) error {
	if size > maxListing {
		return ErrTooLarge
	}
	return nil
}

// DataSources returns the data sources that entities in the server's response to GET /v1/meta refer to or, because the
// open-source server does not expose them, those that the deployment's variables configure. It returns ErrNoDataSources
// if there are neither; other errors are those of Entities.
func DataSources(meta io.Reader, env []v1alpha1.EnvVar) ([]DataSource, error) {
	// overhead is the size of an element, with its string, in memory or in the listing.
	const overhead = 64
	configured := configuredSources(env)
	var out []DataSource
	index, size := map[string]int{}, 0
	entity := make([][]byte, len(entityFields))
	err := readCubes(meta, func(d *decoder) error {
		if err := d.entity(entity, nil); err != nil {
			return err
		}
		name, source := unquote(entity[entityName]), unquote(entity[entityDataSource])
		if source == "" {
			return nil
		}
		i, known := index[source]
		if !known {
			i = len(out)
			index[source] = i
			out = append(out, DataSource{Name: source, Type: configured[source]})
			size += 2*overhead + len(source)
		}
		out[i].Entities = append(out[i].Entities, name)
		size += overhead + len(name)
		return limitListing(size)
	})
	if err != nil {
		return nil, err
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

// unquote returns the text of a string as JSON; "" if it is empty.
func unquote(value []byte) string {
	text, _ := jsontext.AppendUnquote(nil, value) // fails only for an empty one: others are valid
	return string(text)
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

// CountCubes returns the number of cubes and views in the server's response to GET /v1/meta. Its errors are those of
// Entities.
func CountCubes(meta io.Reader) (n int64, err error) {
	err = readCubes(meta, func(d *decoder) error {
		n++
		return d.skip()
	})
	return n, err
}
