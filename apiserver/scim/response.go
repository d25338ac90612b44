package scim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/quoin-dev/quoin/apiserver/scim/schema"
	"github.com/quoin-dev/quoin/apiserver/scim/scimerror"
	"github.com/quoin-dev/quoin/internal/strictjson"
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
	x.Header().Set("Content-Length", strconv.Itoa(len(body)))
	x.WriteHeader(status)
	_, _ = x.ResponseWriter.Write(body) // the client may have disconnected
	return nil
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
	x.Header().Set("ETag", r.ETag())
	return x.write(status, r.Render(nil, p, x.locate))
}

// body decodes the request body and chooses the client profile.
func (x *exchange) body() (map[string]any, error) {
	if declared := x.Request.Header.Get("Content-Type"); declared != "" {
		media, _, err := mime.ParseMediaType(declared)
		if err != nil || media != MediaType && media != "application/json" {
			return nil, scimerror.New(http.StatusUnsupportedMediaType, "Content-Type: must be %s or application/json, not %s", MediaType, scimerror.Quote(declared))
		}
	}
	data, err := io.ReadAll(x.Body)
	if err != nil {
		var tooLarge *http.MaxBytesError
		if errors.As(err, &tooLarge) {
			return nil, scimerror.New(http.StatusRequestEntityTooLarge, "the body is larger than %d bytes", tooLarge.Limit)
		}
		return nil, scimerror.Bad(scimerror.InvalidSyntax, "the body cannot be read")
	}
	value, err := strictjson.Decode(data, strictjson.Options{FoldNames: true})
	if errors.Is(err, strictjson.ErrSurrogate) {
		return nil, scimerror.Bad(scimerror.InvalidValue, "%s", err.Error())
	}
	if err != nil {
		return nil, scimerror.Bad(scimerror.InvalidSyntax, "%s", err.Error())
	}
	object, ok := value.(map[string]any)
	if !ok {
		return nil, scimerror.Bad(scimerror.InvalidSyntax, "the body must be a JSON object")
	}
	x.profile = chooseProfile(x.caller.Profile, x.Request, object)
	return object, nil
}
