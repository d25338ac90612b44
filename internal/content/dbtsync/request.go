package dbtsync

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/dbt"
)

// Request is the documented body of a request that starts a sync.
type Request struct {
	BranchName, Source, Output, Ref string
	// Options are nil if they are absent.
	Options *v1alpha1.DbtOptions
	// Manifest is nil if it is absent or empty.
	Manifest *dbt.Manifest
	// Selected are the unique ids of the selected models, in a delivery of a pod; nil if they are absent.
	Selected map[string]bool
	// Catalog has the types of columns in the data source, in a delivery of a pod; nil if it is absent.
	Catalog *dbt.Catalog

	delivery bool
}

// errRequest is the error for a body that is not the documented object.
func errRequest(format string, args ...any) error {
	return &dbt.Error{Message: fmt.Sprintf(format, args...)}
}

// ReadRequest reads a body as a stream: a manifest may be long. An error that is not a *dbt.Error is that
// of the source.
func ReadRequest(source io.Reader) (*Request, error) { return (&Request{}).read(source) }

// ReadDelivery reads what a pod delivers: an object with the fields manifest, selected and catalog.
func ReadDelivery(source io.Reader) (*Request, error) { return (&Request{delivery: true}).read(source) }

func (r *Request) read(source io.Reader) (*Request, error) {
	d := json.NewDecoder(&dense{source: source})
	begin, err := d.Token()
	if err != nil {
		return nil, malformed(d, err)
	}
	if begin != json.Delim('{') {
		return nil, errRequest("body: not an object")
	}
	seen := map[string]bool{}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, malformed(d, err)
		}
		field, _ := name.(string) // the decoder accepts only strings here
		if seen[field] {
			return nil, errRequest("%s: it is there twice", clip(field))
		}
		seen[field] = true
		if err := r.field(d, field); err != nil {
			return nil, malformed(d, err)
		}
	}
	if _, err := d.Token(); err != nil {
		return nil, malformed(d, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, malformed(d, errors.Join(err, io.ErrUnexpectedEOF))
	}
	return r, nil
}

// malformed returns the error for users if it is one of the JSON.
func malformed(d *json.Decoder, err error) error {
	var syntax *json.SyntaxError
	var mismatch *json.UnmarshalTypeError
	var invalid *dbt.Error
	switch {
	case errors.As(err, &invalid):
		return invalid
	case errors.As(err, &mismatch):
		return errRequest("body: a %s is not the documented type", mismatch.Value)
	case errors.As(err, &syntax), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errRequest("body: not valid JSON: it is malformed at byte %d", d.InputOffset())
	}
	return err
}

// field reads a field of the body.
func (r *Request) field(d *json.Decoder, name string) error {
	into := map[string]*string{"branchName": &r.BranchName, "source": &r.Source, "output": &r.Output, "ref": &r.Ref}[name]
	if into != nil {
		return d.Decode(&into)
	}
	switch {
	case name == "options":
		return r.readOptions(d)
	case name == "selected" && r.delivery:
		return r.readSelected(d)
	case name == "catalog" && r.delivery:
		catalog, err := dbt.DecodeCatalog(d)
		r.Catalog = catalog
		return err
	case name == "manifest":
	default:
		return errRequest("%s: unknown field; allowed: branchName, manifest, options, output, ref, source", clip(name))
	}
	m, err := dbt.Decode(d)
	r.Manifest = m
	return err
}

// maxOptions is the maximum length of the options of a request in bytes.
const maxOptions = 16 << 10

// readOptions reads the options of a request.
func (r *Request) readOptions(d *json.Decoder) error {
	var text json.RawMessage
	if err := d.Decode(&text); err != nil {
		return err
	}
	if len(text) > maxOptions {
		return errRequest("options: longer than %d bytes", maxOptions)
	}
	strict := json.NewDecoder(bytes.NewReader(text))
	strict.DisallowUnknownFields()
	var mismatch *json.UnmarshalTypeError
	switch err := strict.Decode(&r.Options); {
	case errors.As(err, &mismatch) && mismatch.Field != "":
		return errRequest("options.%s: a %s is not the documented type", clip(mismatch.Field), mismatch.Value)
	case errors.As(err, &mismatch):
		return errRequest("options: a %s is not the documented object", mismatch.Value)
	case err != nil: // an unknown field
		return errRequest("options: %s", clip(strings.TrimPrefix(err.Error(), "json: ")))
	}
	if r.Options == nil {
		return nil
	}
	for name, value := range map[string]*string{
		"namePrefix": r.Options.NamePrefix, "titlePrefix": r.Options.TitlePrefix, "primaryKeySuffix": r.Options.PrimaryKeySuffix,
	} {
		if value != nil && utf8.RuneCountInString(*value) > maxAffix {
			return errRequest("options.%s: longer than %d characters", name, maxAffix)
		}
	}
	if len(r.Options.OutputPath) > maxOutputPath {
		return errRequest("options.outputPath: longer than %d bytes", maxOutputPath)
	}
	if _, err := (dbt.Options{DbtOptions: *r.Options}).Directory(); err != nil {
		return errRequest("options.%s", err)
	}
	return nil
}

// The limits of options, as in the schema of DbtSync.
const (
	maxAffix      = 64
	maxOutputPath = 512
)

// maxSelected is the maximum number of selected models.
const maxSelected = 100_000

// readSelected reads the unique ids of the selected models.
func (r *Request) readSelected(d *json.Decoder) error {
	var ids []string
	if err := d.Decode(&ids); err != nil {
		return err
	}
	if len(ids) > maxSelected {
		return errRequest("selected: more than %d models", maxSelected)
	}
	r.Selected = make(map[string]bool, len(ids))
	for _, id := range ids {
		r.Selected[id] = true
	}
	return nil
}

// maxSpaces is the maximum number of characters of white space in a row.
const maxSpaces = 64 << 10

// dense reads JSON without much white space between its tokens. The decoder looks at the white space before a
// token again whenever more arrives, so its time would be quadratic.
type dense struct {
	source            io.Reader
	spaces            int
	inString, escaped bool
	err               error
}

// Read implements io.Reader. After its error it reads nothing: the decoder may ignore the first one.
func (r *dense) Read(p []byte) (int, error) {
	if r.err != nil {
		return 0, r.err
	}
	n, err := r.source.Read(p)
	for _, b := range p[:n] {
		switch {
		case r.escaped:
			r.escaped = false
		case r.inString:
			r.escaped, r.inString = b == '\\', b != '"'
		case b == ' ' || b == '\n' || b == '\r' || b == '\t':
			if r.spaces++; r.spaces > maxSpaces {
				r.err = errRequest("body: more than %d characters of white space in a row", maxSpaces)
				return 0, r.err
			}
		default:
			r.spaces, r.inString = 0, b == '"'
		}
	}
	return n, err
}
