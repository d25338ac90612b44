package rest

import (
	"net/http"
	"strings"
)

// router finds the handler of a request, as http.ServeMux, but permits patterns that match the same path
// without one being more specific, such as /books/by-slug/{slug} and /books/{id}/pages: the preferred one is used.
type router struct {
	preferred, others *http.ServeMux
	// prefers has the paths of the preferred patterns.
	prefers map[string]bool
}

func newRouter() *router {
	return &router{http.NewServeMux(), http.NewServeMux(), map[string]bool{}}
}

// HandleFunc registers a handler.
func (r *router) HandleFunc(pattern string, handler func(http.ResponseWriter, *http.Request)) {
	_, path, hasMethod := strings.Cut(pattern, " ")
	if !hasMethod {
		path = pattern
	}
	if r.prefers[path] {
		r.preferred.HandleFunc(pattern, handler)
		return
	}
	r.others.HandleFunc(pattern, handler)
}

// Handler returns the handler of a request and its pattern; the pattern is empty if there is none.
func (r *router) Handler(request *http.Request) (http.Handler, string) {
	if handler, pattern := r.preferred.Handler(request); pattern != "" {
		return handler, pattern
	}
	return r.others.Handler(request)
}

// ServeHTTP implements http.Handler.
func (r *router) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	if _, pattern := r.preferred.Handler(request); pattern != "" {
		r.preferred.ServeHTTP(w, request)
		return
	}
	r.others.ServeHTTP(w, request)
}
