// Package signin is the OAuth 2.0 authorization server of each account, on the account's host. People sign in at
// the account's OIDC issuers; clients get tokens that act on behalf of the person. Programs with an API key get tokens that act as
// the key, of package clientcredentials.
//
//	browser ──▶ /auth/login ──▶ issuer ──▶ /auth/callback/… ──▶ session (cookie)
//	client  ──▶ /auth/oauth2/authorize ──▶ code ──▶ /auth/oauth2/token ──▶ tokens
//	device  ──▶ /auth/device/code, /auth/device/token     person ──▶ /auth/device
//	program ──▶ /auth/oauth2/token
//
// Sessions, codes and tokens are rows of package oauth. auth.OIDC derives the principal of a person from the claims
// of the ID token, at each use.
//
//	signin.go         routes, limits, events
//	clients.go        the registered clients
//	metadata.go       /.well-known
//	protocol.go       forms and errors of OAuth
//	authorize.go      the authorization endpoint and the page of consent
//	token.go          tokens: exchange, refresh, revocation
//	device.go         devices
//	login.go          sign-in at an issuer
//	integration.go    redirects of the providers of OAuth integrations
//	session.go        the cookie, the sessions page, signing out
//	page.go           templates and headers of pages
//	authenticator.go  access tokens as credentials of the REST API
//	leavers.go        users who are deactivated or deleted
package signin

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/auth"
	"github.com/quoin-dev/quoin/apiserver/recording"
	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/content/oauth"
	"github.com/quoin-dev/quoin/internal/oauthintegration"
	"github.com/quoin-dev/quoin/internal/ratelimit"
	"github.com/quoin-dev/quoin/internal/serving"
	"github.com/quoin-dev/quoin/internal/store"
	"github.com/quoin-dev/quoin/internal/tenant"
)

// The paths of the server.
const (
	serverMetadataPath   = "/.well-known/oauth-authorization-server"
	resourceMetadataPath = "/.well-known/oauth-protected-resource"
	authorizePath        = "/auth/oauth2/authorize"
	tokenPath            = "/auth/oauth2/token" //nolint:gosec // a path
	refreshPath          = "/auth/oauth2/refresh"
	revokePath           = "/auth/oauth2/revoke"
	deviceCodePath       = "/auth/device/code"
	deviceTokenPath      = "/auth/device/token" //nolint:gosec // a path
	devicePath           = "/auth/device"
	loginPath            = "/auth/login"
	callbackPath         = "/auth/callback/" // the id of the issuer follows
	sessionsPath         = "/auth/sessions"
	logoutPath           = "/auth/logout"
	webCallbackPath      = "/app/callback"
	stylePath            = "/auth/style.css"
	// mcpPath is the path of the MCP endpoint, a resource of its own, and oauthPath an older path of the metadata of the server.
	mcpPath   = "/api/mcp"
	oauthPath = "/.well-known/oauth"
)

// wellKnown are the paths of metadata. Clients append the path of a resource or of an issuer to them.
var wellKnown = []string{serverMetadataPath, serverMetadataPath + mcpPath, resourceMetadataPath, resourceMetadataPath + mcpPath, oauthPath}

// withoutStore are the paths that are served without a database: programs with an API key get tokens.
var withoutStore = []string{tokenPath, serverMetadataPath, oauthPath}

// maxBody is the maximum size of the body of a request in bytes.
const maxBody = 32 << 10

// Handles reports whether a path is one of this package.
func Handles(path string) bool {
	return strings.HasPrefix(path, "/auth/") || path == "/auth" || path == webCallbackPath || slices.Contains(wellKnown, path)
}

// BodyLimit returns the maximum size of the body of a request; 0 for a path of another package.
func BodyLimit(r *http.Request) int64 {
	if Handles(r.URL.Path) {
		return maxBody
	}
	return 0
}

// People authenticates people at issuers; *auth.OIDC implements it.
type People interface {
	Endpoints(ctx context.Context, issuerURL string) (auth.Endpoints, *http.Client, error)
	IDToken(ctx context.Context, account *v1alpha1.Account, spec *v1alpha1.OIDCIssuer, nonce, jwt string) (auth.Claims, error)
	Person(ctx context.Context, account *v1alpha1.Account, issuer string, c auth.Claims) (*auth.Principal, error)
}

// Programs issues access tokens to programs with an API key; *clientcredentials.Tokens implements it.
type Programs interface {
	// Issue returns an access token for the ApiKey with a name and a token. The error wraps auth.ErrNoCredential if there is none.
	Issue(ctx context.Context, account *v1alpha1.Account, name, secret string) (string, error)
}

// Options configure a Server.
type Options struct {
	// Store has sessions and tokens; nil without a database.
	Store  *oauth.Store
	People People
	// Secrets reads the secrets of clients of issuers from the Kubernetes API server.
	Secrets client.Reader
	// Integrations complete authorizations; nil without a database.
	Integrations Integrations
	// Programs issues tokens to programs with an API key; nil to issue none.
	Programs Programs
	// Log is the audit log; it may be nil.
	Log   recording.Log
	Clock clock.PassiveClock
}

// Server serves sign-in for all accounts. Create it with New.
type Server struct {
	Options
	limits limits
	mux    *http.ServeMux
}

// limits are those of unauthenticated requests, which write rows or call an issuer.
type limits struct {
	// tokens are requests for tokens, devices new requests of devices, and logins sign-ins.
	tokens, devices, logins limit
	// userCodes are the user codes that a person tries.
	userCodes *ratelimit.Limits[string]
}

// limit is a limit for each client address, and for each account.
type limit struct {
	addresses *ratelimit.Limits[netip.Prefix]
	accounts  *ratelimit.Limits[string]
}

// maxLimited bounds the memory of the limits.
const maxLimited = 10_000

func newLimit(address, account float64, addressBurst, accountBurst int) limit {
	return limit{ratelimit.New[netip.Prefix](address, addressBurst, maxLimited), ratelimit.New[string](account, accountBurst, maxLimited)}
}

// take admits a request and returns 0, or returns the time after which to retry.
func (l limit) take(r *http.Request, account string, now time.Time) time.Duration {
	if address := serving.ClientNetwork(r.Context()); address.IsValid() {
		if wait := l.addresses.Take(address, now); wait > 0 {
			return wait
		}
	}
	return l.accounts.Take(account, now)
}

// New returns a Server.
func New(o Options) *Server {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	s := &Server{Options: o, mux: http.NewServeMux(), limits: limits{
		tokens: newLimit(10, 50, 100, 200), devices: newLimit(0.2, 2, 20, 100), logins: newLimit(1, 20, 30, 200),
		userCodes: ratelimit.New[string](0.1, 10, maxLimited),
	}}
	for pattern, h := range map[string]handler{
		"GET " + serverMetadataPath:                        s.serverMetadata,
		"GET " + serverMetadataPath + mcpPath:              s.serverMetadata,
		"GET " + oauthPath:                                 s.serverMetadata,
		"GET " + resourceMetadataPath:                      s.resourceMetadata,
		"GET " + resourceMetadataPath + mcpPath:            s.mcpMetadata,
		"GET " + authorizePath:                             s.page(s.authorize),
		"POST " + authorizePath:                            s.form(s.consent),
		"POST " + tokenPath:                                s.limited(s.token),
		"POST " + refreshPath:                              s.limited(s.refreshOnly),
		"POST " + revokePath:                               s.limited(s.revoke),
		"POST " + deviceCodePath:                           s.startDevice,
		"POST " + deviceTokenPath:                          s.limited(s.deviceOnly),
		"GET " + devicePath:                                s.page(s.devicePage),
		"POST " + devicePath:                               s.form(s.decideDevice),
		"GET " + loginPath:                                 s.page(s.login),
		"GET " + callbackPath + "{issuer}":                 s.page(s.callback),
		"GET " + sessionsPath:                              s.page(s.sessionsPage),
		"POST " + sessionsPath:                             s.form(s.endOne),
		"POST " + logoutPath:                               s.form(s.logout),
		"GET " + webCallbackPath:                           s.page(s.webCallback),
		"GET " + stylePath:                                 serveStyle,
		"GET " + oauthintegration.CallbackPath:             s.page(s.integrationCallback),
		"GET " + oauthintegration.CallbackPath + "/{name}": s.page(s.integrationCallback),
	} {
		s.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			serving.Annotate(r.Context(), serving.AnnotationRoute, pattern)
			h(w, r, requestOf(r.Context()))
		})
	}
	return s
}

// handler serves a request to an account.
type handler func(w http.ResponseWriter, r *http.Request, in *request)

// request is a request to an account.
type request struct {
	account *v1alpha1.Account
	// url is the public URL of the account, by its configuration.
	url string
	// browser is the session of the browser; nil if there is none, or for a request that is not for a page.
	browser *browser
}

// stored returns the account as the database has it.
func (in *request) stored() store.Account {
	return store.Account{UID: string(in.account.UID), Name: in.account.Name}
}

type requestKey struct{}

func requestOf(ctx context.Context) *request {
	in, _ := ctx.Value(requestKey{}).(*request)
	return in
}

// ServeHTTP serves a request with a path of Handles to an account.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request, account *v1alpha1.Account) {
	if s.Store == nil && (s.Programs == nil || !slices.Contains(withoutStore, r.URL.Path)) {
		serving.WriteError(w, http.StatusNotFound, "sign-in needs a database: quoin apiserver has no --database-url")
		return
	}
	in := &request{account: account, url: tenant.URL(account)}
	r = r.WithContext(context.WithValue(r.Context(), requestKey{}, in))
	if _, pattern := s.mux.Handler(r); pattern == "" {
		s.refusePath(w, r)
		return
	}
	s.mux.ServeHTTP(w, r)
}

// refusePath responds to a request without route: 404, or 405 if the path has another method.
func (s *Server) refusePath(w http.ResponseWriter, r *http.Request) {
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		other := r.Clone(r.Context())
		other.Method = method
		if _, pattern := s.mux.Handler(other); pattern != "" {
			w.Header().Set("Allow", method)
			serving.WriteError(w, http.StatusMethodNotAllowed, "the method is not allowed: use "+method)
			return
		}
	}
	serving.WriteError(w, http.StatusNotFound, "not found")
}

// issuers returns the issuers of an account at which people can sign in.
func issuers(account *v1alpha1.Account) []*v1alpha1.OIDCIssuer {
	if settings := account.Spec.Settings; settings != nil && !ptr.Deref(settings.OIDC, true) {
		return nil
	}
	var all []*v1alpha1.OIDCIssuer
	for i := range account.Spec.OIDCIssuers {
		if spec := &account.Spec.OIDCIssuers[i]; spec.ClientID != "" {
			all = append(all, spec)
		}
	}
	return all
}

// errOtherUser is returned for a person whose SCIM user was deleted, and another one has the name now.
var errOtherUser = auth.Invalid("the user who has signed in was deleted")

// person returns the principal of a person who has signed in. A person who is deactivated loses all sessions and
// tokens; the error then wraps auth.ErrNoCredential, as for one whose name another SCIM user has now.
func (s *Server) person(ctx context.Context, in *request, p oauth.Person) (*auth.Principal, error) {
	return person(ctx, s.People, s.Store, in.account, p)
}

func person(ctx context.Context, people People, sessions *oauth.Store, account *v1alpha1.Account, p oauth.Person) (*auth.Principal, error) {
	principal, err := people.Person(ctx, account, p.Issuer, p.Claims)
	if err == nil && p.UserUID != "" && principal.UserUID != "" && principal.UserUID != p.UserUID {
		// Nothing is deleted: this may be the person of now, and the cache that of before.
		return nil, errOtherUser
	}
	if errors.Is(err, auth.ErrNoCredential) {
		if err := sessions.EndAll(ctx, store.Account{UID: string(account.UID), Name: account.Name}, p); err != nil {
			log.FromContext(ctx).Error(err, "Failed to end the sessions of a deactivated user", "account", account.Name)
		}
	}
	return principal, err
}

// RecordTx implements content.Record for requests of Server.
func RecordTx(ctx context.Context, tx *store.Tx, e audit.Event) error {
	in := requestOf(ctx)
	if in == nil || !recording.IsOn(in.account) {
		return nil
	}
	return audit.RecordTx(ctx, tx, in.event(ctx, e))
}

// event returns an event with the fields of the request.
func (in *request) event(ctx context.Context, e audit.Event) audit.Event {
	e.Account, e.Source, e.RequestID = in.account.Name, audit.SourceREST, serving.RequestID(ctx)
	if address := serving.RemoteAddress(ctx); address.IsValid() {
		e.IP = address.String()
	}
	if e.Actor.ID == "" && in.browser != nil {
		p := in.browser.principal
		e.Actor = audit.Actor{Kind: audit.ActorUser, ID: p.ID, Email: p.Email}
	}
	if e.Actor.Kind == "" {
		e.Actor.Kind = audit.ActorUser
	}
	return e
}

// failedLogin is the name of the event of a failed sign-in.
var failedLogin = audit.Declare("Failed to log in")

// eventTimeout is the timeout for the event of a failed sign-in.
const eventTimeout = 2 * time.Second

// recordFailure records a failed sign-in. The reason must not contain a secret.
func (s *Server) recordFailure(ctx context.Context, in *request, actor audit.Actor, reason string) {
	s.recordFailed(ctx, in, audit.Event{Name: failedLogin, Actor: actor}, reason)
}

// recordFailed records a failed attempt. The reason must not contain a secret.
func (s *Server) recordFailed(ctx context.Context, in *request, e audit.Event, reason string) {
	serving.Annotate(ctx, "refused", reason)
	if s.Log == nil || !recording.IsOn(in.account) {
		return
	}
	bounded, cancel := context.WithTimeout(ctx, eventTimeout)
	defer cancel()
	e.Outcome, e.Reason = audit.Failed, reason
	if err := s.Log.Record(bounded, in.event(ctx, e)); err != nil {
		log.FromContext(ctx).Error(err, "Failed to record a failed attempt in the audit log", "account", in.account.Name, "event", e.Name)
	}
}

// hostOf returns the host of a URL without its port, in lower case.
func hostOf(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	return strings.ToLower(u.Hostname())
}
