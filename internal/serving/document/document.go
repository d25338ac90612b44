// Package document serves public documents that change rarely, with entity tags.
package document

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/quoin-dev/quoin/internal/serving"
)

// Allows reports whether the method of a request reads a document. It writes the error if it does not.
func Allows(w http.ResponseWriter, r *http.Request) bool {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return true
	}
	w.Header().Set("Allow", "GET, HEAD")
	serving.WriteError(w, http.StatusMethodNotAllowed, fmt.Sprintf("method %s is not allowed: GET and HEAD are", r.Method))
	return false
}

// Write writes a document with its entity tag, or 304 if the client has it. It may be cached for maxAge.
func Write(w http.ResponseWriter, r *http.Request, mediaType string, maxAge time.Duration, body []byte) {
	sum := sha256.Sum256(body)
	tag := `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`
	header := w.Header()
	header.Set("Cache-Control", fmt.Sprintf("public, max-age=%d", int(maxAge.Seconds())))
	header.Set("Etag", tag)
	header.Set("X-Content-Type-Options", "nosniff")
	if has(r.Header.Values("If-None-Match"), tag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	header.Set("Content-Type", mediaType)
	if r.Method == http.MethodHead {
		return
	}
	_, _ = w.Write(body) // fails only if the client has disconnected
}

// has reports whether the values of If-None-Match contain an entity tag (RFC 9110 section 13.1.2).
func has(values []string, tag string) bool {
	for _, value := range values {
		listed := strings.Split(value, ",")
		if slices.ContainsFunc(listed, func(t string) bool {
			t = strings.TrimPrefix(strings.TrimSpace(t), "W/")
			return t == tag || t == "*"
		}) {
			return true
		}
	}
	return false
}
