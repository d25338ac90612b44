package dbtsync

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/quoin-dev/quoin/internal/dbt"
)

// Request is the documented body of a request that starts a sync.
type Request struct {
	BranchName, Source, Output, Ref string
	// Manifest is nil if it is absent or empty.
	Manifest *dbt.Manifest
}

// errRequest is the error for a body that is not the documented object.
func errRequest(format string, args ...any) error {
	return &dbt.Error{Message: fmt.Sprintf(format, args...)}
}

// ReadRequest reads a body as a stream: a manifest may be long. An error that is not a *dbt.Error is that
// of the source.
func ReadRequest(source io.Reader) (*Request, error) {
	r := &Request{}
	d := json.NewDecoder(source)
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
	switch {
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
	if name != "manifest" {
		return errRequest("%s: unknown field; allowed: branchName, manifest, output, ref, source", clip(name))
	}
	m, err := dbt.Decode(d)
	r.Manifest = m
	return err
}
