package scim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/quoin-dev/quoin/apiserver/scim/schema"
	"github.com/quoin-dev/quoin/apiserver/scim/scimerror"
	"github.com/quoin-dev/quoin/internal/fairsemaphore"
)

// MediaType is the media type of every response.
const MediaType = "application/scim+json"

// toError converts an error to a SCIM error. Internal errors are logged, and the client only
// receives "internal error".
func toError(ctx context.Context, err error) *scimerror.Error {
	var e *scimerror.Error
	switch {
	case errors.As(err, &e):
		return e
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return scimerror.New(http.StatusServiceUnavailable, "the request timed out; try again")
	}
	log.FromContext(ctx).Error(err, "SCIM request failed")
	return scimerror.New(http.StatusInternalServerError, "internal error")
}

// WriteError responds with err as a SCIM error (RFC 7644 section 3.12).
func WriteError(w http.ResponseWriter, r *http.Request, err error) {
	e := toError(r.Context(), err)
	if e.Status == http.StatusServiceUnavailable && w.Header().Get("Retry-After") == "" {
		w.Header().Set("Retry-After", "1")
	}
	WriteStatus(w, e)
}

// WriteStatus responds with a SCIM error.
func WriteStatus(w http.ResponseWriter, e *scimerror.Error) {
	header := w.Header()
	for _, name := range []string{"Content-Length", "Content-Encoding", "ETag", "Last-Modified", "Location"} {
		header.Del(name)
	}
	header.Set("Content-Type", MediaType)
	w.WriteHeader(e.Status)
	_, _ = w.Write(errorBody(e)) // the client may have disconnected
}

// errorBody returns an error as JSON; status is a string (RFC 7644 section 3.12).
func errorBody(e *scimerror.Error) []byte {
	body, err := json.Marshal(struct {
		Schemas  []string       `json:"schemas"`
		Status   string         `json:"status"`
		ScimType scimerror.Type `json:"scimType,omitempty"`
		Detail   string         `json:"detail,omitempty"`
	}{[]string{scimerror.URN}, strconv.Itoa(e.Status), e.Type, e.Detail})
	if err != nil {
		return []byte("{}") // cannot happen: strings are always encoded
	}
	return body
}

// write responds with a JSON body.
func (x *exchange) write(status int, body []byte) error {
	x.Header().Set("Content-Type", MediaType)
	x.Header().Add("Vary", "Accept-Encoding")
	if len(body) >= minCompressed && acceptsGzip(x.Request.Header.Values("Accept-Encoding")) {
		x.Header().Set("Content-Encoding", "gzip")
		x.WriteHeader(status)
		turn, err := fairsemaphore.Processors.BeginIf(x.Context(), len(body) > longBody, x.tenant.Name)
		if err != nil {
			panic(http.ErrAbortHandler) // the client has disconnected
		}
		defer turn.End()
		compress(turn.Writer(x.ResponseWriter), body)
		return nil
	}
	x.Header().Set("Content-Length", strconv.Itoa(len(body)))
	x.WriteHeader(status)
	_, _ = x.ResponseWriter.Write(body) // the client may have disconnected
	return nil
}

// longBody is the length in bytes from which a response is rendered and compressed in turns with the work of other
// accounts.
const longBody = 128 << 10

// minCompressed is the length in bytes from which responses are compressed.
const minCompressed = 4 << 10

// compressors are *gzip.Writers for reuse: each has more than 1 MiB of memory.
var compressors sync.Pool

// compress writes a compressed body. Errors are ignored: the client may have disconnected.
func compress(w io.Writer, body []byte) {
	compressor, ok := compressors.Get().(*gzip.Writer)
	if ok {
		compressor.Reset(w)
	} else {
		compressor, _ = gzip.NewWriterLevel(w, gzip.BestSpeed) // fails only for an invalid level
	}
	_, _ = compressor.Write(body)
	_ = compressor.Close()
	compressor.Reset(io.Discard) // the pool must not keep the response
	compressors.Put(compressor)
}

// acceptsGzip reports whether the values of Accept-Encoding contain gzip or * with a weight above 0 (RFC 9110
// section 12.5.3).
func acceptsGzip(values []string) bool {
	accepted := false
	for coding := range strings.SplitSeq(strings.Join(values, ","), ",") {
		name, weight, _ := strings.Cut(strings.ToLower(strings.ReplaceAll(coding, " ", "")), ";q=")
		q, err := strconv.ParseFloat(weight, 64)
		wanted := weight == "" || err == nil && q > 0
		switch name {
		case "gzip", "x-gzip":
			return wanted
		case "*":
			accepted = wanted
		}
	}
	return accepted
}

// writeJSON responds with 200 and a value as JSON.
func (x *exchange) writeJSON(value any) error {
	body, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("encode response: %w", err)
	}
	return x.write(http.StatusOK, body)
}

// Header returns the response headers. It resolves the ambiguity between the embedded Request and
// ResponseWriter.
func (x *exchange) Header() http.Header { return x.ResponseWriter.Header() }

// Write writes to the response body. It resolves the ambiguity between the embedded Request and
// ResponseWriter.
func (x *exchange) Write(data []byte) (int, error) { return x.ResponseWriter.Write(data) }

// writeResource responds with a resource.
func (x *exchange) writeResource(status int, r *schema.Resource, p *schema.Projection) error {
	r.Location = x.locate(r.Type.Name, r.ID)
	if status == http.StatusCreated {
		x.Header().Set("Location", r.Location)
	}
	body, err := x.renderResource(r, p)
	if err != nil {
		return err
	}
	x.Header().Set("ETag", r.ETag())
	return x.write(status, body)
}

// renderResource returns a resource as JSON.
func (x *exchange) renderResource(r *schema.Resource, p *schema.Projection) ([]byte, error) {
	size := r.RenderedSize()
	turn, err := fairsemaphore.Processors.BeginIf(x.Context(), size > longBody, x.tenant.Name)
	if err != nil {
		return nil, err
	}
	defer turn.End()
	return r.RenderInSteps(make([]byte, 0, size), p, x.locate, yielding(turn)), x.Context().Err()
}

// renderedElements is the number of elements, such as the members of a group, after which the work of other accounts may run.
const renderedElements = 256

// yielding returns a function that is called for each rendered element, and reports whether to go on.
func yielding(turn *fairsemaphore.Turn) func() bool {
	n := 0
	return func() bool {
		n++
		return n%renderedElements != 0 || turn.Yield() == nil
	}
}
