package serving

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"
)

// ErrorWriter writes an error response with a status and a message in the form of a protocol.
type ErrorWriter func(w http.ResponseWriter, status int, message string)

// WriteError writes an error response with a status and a message, in the form that
// WrapOptions.Errors returns for the request's path, or as {"error": message}. Headers that an
// unfinished response set for its body are removed. The message must not contain a secret.
func WriteError(w http.ResponseWriter, status int, message string) {
	if e, ok := w.(*exchange); ok && e.errors != nil {
		e.errors(w, status, message)
		return
	}
	writeJSON(w, status, map[string]string{"error": message})
}

// RetryAfter sets the header Retry-After (RFC 9110, section 10.2.3) to wait, rounded up to
// seconds.
func RetryAfter(w http.ResponseWriter, wait time.Duration) {
	w.Header().Set("Retry-After", strconv.Itoa(int((wait+time.Second-1)/time.Second)))
}

func writeJSON(w http.ResponseWriter, status int, body map[string]string) {
	header := w.Header()
	for _, name := range []string{"Content-Length", "Content-Encoding", "ETag", "Last-Modified"} {
		header.Del(name)
	}
	header.Set("Content-Type", "application/json")
	w.WriteHeader(status)
	// Fails only if the client has disconnected: a map of strings can always be encoded.
	_ = json.NewEncoder(w).Encode(body)
}
