package aggregation

import (
	"encoding/json"
	"errors"
	"mime"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// ServeHTTP serves a request for which Handles returns true.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := s.serve(w, r); err != nil {
		writeError(w, r, err)
	}
}

// serve serves a request or returns an error.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) error {
	if !isClean(r.URL.Path) {
		return apierrors.NewBadRequest("the path has empty, . or .. segments")
	}
	who, err := s.authenticate(r)
	if err != nil {
		return err
	}
	if r.URL.Path == reviewsPath {
		return s.review(w, r, who)
	}
	below, found := strings.CutPrefix(r.URL.Path+"/", accountsPath+"/")
	if !found {
		return s.discover(w, r, who)
	}
	name, below, _ := strings.Cut(strings.TrimSuffix(below, "/"), "/")
	subresource, documented, _ := strings.Cut(below, "/")
	switch {
	case name == "":
		return s.listAccounts(w, r, who)
	case subresource == "":
		return s.getAccount(w, r, who, name)
	case subresource == proxy:
		return s.proxy(w, r, who, name, "/"+documented)
	}
	return notFound(r)
}

// isClean reports whether a decoded path has no empty, "." or ".." segments. An encoded ".." arrives
// decoded, because the Kubernetes API server decodes it: later code must neither resolve nor redirect
// it.
func isClean(path string) bool {
	segments := strings.Split(strings.TrimSuffix(strings.TrimPrefix(path, "/"), "/"), "/")
	return strings.HasPrefix(path, "/") && !slices.ContainsFunc(segments, func(segment string) bool {
		return segment == "" || segment == "." || segment == ".."
	})
}

// mayRead returns an error for methods other than GET and HEAD and for watches, which are not supported.
func mayRead(r *http.Request, verb string) error {
	isWatch := r.URL.Query().Has("watch") && r.URL.Query().Get("watch") != "false" && r.URL.Query().Get("watch") != "0"
	if isWatch {
		verb = "watch"
	}
	if isWatch || r.Method != http.MethodGet && r.Method != http.MethodHead {
		return apierrors.NewMethodNotSupported(accountResource("").GroupResource(), verb)
	}
	return nil
}

// accepted reports whether the Accept header requests a conversion to a kind, as in
// "application/json;as=Table;v=v1;g=meta.k8s.io".
func accepted(r *http.Request, kind metav1.GroupVersionKind) bool {
	for accept := range strings.SplitSeq(strings.Join(r.Header.Values("Accept"), ","), ",") {
		mediaType, parameters, err := mime.ParseMediaType(accept)
		if err == nil && mediaType == "application/json" &&
			parameters["g"] == kind.Group && parameters["v"] == kind.Version && parameters["as"] == kind.Kind {
			return true
		}
	}
	return false
}

func notFound(r *http.Request) error {
	return apierrors.NewGenericServerResponse(http.StatusNotFound, strings.ToLower(r.Method), accountResource("").GroupResource(), "", "", 0, false)
}

// writeError writes a metav1.Status.
func writeError(w http.ResponseWriter, r *http.Request, err error) {
	var known apierrors.APIStatus
	if !errors.As(err, &known) {
		if r.Context().Err() != nil {
			return // the client has disconnected
		}
		log.FromContext(r.Context()).Error(err, "Failed to serve a request")
		known = apierrors.NewInternalError(errors.New("try again, or see the log of quoin apiserver"))
	}
	status := known.Status()
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	write(w, int(status.Code), "application/json", status)
}

// write writes JSON. It ignores write errors: the client has disconnected.
func write(w http.ResponseWriter, code int, contentType string, body any) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Cache-Control", "no-cache, private")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body)
}
