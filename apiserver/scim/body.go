package scim

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/klauspost/compress/gzip"

	"github.com/quoin-dev/quoin/apiserver/scim/schema"
	"github.com/quoin-dev/quoin/apiserver/scim/scimerror"
	"github.com/quoin-dev/quoin/internal/serving"
	"github.com/quoin-dev/quoin/internal/strictjson"
)

// Limits of request bodies in bytes, after decompression.
const (
	maxBody = 1 << 20
	// maxLargeBody is the limit of bodies with a Large attribute: 50,000 members as responses contain them.
	// They are read as a stream, of which at most maxBody is in memory.
	maxLargeBody = 32 << 20
)

// BodyLimit returns the maximum length of a request body in bytes, compressed or not; 0 for the default of the
// HTTP server. A group may be created and replaced with all members that responses contain.
func BodyLimit(r *http.Request) int64 {
	path, isSCIM := strings.CutPrefix(r.URL.Path, BasePath)
	if limit := bodyLimit(r.Method, path); isSCIM && limit > maxBody {
		return limit
	}
	return 0
}

// bodyLimit returns the limit of a request with a path relative to BasePath.
func bodyLimit(method, path string) int64 {
	below, isGroup := strings.CutPrefix(path, schema.Group.Endpoint)
	if isGroup && (method == http.MethodPost && below == "" || method == http.MethodPut && strings.HasPrefix(below, "/")) {
		return maxLargeBody
	}
	return maxBody
}

// body decodes the request body and chooses the client profile.
func (x *exchange) body() (map[string]any, error) {
	if declared := x.Request.Header.Get("Content-Type"); declared != "" {
		media, _, err := mime.ParseMediaType(declared)
		if err != nil || media != MediaType && media != "application/json" {
			return nil, scimerror.New(http.StatusUnsupportedMediaType, "Content-Type: must be %s or application/json, not %s", MediaType, scimerror.Quote(declared))
		}
	}
	work := &decoding{ctx: x.Context(), account: x.tenant.Name}
	defer work.end()
	var err error
	if work.body, err = x.decompressed(work); err != nil {
		return nil, err
	}
	value, err := strictjson.DecodeFrom(work, strictjson.Options{FoldNames: true, MaxUnstreamed: maxBody, Stream: x.stream})
	x.long = work.end()
	if err != nil {
		return nil, readError(err)
	}
	object, ok := value.(map[string]any)
	if !ok {
		return nil, scimerror.Bad(scimerror.InvalidSyntax, "the body must be a JSON object")
	}
	x.profile = chooseProfile(x.caller.Profile, x.Request, object)
	return object, nil
}

// stream returns what receives the elements of a Large attribute of a resource; nil for other arrays.
func (x *exchange) stream(path []string) strictjson.Elements {
	if bodyLimit(x.Method, x.URL.Path) == maxBody || len(path) == 0 {
		return nil
	}
	t, err := x.resourceType()
	if err != nil || len(path) > 2 || len(path) == 2 && !schema.SameName(t.Core.ID, path[0]) {
		return nil
	}
	if a := t.Core.Attribute(path[len(path)-1]); a != nil && a.Large() {
		return schema.NewElements(a, profileEntraID.Quirks.Leniency)
	}
	return nil
}

// decompressed returns a reader of the body. Its length is limited after decompression, too: a small body could
// decompress to any length.
func (x *exchange) decompressed(work *decoding) (io.Reader, error) {
	var source io.Reader = x.Body
	encoding := strings.ToLower(x.joined("Content-Encoding"))
	if encoding != "" || x.ContentLength < 0 || x.ContentLength > longBody {
		source = work.received(source)
	}
	switch encoding {
	case "", "identity":
	case "gzip", "x-gzip":
		reader, err := gzip.NewReader(source)
		if err != nil {
			return nil, readError(sourceError{err})
		}
		source = reader
	default:
		x.Header().Set("Accept-Encoding", "gzip")
		return nil, scimerror.New(http.StatusUnsupportedMediaType, "Content-Encoding: must be gzip or identity, not %s", scimerror.Quote(encoding))
	}
	limit := bodyLimit(x.Method, x.URL.Path)
	return &limitedReader{source: source, limit: limit, left: limit}, nil
}

// limitedReader reads at most limit bytes. Its errors are sourceErrors.
type limitedReader struct {
	source      io.Reader
	limit, left int64
}

// Read implements io.Reader.
func (l *limitedReader) Read(p []byte) (int, error) {
	n, err := l.source.Read(p)
	if l.left -= int64(n); l.left < 0 {
		return 0, sourceError{&http.MaxBytesError{Limit: l.limit}}
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return n, sourceError{err}
	}
	return n, err //nolint:wrapcheck // io.EOF must not be wrapped
}

// sourceError is an error of reading the body, not of its content.
type sourceError struct{ error }

func (e sourceError) Unwrap() error { return e.error }

// readError converts an error of reading a body. It does not disclose the cause of a sourceError.
func readError(err error) error {
	var known *scimerror.Error
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &known), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.As(err, &tooLarge):
		return scimerror.New(http.StatusRequestEntityTooLarge, "the body is larger than %d bytes", tooLarge.Limit)
	case errors.Is(err, strictjson.ErrTooLarge):
		return scimerror.New(http.StatusRequestEntityTooLarge, "the body, without the members of a group, is larger than %d bytes", maxBody)
	case errors.Is(err, strictjson.ErrSurrogate):
		return scimerror.Bad(scimerror.InvalidValue, "%s", err.Error())
	case errors.Is(err, serving.ErrSlowBody):
		return scimerror.New(http.StatusRequestTimeout, "%s", serving.ErrSlowBody.Error())
	case errors.As(err, &sourceError{}):
		return scimerror.Bad(scimerror.InvalidSyntax, "the body cannot be read")
	}
	return scimerror.Bad(scimerror.InvalidSyntax, "%s", err.Error())
}
