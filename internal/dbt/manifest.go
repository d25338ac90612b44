package dbt

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// minSchema is the oldest version of the manifest's schema that is read, that of dbt 1.0.
const minSchema = 4

// Manifest is what a conversion needs of a manifest.json.
type Manifest struct {
	Stats Stats
	// Project is the name of the dbt project.
	Project string
	// Adapter is the type of the warehouse, such as postgres.
	Adapter string

	// models and tests are sorted by unique id.
	models, tests []*node
}

// node is a node of a manifest, of which only models and tests are used.
type node struct {
	UniqueID     text     `json:"unique_id"`
	ResourceType text     `json:"resource_type"`
	Name         text     `json:"name"`
	Alias        text     `json:"alias"`
	PackageName  text     `json:"package_name"`
	Path         text     `json:"path"`
	Description  text     `json:"description"`
	Version      text     `json:"version"`
	Database     text     `json:"database"`
	Schema       text     `json:"schema"`
	RelationName text     `json:"relation_name"`
	Config       config   `json:"config"`
	Columns      columns  `json:"columns"`
	Constraints  rules    `json:"constraints"`
	ColumnName   text     `json:"column_name"`
	AttachedNode text     `json:"attached_node"`
	DependsOn    nodeList `json:"depends_on"`
	Test         *test    `json:"test_metadata"`
}

type config struct {
	Enabled      *bool `json:"enabled"`
	Materialized text  `json:"materialized"`
	Severity     text  `json:"severity"`
	Where        text  `json:"where"`
	ErrorIf      text  `json:"error_if"`
	FailCalc     text  `json:"fail_calc"`
}

type nodeList struct {
	Nodes []text `json:"nodes"`
}

// test has the arguments of a generic test.
type test struct {
	Name      text `json:"name"`
	Namespace text `json:"namespace"`
	Arguments struct {
		ColumnName text `json:"column_name"`
		Model      text `json:"model"`
		To         text `json:"to"`
		Field      text `json:"field"`
	} `json:"kwargs"`
}

// column is a documented column of a model.
type column struct {
	Name        text  `json:"name"`
	Description text  `json:"description"`
	DataType    text  `json:"data_type"`
	Quote       *bool `json:"quote"`
	Constraints rules `json:"constraints"`
}

// rule is a constraint.
type rule struct {
	Type       text   `json:"type"`
	Columns    []text `json:"columns"`
	Expression text   `json:"expression"`
	To         text   `json:"to"`
	ToColumns  []text `json:"to_columns"`
}

// rules are constraints; other values than lists are ignored.
type rules []rule

// UnmarshalJSON implements json.Unmarshaler.
func (r *rules) UnmarshalJSON(data []byte) error {
	if len(data) == 0 || data[0] != '[' {
		return nil
	}
	return json.Unmarshal(data, (*[]rule)(r))
}

// text is a string. Numbers are read as they are written, and other values as the empty string:
// arguments of tests may have any type.
type text string

// UnmarshalJSON implements json.Unmarshaler.
func (t *text) UnmarshalJSON(data []byte) error {
	if len(data) == 0 {
		return nil
	}
	switch c := data[0]; {
	case c == '"':
		return json.Unmarshal(data, (*string)(t))
	case c == '-' || c >= '0' && c <= '9':
		*t = text(data)
	}
	return nil
}

// columns are the columns of a model, in the order of the manifest.
type columns []column

// UnmarshalJSON implements json.Unmarshaler.
func (c *columns) UnmarshalJSON(data []byte) error {
	if len(data) == 0 || data[0] != '{' {
		return nil
	}
	r := &reader{tokens: json.NewDecoder(bytes.NewReader(data))}
	return r.each(func(name string) error {
		next := column{Name: text(name)}
		if err := r.tokens.Decode(&next); err != nil {
			return err
		}
		*c = append(*c, next)
		return nil
	})
}

// Read reads a manifest. It keeps only what a conversion needs. An error that is not an *Error is that
// of the source.
func Read(source io.Reader) (*Manifest, error) {
	limited := &limitedReader{source: source, left: MaxManifestBytes}
	decoder := json.NewDecoder(limited)
	m, err := Decode(decoder)
	if err == nil && m == nil {
		err = errNoManifest
	}
	if err == nil {
		if _, err = decoder.Token(); errors.Is(err, io.EOF) {
			err = nil
		} else if err == nil || isSyntax(err) {
			err = errorf("the manifest is not valid JSON: there is more after its end")
		}
	}
	if limited.exceeded {
		return nil, errorf("the manifest is too large: it may have %d MiB", MaxManifestBytes>>20)
	}
	return m, err
}

// Decode reads a manifest that is the next value of a decoder, without a limit of its length. It returns
// nil for null and an empty object.
func Decode(decoder *json.Decoder) (*Manifest, error) {
	r := &reader{tokens: decoder, nodes: map[string]*node{}}
	if err := r.manifest(); err != nil {
		return nil, describe(err, decoder, "manifest")
	}
	if r.isEmpty {
		return nil, nil //nolint:nilnil // documented
	}
	return r.result()
}

// describe returns the error, for users, of reading JSON; others unchanged. document is what was read.
func describe(err error, decoder *json.Decoder, document string) error {
	var mismatch *json.UnmarshalTypeError
	switch {
	case errors.As(err, &mismatch) && mismatch.Field != "":
		return errorf("not a %s of dbt: %q is a %s", document, clip(mismatch.Field), mismatch.Value)
	case errors.As(err, &mismatch):
		return errorf("not a %s of dbt: it has a %s where an object is expected, before byte %d", document, mismatch.Value, decoder.InputOffset())
	case isSyntax(err):
		return errorf("the %s is not valid JSON: it is malformed at byte %d", document, decoder.InputOffset())
	}
	return err
}

func isSyntax(err error) bool {
	var syntax *json.SyntaxError
	return errors.As(err, &syntax) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// limitedReader fails after a number of bytes.
type limitedReader struct {
	source   io.Reader
	left     int64
	exceeded bool
}

// Read implements io.Reader.
func (l *limitedReader) Read(p []byte) (int, error) {
	if l.exceeded {
		return 0, io.ErrUnexpectedEOF
	}
	if int64(len(p)) > l.left+1 {
		p = p[:l.left+1]
	}
	n, err := l.source.Read(p)
	if l.left -= int64(n); l.left < 0 {
		l.exceeded = true
		return 0, io.ErrUnexpectedEOF
	}
	return n, err
}

// reader reads a manifest value by value: only one node is in memory as JSON.
type reader struct {
	tokens   *json.Decoder
	metadata struct {
		Schema      text `json:"dbt_schema_version"`
		Version     text `json:"dbt_version"`
		GeneratedAt text `json:"generated_at"`
		Adapter     text `json:"adapter_type"`
		Project     text `json:"project_name"`
	}
	isEmpty  bool
	hasNodes bool
	nodes    map[string]*node
	stats    Stats
}

// ignored is a value that is read and not kept.
type ignored struct{}

// UnmarshalJSON implements json.Unmarshaler.
func (*ignored) UnmarshalJSON([]byte) error { return nil }

func (r *reader) manifest() error {
	r.isEmpty = true
	return r.each(func(name string) error {
		r.isEmpty = false
		switch name {
		case "metadata":
			return r.tokens.Decode(&r.metadata)
		case "nodes":
			r.hasNodes = true
			return r.each(r.node)
		case "sources":
			return r.count(&r.stats.Sources)
		case "macros":
			return r.count(&r.stats.Macros)
		}
		return r.skip()
	})
}

// errNotObject is the error for a value that has to be an object.
var errNotObject = &json.UnmarshalTypeError{Value: "value of another type"}

// each calls f for each name of the object that is the next value; f reads the value of the name.
func (r *reader) each(f func(name string) error) error {
	switch begin, err := r.tokens.Token(); {
	case err != nil:
		return err
	case begin == nil:
		return nil
	case begin != json.Delim('{'):
		return errNotObject
	}
	for r.tokens.More() {
		name, err := r.tokens.Token()
		if err != nil {
			return err
		}
		key, _ := name.(string) // the decoder accepts only strings here
		if err := f(key); err != nil {
			return err
		}
	}
	_, err := r.tokens.Token()
	return err
}

func (r *reader) count(n *int) error {
	return r.each(func(string) error {
		*n++
		return r.tokens.Decode(&ignored{})
	})
}

// skip reads the next value, one element at a time.
func (r *reader) skip() error {
	begin, err := r.tokens.Token()
	if _, nested := begin.(json.Delim); err != nil || !nested {
		return err
	}
	for r.tokens.More() {
		if begin == json.Delim('{') {
			if _, err := r.tokens.Token(); err != nil {
				return err
			}
		}
		if err := r.tokens.Decode(&ignored{}); err != nil {
			return err
		}
	}
	_, err = r.tokens.Token()
	return err
}

// node reads a node and keeps it if it is a model, or a test that says something about keys or joins.
func (r *reader) node(id string) error {
	n := &node{}
	if err := r.tokens.Decode(n); err != nil {
		return err
	}
	n.UniqueID = cmp.Or(n.UniqueID, text(id))
	switch {
	case n.ResourceType == "model":
		r.nodes[string(n.UniqueID)] = n
	case n.ResourceType == "test" && n.Test != nil && n.Test.Namespace == "" && slices.Contains([]text{"unique", "not_null", "relationships"}, n.Test.Name):
		n.Columns = nil
		r.nodes[string(n.UniqueID)] = n
	}
	return nil
}

var schemaVersion = regexp.MustCompile(`/dbt/manifest/v([0-9]{1,4})(\.json)?$`)

// errNoManifest is the error for JSON that is no manifest.
var errNoManifest = errorf(`not a manifest of dbt: "metadata" has no version of its schema, or "nodes" is missing; allowed: target/manifest.json as dbt wrote it`)

// result returns the manifest, or an error if what was read is none.
func (r *reader) result() (*Manifest, error) {
	version := schemaVersion.FindStringSubmatch(string(r.metadata.Schema))
	if version == nil || !r.hasNodes {
		return nil, errNoManifest
	}
	if n, err := strconv.Atoi(version[1]); err != nil || n < minSchema {
		return nil, errorf("the manifest has version %s of its schema; allowed: %d or later, which dbt 1.0 and later write", version[1], minSchema)
	}
	m := &Manifest{Stats: r.stats, Project: string(r.metadata.Project), Adapter: strings.ToLower(string(r.metadata.Adapter))}
	m.Stats.DbtVersion = clip(string(r.metadata.Version))
	if at, err := time.Parse(time.RFC3339Nano, string(r.metadata.GeneratedAt)); err == nil {
		m.Stats.GeneratedAt = at.UTC()
	}
	for _, n := range r.nodes {
		if n.ResourceType == "model" {
			m.models = append(m.models, n)
		} else {
			m.tests = append(m.tests, n)
		}
	}
	byID := func(a, b *node) int { return cmp.Compare(a.UniqueID, b.UniqueID) }
	slices.SortFunc(m.models, byID)
	slices.SortFunc(m.tests, byID)
	m.Stats.Models = len(m.models)
	return m, nil
}
