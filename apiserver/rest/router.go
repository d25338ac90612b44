package rest

import (
	"net/http"
	"slices"
	"strings"
)

// router finds the handler of a request, as http.ServeMux, but permits patterns that match the same path
// without one being more specific, such as /books/by-slug/{slug} and /books/{id}/pages: the preferred one is used.
type router struct {
	preferred, others *http.ServeMux
	// prefers has the paths of the preferred patterns.
	prefers map[string]bool
	// prefixes are the literal beginnings of these paths: a ServeMux that does not match looks for other methods of the path,
	// which costs more than to match.
	prefixes []string
}

func newRouter() *router {
	return &router{preferred: http.NewServeMux(), others: http.NewServeMux(), prefers: map[string]bool{}}
}

// HandleFunc registers a handler.
func (r *router) HandleFunc(pattern string, handler func(http.ResponseWriter, *http.Request)) {
	_, path, hasMethod := strings.Cut(pattern, " ")
	if !hasMethod {
		path = pattern
	}
	if r.prefers[path] {
		prefix, _, _ := strings.Cut(path, "{")
		r.prefixes = append(r.prefixes, prefix)
		r.preferred.HandleFunc(pattern, handler)
		return
	}
	r.others.HandleFunc(pattern, handler)
}

// Handler returns the handler of a request and its pattern; the pattern is empty if there is none.
func (r *router) Handler(request *http.Request) (http.Handler, string) {
	return r.muxOf(request).Handler(request)
}

// muxOf returns the ServeMux that serves a request.
func (r *router) muxOf(request *http.Request) *http.ServeMux {
	if slices.ContainsFunc(r.prefixes, func(prefix string) bool { return strings.HasPrefix(request.URL.Path, prefix) }) {
		if _, pattern := r.preferred.Handler(request); pattern != "" {
			return r.preferred
		}
	}
	return r.others
}

// ServeHTTP implements http.Handler.
func (r *router) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	r.muxOf(request).ServeHTTP(w, request)
}
