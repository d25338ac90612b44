package aggregation

import (
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/auth"
)

// proxy forwards a request to a documented path of an account.
func (s *Server) proxy(w http.ResponseWriter, r *http.Request, who user.Info, name, documented string) error {
	verb, known := verbs[r.Method]
	if !known {
		return apierrors.NewMethodNotSupported(accountResource(proxy).GroupResource(), r.Method)
	}
	if err := s.authorize(r.Context(), toAccounts(who, verb, name, proxy)); err != nil {
		return err
	}
	if documented == "/" {
		return notFound(r)
	}
	if httpstream.IsUpgradeRequest(r) {
		return apierrors.NewBadRequest("this path cannot be upgraded to another protocol")
	}
	account, err := s.account(name)
	if err != nil {
		return err
	}
	// RBAC authorizes the method only. Permissions decide on the path: reading the audit log is a GET
	// too.
	grants, err := auth.Granted(func(verb string) (bool, error) {
		return s.may(r.Context(), toAccounts(who, verb, name, proxy))
	})
	if err != nil {
		return err
	}
	principal := &auth.Principal{
		Kind:    auth.KindKubernetes,
		Account: account.Name,
		ID:      who.GetName(),
		Name:    who.GetName(),
		Grants:  grants,
	}
	answer := newFailures(w, r)
	s.options.Next(answer, s.documented(r, principal, documented), account, principal)
	answer.end()
	return nil
}

// documented returns the request as on the account's own host, without credentials and without Host,
// which the client controls.
func (s *Server) documented(r *http.Request, principal *auth.Principal, path string) *http.Request {
	r = r.Clone(auth.With(r.Context(), principal))
	r.URL.Path, r.URL.RawPath = path, ""
	r.URL.Scheme, r.URL.Host, r.Host = "", "", ""
	r.RequestURI = r.URL.RequestURI()
	s.withoutCredentials(r.Header)
	return r
}

// account returns the account with a name. Call it after authorization, so that unauthorized callers
// cannot probe names.
func (s *Server) account(name string) (*v1alpha1.Account, error) {
	account, err := s.options.Account(name)
	if err != nil {
		return nil, fmt.Errorf("find account %q: %w", name, err)
	}
	if account == nil {
		return nil, apierrors.NewNotFound(accountResource("").GroupResource(), name)
	}
	return account, nil
}
