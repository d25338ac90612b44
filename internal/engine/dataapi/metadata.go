package dataapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

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

// Entity is a cube or a view in the listing of entities. Its members are in the listing too.
type Entity struct {
	Name        string `json:"name"`
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`
	// Type is cube or view.
	Type       string `json:"type"`
	DataSource string `json:"dataSource,omitempty"`
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

// sections are the fields of an entity that list members, in the order of the listing.
var sections = [...]string{"measures", "dimensions", "segments"}

// Entities returns the listing of entities, as JSON: the cubes and views in the server's response to GET /v1/meta, in its
// order. The server omits entities that the token's security context does not permit. The metadata are read as a
// stream. The error is ErrTooLarge, ErrMalformed or an error of the reader.
func Entities(meta io.Reader) ([]byte, error) {
	out := &bytes.Buffer{}
	out.WriteString(`{"entities":[`)
	var members [len(sections)]bytes.Buffer
	size := func() int { return out.Len() + members[0].Len() + members[1].Len() + members[2].Len() }
	err := readCubes(meta, func(d *decoder) error {
		for i := range members {
			members[i].Reset()
		}
		e, err := d.entity(func(section int, member []byte) error {
			appendElement(&members[section], member)
			return limitListing(size())
		})
		if err != nil {
			return err
		}
		head, err := json.Marshal(e)
		if err != nil {
			return err
		}
		if out.Bytes()[out.Len()-1] != '[' {
			out.WriteByte(',')
		}
		out.Write(bytes.TrimSuffix(head, []byte("}")))
		for i := range members {
			fmt.Fprintf(out, `,%q:[`, sections[i])
			_, _ = members[i].WriteTo(out)
			out.WriteByte(']')
		}
		out.WriteByte('}')
		return limitListing(out.Len())
	})
	if err != nil {
		return nil, err
	}
	out.WriteString("]}\n")
	return out.Bytes(), nil
}

func appendElement(list *bytes.Buffer, element []byte) {
	if list.Len() > 0 {
		list.WriteByte(',')
	}
	list.Write(element)
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
	err := readCubes(meta, func(d *decoder) error {
		e, err := d.entity(nil)
		if err != nil || e.DataSource == "" {
			return err
		}
		i, known := index[e.DataSource]
		if !known {
			i = len(out)
			index[e.DataSource] = i
			out = append(out, DataSource{Name: e.DataSource, Type: configured[e.DataSource]})
			size += 2*overhead + len(e.DataSource)
		}
		out[i].Entities = append(out[i].Entities, e.Name)
		size += overhead + len(e.Name)
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
