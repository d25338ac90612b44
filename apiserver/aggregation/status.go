package aggregation

import (
	"bytes"
	"encoding/json"
	"mime"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// failure is an error as Status, which Kubernetes clients require, and as the documented field error.
type failure struct {
	metav1.Status `json:",inline"`

	Error string `json:"error"`
}

// WriteFailure writes an error in both forms.
func WriteFailure(w http.ResponseWriter, code int, message string) {
	f := failure{Status: newStatus(code, message), Error: message}
	w.Header().Del("Content-Length")
	write(w, code, "application/json", f)
}

// newStatus returns the Status of an error.
func newStatus(code int, message string) metav1.Status {
	status := apierrors.NewGenericServerResponse(code, "", schema.GroupResource{}, "", "", 0, false).Status()
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	status.Message, status.Details = message, nil
	return status
}

// scimMediaType is the media type of SCIM (RFC 7644, section 3.1).
const scimMediaType = "application/scim+json"

// failures is a response that converts documented errors, {"error": "…"}, to both forms. It converts
// SCIM errors to a Status unless the client accepts SCIM by its media type: the member status has
// another value in each, so that no response is both. Other responses are unchanged.
type failures struct {
	http.ResponseWriter

	// acceptsSCIM reports whether the request has the media type of SCIM in its header Accept.
	acceptsSCIM bool
	// code of an error whose body is being buffered, otherwise 0.
	code int
	body bytes.Buffer
	// begun reports whether the header has been written.
	begun bool
}

// newFailures returns a response to a request.
func newFailures(w http.ResponseWriter, r *http.Request) *failures {
	f := &failures{ResponseWriter: w}
	for accept := range strings.SplitSeq(strings.Join(r.Header.Values("Accept"), ","), ",") {
		mediaType, _, err := mime.ParseMediaType(accept)
		f.acceptsSCIM = f.acceptsSCIM || err == nil && mediaType == scimMediaType
	}
	return f
}

// maxFailure is the maximum size of a converted error in bytes. Longer ones are unchanged.
const maxFailure = 64 << 10

// WriteHeader implements http.ResponseWriter.
func (f *failures) WriteHeader(code int) {
	mediaType, _, _ := strings.Cut(f.Header().Get("Content-Type"), ";")
	converted := mediaType == "application/json" || mediaType == scimMediaType && !f.acceptsSCIM
	if code >= http.StatusBadRequest && mediaType == scimMediaType {
		f.Header().Add("Vary", "Accept")
	}
	if f.begun || f.code != 0 || code < http.StatusBadRequest || !converted {
		f.begun = f.begun || code >= http.StatusOK
		f.ResponseWriter.WriteHeader(code)
		return
	}
	f.code = code
}

// Write implements http.ResponseWriter.
func (f *failures) Write(data []byte) (int, error) {
	if f.code == 0 {
		f.begun = true
		return f.ResponseWriter.Write(data)
	}
	if f.body.Len()+len(data) > maxFailure {
		if err := f.passOn(); err != nil {
			return 0, err
		}
		return f.ResponseWriter.Write(data)
	}
	return f.body.Write(data)
}

// passOn writes the buffered error unchanged.
func (f *failures) passOn() error {
	code := f.code
	f.code, f.begun = 0, true
	f.ResponseWriter.WriteHeader(code)
	_, err := f.ResponseWriter.Write(f.body.Bytes())
	return err
}

// end writes the buffered error.
func (f *failures) end() {
	if f.code == 0 {
		return
	}
	var known struct {
		Error *string `json:"error"`
		// Detail and Type are members of a SCIM error (RFC 7644, section 3.12).
		Detail *string `json:"detail"`
		Type   string  `json:"scimType"`
	}
	isSCIM := strings.HasPrefix(f.Header().Get("Content-Type"), scimMediaType)
	switch err := json.Unmarshal(f.body.Bytes(), &known); {
	case err == nil && isSCIM && known.Detail != nil:
		status := newStatus(f.code, *known.Detail)
		if known.Type != "" {
			status.Details = &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: metav1.CauseType(known.Type), Message: *known.Detail}}}
		}
		f.Header().Del("Content-Length")
		write(f.ResponseWriter, f.code, "application/json", status)
	case err == nil && !isSCIM && known.Error != nil:
		WriteFailure(f.ResponseWriter, f.code, *known.Error)
	default:
		_ = f.passOn() // the client may have disconnected
	}
}

// Unwrap supports http.ResponseController.
func (f *failures) Unwrap() http.ResponseWriter { return f.ResponseWriter }
