package dbt

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
)

// MaxCatalogBytes is the maximum length of a catalog.
const MaxCatalogBytes = 32 << 20

// maxCatalogColumns is the maximum number of columns of the models of a catalog.
const maxCatalogColumns = 500_000

// Catalog has the types of the columns of models in the data source, as dbt docs generate reads them.
type Catalog struct {
	// models are the types of columns by unique id and by name: as the data source writes it, and in lower case
	// unless that is the name of another column.
	models map[text]map[string]kind
}

// Models returns the number of models that the data source has.
func (c *Catalog) Models() int { return len(c.models) }

// has reports whether the data source has a model.
func (c *Catalog) has(model text) bool { return c.models[model] != nil }

// kindOf returns the type of a column; false if it is not in the catalog. Names may differ in case, as most
// warehouses ignore it.
func (c *Catalog) kindOf(model text, column string) (kind, bool) {
	columns := c.models[model]
	if found, ok := columns[column]; ok {
		return found, true
	}
	found, ok := columns[strings.ToLower(column)]
	return found, ok
}

var catalogVersion = regexp.MustCompile(`/dbt/catalog/v[0-9]{1,4}(\.json)?$`)

// DecodeCatalog reads a catalog that is the next value of a decoder. It keeps only the types of columns. An error that
// is not an *Error is that of the source.
func DecodeCatalog(decoder *json.Decoder) (*Catalog, error) {
	r := &catalogReader{reader: reader{tokens: decoder}, begin: decoder.InputOffset(), models: map[text]map[string]kind{}}
	if err := r.each(r.field); err != nil {
		return nil, describe(err, decoder, "catalog")
	}
	if !r.hasNodes || !catalogVersion.MatchString(string(r.metadata.Schema)) {
		return nil, errorf(`not a catalog of dbt: "metadata" has no version of its schema, or "nodes" is missing; allowed: target/catalog.json as dbt wrote it`)
	}
	return &Catalog{r.models}, r.checkLength()
}

// catalogReader reads a catalog value by value: only one table is in memory as JSON.
type catalogReader struct {
	reader
	begin   int64
	models  map[text]map[string]kind
	columns int
}

func (r *catalogReader) field(name string) error {
	switch name {
	case "metadata":
		return r.tokens.Decode(&r.metadata)
	case "nodes":
		r.hasNodes = true
		return r.each(r.table)
	}
	return r.skip()
}

// table reads a table, and keeps the types of its columns if it is that of a model.
func (r *catalogReader) table(id string) error {
	if err := r.checkLength(); err != nil {
		return err
	}
	if !strings.HasPrefix(id, "model.") {
		return r.tokens.Decode(&ignored{})
	}
	var table struct {
		Columns kinds `json:"columns"`
	}
	if err := r.tokens.Decode(&table); err != nil {
		return err
	}
	if r.columns += len(table.Columns); r.columns > maxCatalogColumns {
		return errorf("the catalog has too many columns; allowed: %d", maxCatalogColumns)
	}
	if table.Columns == nil {
		table.Columns = kinds{}
	}
	r.models[text(id)] = table.Columns
	return nil
}

func (r *catalogReader) checkLength() error {
	if r.tokens.InputOffset()-r.begin > MaxCatalogBytes {
		return errorf("the catalog is too large: it may have %d MiB", MaxCatalogBytes>>20)
	}
	return nil
}

// kinds are the types of the columns of a table by name.
type kinds map[string]kind

// UnmarshalJSON implements json.Unmarshaler.
func (k *kinds) UnmarshalJSON(data []byte) error {
	if len(data) == 0 || data[0] != '{' {
		return nil
	}
	*k = kinds{}
	folded := kinds{}
	r := &reader{tokens: json.NewDecoder(bytes.NewReader(data))}
	err := r.each(func(name string) error {
		var column struct {
			Type text `json:"type"`
		}
		if err := r.tokens.Decode(&column); err != nil {
			return err
		}
		if strings.TrimSpace(string(column.Type)) == "" {
			return nil
		}
		found := kindOf(string(column.Type), "")
		(*k)[name] = found
		if lower := strings.ToLower(name); lower != name && folded[lower] == "" {
			folded[lower] = found
		}
		return nil
	})
	for name, found := range folded {
		if _, exists := (*k)[name]; !exists {
			(*k)[name] = found
		}
	}
	return err
}
