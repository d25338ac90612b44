package serving

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"
)

// ErrorWriter answers with a status and a message in the form of one protocol.
type ErrorWriter func(w http.ResponseWriter, status int, message string)

// WriteError answers with a status and a message, in the form that WrapOptions.Errors gives for
// the request's path, else as {"error": message}. Headers that an unfinished answer set for its
// own body are taken back. The message is shown to the caller: it must not hold a secret.
func WriteError(w http.ResponseWriter, status int, message string) {
	if e, ok := w.(*exchange); ok && e.errors != nil {
		e.errors(w, status, message)
		return
	}
	writeJSON(w, status, map[string]string{"error": message})
}

// RetryAfter tells the caller in how many seconds it may try again (RFC 9110, section 10.2.3):
// wait, rounded up.
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
	// A caller that is gone cannot be told, and a map of strings is always encoded.
	_ = json.NewEncoder(w).Encode(body)
}
