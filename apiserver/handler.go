package apiserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/aggregation"
	"github.com/quoin-dev/quoin/apiserver/auth"
	"github.com/quoin-dev/quoin/apiserver/dbtobjects"
	"github.com/quoin-dev/quoin/apiserver/directory"
	"github.com/quoin-dev/quoin/apiserver/githttp"
	"github.com/quoin-dev/quoin/apiserver/guide"
	"github.com/quoin-dev/quoin/apiserver/mcp"
	"github.com/quoin-dev/quoin/apiserver/oidcissuer"
	"github.com/quoin-dev/quoin/apiserver/recording"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/apiserver/schemas"
	"github.com/quoin-dev/quoin/apiserver/scim"
	"github.com/quoin-dev/quoin/apiserver/scim/schema"
	"github.com/quoin-dev/quoin/apiserver/scim/scimerror"
	"github.com/quoin-dev/quoin/apiserver/signin"
	"github.com/quoin-dev/quoin/apiserver/tenants"
	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/fieldowner"
	"github.com/quoin-dev/quoin/internal/serving"
	"github.com/quoin-dev/quoin/internal/tenant"
)

// handler determines the account and the principal of a request, and then routes it.
type handler struct {
	tenants *tenants.Tenants
	// authenticator authenticates the callers of tenant hosts.
	authenticator auth.Authenticator
	// aggregated serves requests of the Kubernetes API server; nil if disabled.
	aggregated http.Handler
	api        *rest.API
	// guides are the pages below that of the reference.
	guides    guide.Guides
	scim      *scim.Server
	directory *directory.Directory
	// git serves the repositories that Quoin keeps.
	git *githttp.Server
	// dbt receives the manifests of dbt syncs; nil without a database.
	dbt    *dbtobjects.Objects
	limits *limits
	// signIn serves sign-in and the authorization server of each account.
	signIn *signin.Server
	// mcp serves clients of the Model Context Protocol.
	mcp *mcp.Server
	// issuer serves the documents of the OpenID Connect issuers of the accounts.
	issuer *oidcissuer.Server
	// log is the audit log; nil without a database.
	log recording.Log
}

// errorsOn returns the writer of errors on a path; nil for the default.
func errorsOn(path string) serving.ErrorWriter {
	switch {
	case aggregation.Handles(path):
		return aggregation.WriteFailure
	case githttp.Handles(path), githttp.HandlesInternal(path):
		return githttp.WriteError
	case !scim.Handles(path):
		return nil
	}
	return func(w http.ResponseWriter, status int, message string) {
		scim.WriteStatus(w, scimerror.New(status, "%s", message))
	}
}

// errorWriter returns the writer of errors on a path.
func errorWriter(path string) serving.ErrorWriter {
	if write := errorsOn(path); write != nil {
		return write
	}
	return serving.WriteError
}

// ServeHTTP serves a request with a canonical path.
func (f *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	account, err := f.tenants.ByHost(r.Host)
	// The Kubernetes API server has a client certificate. Without it, the paths of the aggregated API are
	// those of the account like all others.
	if f.aggregated != nil && aggregation.Handles(r.URL.Path) && (account == nil || aggregation.HasCertificate(r)) {
		serving.Annotate(r.Context(), serving.AnnotationRoute, "aggregated")
		f.aggregated.ServeHTTP(w, r)
		return
	}
	switch {
	case err != nil:
		f.refuse(w, r, nil, err)
		return
	case account == nil && githttp.HandlesInternal(r.URL.Path):
		f.git.ServeInternal(w, r)
		return
	case account == nil && f.dbt != nil && dbtobjects.Handles(r.URL.Path):
		f.dbt.ServeHTTP(w, r)
		return
	case account == nil:
		serving.WriteError(w, http.StatusNotFound, "no account answers on this host")
		return
	}
	serving.Annotate(r.Context(), "account", account.Name)
	if f.serveDocs(w, r) {
		return
	}
	if signin.Handles(r.URL.Path) {
		f.signIn.ServeHTTP(w, r, account)
		return
	}
	if r.Header.Get("Authorization") == "" && scim.Handles(r.URL.Path) && f.scim.IsPublic(r) {
		f.scim.ServeHTTP(w, r, publicTenant(account), scim.Caller{})
		return
	}
	if oidcissuer.Handles(r.URL.Path) {
		f.issuer.ServeHTTP(w, r, account)
		return
	}
	if schemas.Handles(r.URL.Path) {
		schemas.Serve(w, r, account)
		return
	}
	principal, err := f.authenticator.Authenticate(r.Context(), account, r)
	if err != nil {
		f.refuse(w, r, account, err)
		return
	}
	f.serve(w, r.WithContext(auth.WithAgain(r.Context(), f.again(account, r))), account, principal)
}

// again returns a function that authenticates the caller of a request once more, in the account as it is then: an
// issuer that it trusts, or the role of its users, may have changed.
func (f *handler) again(account *v1alpha1.Account, r *http.Request) func(context.Context) (*auth.Principal, error) {
	return func(ctx context.Context) (*auth.Principal, error) {
		now, err := f.tenants.ByName(account.Name)
		if err != nil {
			return nil, err
		}
		if now == nil || now.UID != account.UID {
			return nil, fmt.Errorf("%w: the account is not served any more", auth.ErrNoCredential)
		}
		return f.authenticator.Authenticate(ctx, now, r)
	}
}

// serveDocs serves the reference page and the guides, which are the same for all accounts and public. It returns false for other
// requests.
func (f *handler) serveDocs(w http.ResponseWriter, r *http.Request) bool {
	var page http.Handler
	switch {
	case r.URL.Path == "/docs" && (r.Method == http.MethodGet || r.Method == http.MethodHead):
		page = http.HandlerFunc(f.api.ServeReference)
	case f.guides.Handles(r):
		page = f.guides
	default:
		return false
	}
	serving.Annotate(r.Context(), serving.AnnotationRoute, r.URL.Path)
	page.ServeHTTP(w, r)
	return true
}

// refuse responds to a request whose caller cannot be authenticated. The access log has the reason. The account is nil if
// it is not known.
func (f *handler) refuse(w http.ResponseWriter, r *http.Request, account *v1alpha1.Account, err error) {
	switch {
	case errors.Is(err, auth.ErrNoCredential):
		serving.Annotate(r.Context(), "refused", err.Error())
		challenge := `Bearer realm="quoin"`
		if account != nil {
			challenge += f.signIn.Challenge(account, r.URL.Path)
		}
		if githttp.Handles(r.URL.Path) {
			challenge = githttp.Challenge
		}
		w.Header().Set("WWW-Authenticate", challenge)
		serving.WriteError(w, http.StatusUnauthorized, err.Error())
	case errors.Is(err, auth.ErrForbidden):
		serving.Annotate(r.Context(), "refused", err.Error())
		serving.WriteError(w, http.StatusForbidden, err.Error())
	case errors.Is(err, auth.ErrBody):
		serving.WriteReadError(w, err)
	case errors.Is(err, auth.ErrTooMany):
		serving.WriteBusy(w, http.StatusTooManyRequests, err.Error())
	default:
		// Not the requests of a flood, each of which is in the access log.
		if !errors.Is(err, context.Canceled) && !errors.Is(err, auth.ErrBusy) {
			log.FromContext(r.Context()).Error(err, "Authentication failed temporarily", "requestID", serving.RequestID(r.Context()))
		}
		serving.WriteBusy(w, http.StatusServiceUnavailable, "the credential cannot be verified now")
	}
}

// serve serves an authenticated request, from a tenant host or through the aggregated API.
func (f *handler) serve(w http.ResponseWriter, r *http.Request, account *v1alpha1.Account, p *auth.Principal) {
	serving.Annotate(r.Context(), "account", account.Name)
	serving.Annotate(r.Context(), "principal", string(p.Kind)+":"+p.ID)
	release := f.limits.admit(w, r, p)
	if release == nil {
		return
	}
	defer release()
	if f.serveDocs(w, r) {
		return
	}
	r = r.WithContext(log.IntoContext(r.Context(), log.FromContext(r.Context()).WithValues("requestID", serving.RequestID(r.Context()))))
	source := audit.SourceREST
	if scim.Handles(r.URL.Path) {
		source = audit.SourceSCIM
	}
	recorded := recording.NewRequest(r.Context(), f.log, account, p, source)
	defer recorded.Close(r.Context())
	r = r.WithContext(recorded.With(r.Context()))
	w = recorded.Gate(r.Context(), w, errorWriter(r.URL.Path))
	if githttp.Handles(r.URL.Path) {
		f.git.ServeHTTP(w, r, account, p)
		return
	}
	if mcp.Handles(r.URL.Path) {
		f.mcp.ServeHTTP(w, r, account, p)
		return
	}
	if source == audit.SourceREST {
		f.api.ServeHTTP(w, r, account, p)
		return
	}
	f.serveSCIM(w, r, account, p)
}

func (f *handler) serveSCIM(w http.ResponseWriter, r *http.Request, account *v1alpha1.Account, p *auth.Principal) {
	r = r.WithContext(fieldowner.With(r.Context(), fieldowner.SCIM))
	f.scim.ServeHTTP(w, r, f.tenant(account), scim.Caller{
		User:    p.User,
		Manages: p.May(v1alpha1.PermissionScimManage) && !p.LimitedFor(v1alpha1.PermissionScimManage),
		Profile: string(p.ScimProfile),
		Wait:    func(ctx context.Context) error { return f.limits.wait(ctx, p) },
	})
}

// tenant returns the SCIM tenant of an account.
func (f *handler) tenant(account *v1alpha1.Account) *scim.Tenant {
	of := f.directory.Of(account)
	return &scim.Tenant{Name: account.Name, BaseURL: tenant.URL(account) + scim.BasePath, Types: of.ResourceTypes(), Store: of}
}

// publicTenant returns the SCIM tenant for unauthenticated requests. It reveals nothing of the
// account but the URL of the request.
func publicTenant(account *v1alpha1.Account) *scim.Tenant {
	return &scim.Tenant{BaseURL: tenant.URL(account) + scim.BasePath, Types: []*schema.ResourceType{schema.User, schema.Group}}
}
