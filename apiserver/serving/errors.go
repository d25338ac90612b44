package serving

import (
	"encoding/json"
	"net/http"
)

// WriteError answers with a status and the body {"error": message}. Headers that an
// unfinished answer set for its own body are taken back. The message is shown to the caller:
// it must not hold a secret.
func WriteError(w http.ResponseWriter, status int, message string) {
	writeJSON(w, status, map[string]string{"error": message})
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
