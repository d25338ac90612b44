package apiserver

import (
	"context"
	"errors"
	"net/http"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/aggregation"
	"github.com/quoin-dev/quoin/apiserver/auth"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/apiserver/serving"
	"github.com/quoin-dev/quoin/apiserver/tenants"
)

// front decides whose request it is and who asks, and only then what is asked for.
type front struct {
	tenants tenants.Tenants
	// authenticator recognises the callers of tenant hosts.
	authenticator auth.Authenticator
	// aggregated answers what the Kubernetes API server sends; nil when that is off.
	aggregated http.Handler
	api        *rest.API
	rates      *rates
}

// ServeHTTP answers a request whose path is canonical.
func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if f.aggregated != nil && aggregation.Handles(r.URL.Path) {
		serving.Annotate(r.Context(), serving.AnnotationRoute, "aggregated")
		f.aggregated.ServeHTTP(w, r)
		return
	}
	account, err := f.tenants.ByHost(r.Context(), r.Host)
	switch {
	case err != nil:
		unavailable(w, r, err)
		return
	case account == nil:
		serving.WriteError(w, http.StatusNotFound, "no account answers on this host")
		return
	}
	serving.Annotate(r.Context(), "account", account.Name)
	if r.URL.Path == "/docs" && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
		serving.Annotate(r.Context(), serving.AnnotationRoute, "/docs")
		f.api.ServeReference(w, r)
		return
	}
	principal, err := f.authenticator.Authenticate(r.Context(), account, r)
	switch {
	case errors.Is(err, auth.ErrNoCredential):
		w.Header().Set("WWW-Authenticate", `Bearer realm="quoin"`)
		serving.WriteError(w, http.StatusUnauthorized, err.Error())
	case err != nil:
		unavailable(w, r, err)
	default:
		f.serve(w, r, account, principal)
	}
}

// serve answers for somebody who is recognised, on either way.
func (f *front) serve(w http.ResponseWriter, r *http.Request, account *v1alpha1.Account, p *auth.Principal) {
	serving.Annotate(r.Context(), "account", account.Name)
	serving.Annotate(r.Context(), "principal", string(p.Kind)+":"+p.ID)
	if wait := f.rates.take(account.Name + "\x00" + string(p.Kind) + "\x00" + p.ID); wait > 0 {
		w.Header().Set("Retry-After", seconds(wait))
		serving.WriteError(w, http.StatusTooManyRequests, "too many requests: wait as long as Retry-After says")
		return
	}
	r = r.WithContext(log.IntoContext(r.Context(), log.FromContext(r.Context()).WithValues("requestID", serving.RequestID(r.Context()))))
	f.api.ServeHTTP(w, r, account, p)
}

func unavailable(w http.ResponseWriter, r *http.Request, err error) {
	if !errors.Is(err, context.Canceled) {
		log.FromContext(r.Context()).Error(err, "Cannot tell whose request this is", "requestID", serving.RequestID(r.Context()))
	}
	w.Header().Set("Retry-After", seconds(time.Second))
	serving.WriteError(w, http.StatusServiceUnavailable, "cannot check the credential now: try again")
}
