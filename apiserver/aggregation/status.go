package aggregation

import (
	"bytes"
	"encoding/json"
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
	f := failure{Status: apierrors.NewGenericServerResponse(code, "", schema.GroupResource{}, "", "", 0, false).Status(), Error: message}
	f.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	f.Message, f.Details = message, nil
	w.Header().Del("Content-Length")
	write(w, code, "application/json", f)
}

// failures is a response that converts documented errors, {"error": "…"}, to both forms. Other
// responses, such as SCIM errors, are unchanged.
type failures struct {
	http.ResponseWriter

	// code of an error whose body is being buffered, otherwise 0.
	code int
	body bytes.Buffer
	// begun reports whether the header has been written.
	begun bool
}

// maxFailure is the maximum size of a converted error in bytes. Longer ones are unchanged.
const maxFailure = 64 << 10

// WriteHeader implements http.ResponseWriter.
func (f *failures) WriteHeader(code int) {
	mediaType, _, _ := strings.Cut(f.Header().Get("Content-Type"), ";")
	if f.begun || f.code != 0 || code < http.StatusBadRequest || mediaType != "application/json" {
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
	var documented struct {
		Error *string `json:"error"`
	}
	switch {
	case f.code == 0:
	case json.Unmarshal(f.body.Bytes(), &documented) != nil || documented.Error == nil:
		_ = f.passOn() // the client may have disconnected
	default:
		WriteFailure(f.ResponseWriter, f.code, *documented.Error)
	}
}

// Unwrap supports http.ResponseController.
func (f *failures) Unwrap() http.ResponseWriter { return f.ResponseWriter }
