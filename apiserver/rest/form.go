package rest

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/quoin-dev/quoin/internal/serving"
)

const (
	formMediaType = "multipart/form-data"
	// maxFormFields bounds the parts of a form.
	maxFormFields = 16
	// maxFieldBytes bounds a part without a file name.
	maxFieldBytes = 64 << 10
	// formOverhead is what the headers of the parts and the fields of a form may take.
	formOverhead = 256 << 10
)

// FormBody is the largest body of a form with a file of a size.
func FormBody(fileBytes int64) int64 { return fileBytes + formOverhead }

// Form is a multipart/form-data body, as a field of an input without Body. It is read when the handler
// calls Read, part by part: nothing is written to a disk.
type Form struct{ request *http.Request }

// Resolve implements huma.Resolver.
func (f *Form) Resolve(hc huma.Context) []error {
	f.request, _ = humago.Unwrap(hc)
	return nil
}

// FormContent is the content of a form.
type FormContent struct {
	Fields map[string]string
	// File is the content of the field "file".
	File []byte
	// HasFile reports whether there is that field.
	HasFile bool
}

// Read reads the form. Some clients send a second Content-Type header: that of the form is used.
func (f *Form) Read(maxFileBytes int64) (*FormContent, error) {
	boundary := ""
	for _, header := range f.request.Header.Values("Content-Type") {
		if media, parameters, err := mime.ParseMediaType(header); err == nil && media == formMediaType {
			boundary = parameters["boundary"]
		}
	}
	if boundary == "" {
		return nil, NewProblem(http.StatusUnsupportedMediaType, "Content-Type: allowed: %s with a boundary", formMediaType)
	}
	parts, out := multipart.NewReader(f.request.Body, boundary), &FormContent{Fields: map[string]string{}}
	for n := 0; ; n++ {
		part, err := parts.NextRawPart()
		if err == io.EOF { // not errors.Is: a form that is cut off is an error that wraps io.EOF
			return out, f.drain()
		}
		if err != nil {
			return nil, formError(err)
		}
		if n == maxFormFields {
			return nil, BadRequest("the form has more than %d fields", maxFormFields)
		}
		if err := out.add(part, maxFileBytes); err != nil {
			return nil, err
		}
	}
}

// drain reads what follows the form, so that the connection can be used again.
func (f *Form) drain() error {
	if _, err := io.Copy(io.Discard, f.request.Body); err != nil {
		return formError(err)
	}
	return nil
}

// add adds a part.
func (c *FormContent) add(part *multipart.Part, maxFileBytes int64) error {
	name, limit := part.FormName(), int64(maxFieldBytes)
	if name == "file" {
		limit = maxFileBytes
	}
	data := &bytes.Buffer{}
	n, err := io.Copy(data, io.LimitReader(part, limit+1))
	switch {
	case err != nil:
		return formError(err)
	case n > limit:
		return NewProblem(http.StatusRequestEntityTooLarge, "%s: has more than %d bytes", Clip(name), limit)
	case name == "file" && c.HasFile:
		return BadRequest("file: is there twice")
	case name == "file":
		c.File, c.HasFile = data.Bytes(), true
		return nil
	}
	if _, twice := c.Fields[name]; twice {
		return BadRequest("%s: is there twice", Clip(name))
	}
	c.Fields[name] = data.String()
	return nil
}

// formError returns the error, for callers, of reading a form.
func formError(err error) error {
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return NewProblem(http.StatusRequestEntityTooLarge, "the body of the request is larger than %d bytes", tooLarge.Limit)
	case errors.Is(err, serving.ErrSlowBody):
		return NewProblem(http.StatusRequestTimeout, "%s", serving.ErrSlowBody)
	}
	return BadRequest("the form is malformed or cut off")
}

// WithForm documents the fields of a form and the field "file". Fields are required, by their
// descriptions.
func (r Route) WithForm(fields map[string]string) Route {
	return r.WithDocument(func(_ *huma.OpenAPI, op *huma.Operation) {
		schema := &huma.Schema{Type: huma.TypeObject, Properties: map[string]*huma.Schema{
			"file": {Type: huma.TypeString, Format: "binary", Description: "The content of the file."},
		}}
		for name, description := range fields {
			schema.Properties[name] = &huma.Schema{Type: huma.TypeString, Description: description}
		}
		schema.Required = sortedNames(schema.Properties)
		op.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{formMediaType: {Schema: schema}}}
	})
}
