// Package githttp serves the Git repositories that Quoin keeps, over Git's smart HTTP protocol
// (gitprotocol-http(5)): for the callers of an account to read and push, and, on the server's own
// address, for the controller and the pods to read.
//
//	server.go        routes, deployment and permission of a request
//	internal.go      the address for the controller and the pods, and its authentication
//	response.go      headers, errors and deadlines
//	packets.go       packets and bands: gitprotocol-common(5)
//	advertise.go     the refs, in versions 0 and 2: gitprotocol-v2(5)
//	uploadpack.go    requests of git-upload-pack, in both versions
//	receivepack.go   requests of git-receive-pack: gitprotocol-pack(5)
//	push.go          the rules of a push
//
// Only branches are served. The memory of requests is bounded: a pack is written object by object, the
// objects of a fetch are determined and the pack of a push is unpacked within limits, a few of them at a time. That all objects of the
// pushed commits exist is checked where they are stored (repository.Session.Save).
package githttp

import (
	"context"
	"net/http"
	"net/netip"
	"regexp"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/auth"
	"github.com/quoin-dev/quoin/apiserver/starter"
	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/repository"
	"github.com/quoin-dev/quoin/internal/ratelimit"
	"github.com/quoin-dev/quoin/internal/serving"
	"github.com/quoin-dev/quoin/internal/store"
	"github.com/quoin-dev/quoin/internal/turns"
)

// The two services of the protocol.
const (
	uploadPack  = "git-upload-pack"
	receivePack = "git-receive-pack"
)

// Permissions of the services.
const (
	permissionRead  v1alpha1.Permission = "SchemaRead"
	permissionWrite v1alpha1.Permission = "SchemaUpdate"
)

// prefix is the prefix of the paths on the hosts of accounts, internalPrefix that on the server's own
// address.
const (
	prefix         = "/git/"
	internalPrefix = "/repositories/"
)

// DeploymentFinder reads deployments by number.
type DeploymentFinder interface {
	// Find returns the deployment of a namespace with an id, as fresh as the Kubernetes API server,
	// or nil if there is none.
	Find(ctx context.Context, namespace, id string) (*v1alpha1.Deployment, error)
}

// Options configure a Server.
type Options struct {
	// Deployments finds the deployments of paths.
	Deployments DeploymentFinder
	// Repositories are the repositories; nil without a database.
	Repositories *repository.Repositories
	// Moved is called after a push has moved branches of a deployment, so that the controller reads
	// them at once.
	Moved func(context.Context, *v1alpha1.Deployment) error
	// Cached and Live read Deployments, Accounts and the Secrets of repositories for the internal
	// address.
	Cached, Live client.Reader
	// Now is the clock; time.Now if nil.
	Now func() time.Time
}

// Server serves repositories. Create it with New.
type Server struct {
	Options
	// pushes are for pushes that are being unpacked, fetches for fetches on the hosts of accounts, and histories for those of
	// which is determined what their clients lack. Accounts take turns.
	pushes, fetches, histories *turns.Places[string]
	// readers limits the concurrent requests to a repository on the internal address, failures the
	// failed authentications of a client address there.
	readers  *serving.Shares[string]
	failures *ratelimit.Limits[netip.Prefix]
	secrets  *secretCache
}

// New returns a Server.
func New(o Options) *Server {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Server{
		Options:   o,
		pushes:    turns.NewPlaces[string](maxPushes, maxAccountPushes),
		fetches:   turns.NewPlaces[string](maxFetches, maxAccountFetches),
		histories: turns.NewPlaces[string](maxHistories, maxAccountHistories),
		readers:   serving.NewShares[string](maxReaders),
		failures:  ratelimit.New[netip.Prefix](failuresPerSecond, failureBurst, maxAddresses),
		secrets:   newSecretCache(o.Now),
	}
}

// Handles reports whether a path on the host of an account is that of a repository.
func Handles(path string) bool { return strings.HasPrefix(path, prefix) }

// HandlesInternal reports whether a path on the server's own address is that of a repository.
func HandlesInternal(path string) bool { return strings.HasPrefix(path, internalPrefix) }

// Limits of request bodies, in bytes.
const (
	maxPushBody  = 64 << 20
	maxFetchBody = 2 << 20
)

// BodyLimit returns the limit of the body of a request; 0 for the default.
func BodyLimit(r *http.Request) int64 {
	switch {
	case Handles(r.URL.Path) && strings.HasSuffix(r.URL.Path, "/"+receivePack):
		return maxPushBody
	case (Handles(r.URL.Path) || HandlesInternal(r.URL.Path)) && strings.HasSuffix(r.URL.Path, "/"+uploadPack):
		return maxFetchBody
	}
	return 0
}

// target is the repository of a request.
type target struct {
	account    *v1alpha1.Account
	deployment *v1alpha1.Deployment
}

// scope returns the repository in the form of the content database.
func (t target) scope() content.Scope {
	return content.Scope{
		Account:    store.Account{UID: string(t.account.UID), Name: t.account.Name},
		Deployment: store.Deployment{UID: string(t.deployment.UID), Namespace: t.deployment.Namespace, Name: t.deployment.Name},
	}
}

// production returns the branch that production serves, which is the default branch.
func (t target) production() string { return t.deployment.Spec.Model.Repository.BranchName() }

// action is a request of the protocol.
type action struct {
	// service is git-upload-pack or git-receive-pack.
	service string
	// advertise is true for the first request of a session, which has no body.
	advertise bool
}

var tenantPath = regexp.MustCompile(`^/git/([0-9]{1,16})\.git(/.*)$`)

// actionOf returns the action of a request from the rest of its path, or responds and returns false.
func actionOf(w http.ResponseWriter, r *http.Request, rest string) (action, bool) {
	a, method := action{}, http.MethodPost
	switch rest {
	case "/info/refs":
		a, method = action{service: r.URL.Query().Get("service"), advertise: true}, http.MethodGet
		if a.service != uploadPack && a.service != receivePack {
			writeError(w, http.StatusForbidden, "only the smart HTTP protocol of Git is served here: use git 1.6.6 or newer")
			return a, false
		}
	case "/" + uploadPack:
		a.service = uploadPack
	case "/" + receivePack:
		a.service = receivePack
	default:
		writeError(w, http.StatusNotFound, "no such path")
		return a, false
	}
	if r.Method != method {
		w.Header().Set("Allow", method)
		writeError(w, http.StatusMethodNotAllowed, "allowed: "+method)
		return a, false
	}
	if !a.advertise && r.Header.Get("Content-Type") != "application/x-"+a.service+"-request" {
		writeError(w, http.StatusUnsupportedMediaType, "the Content-Type must be application/x-"+a.service+"-request")
		return a, false
	}
	return a, true
}

// ServeHTTP serves an authenticated request on the host of an account. A deployment that the caller
// does not reach is treated like one that does not exist.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request, account *v1alpha1.Account, p *auth.Principal) {
	match := tenantPath.FindStringSubmatch(r.URL.Path)
	if match == nil {
		serving.Annotate(r.Context(), serving.AnnotationRoute, prefix)
		writeError(w, http.StatusNotFound, "no such path: the address of a repository is /git/<number of the deployment>.git")
		return
	}
	serving.Annotate(r.Context(), serving.AnnotationRoute, prefix+"{deploymentId}.git")
	a, ok := actionOf(w, r, match[2])
	if !ok {
		return
	}
	needed := permissionRead
	if a.service == receivePack {
		needed = permissionWrite
	}
	if !p.May(needed) {
		writeError(w, http.StatusForbidden, "the permission "+string(needed)+" is required")
		return
	}
	d, err := s.Deployments.Find(r.Context(), account.Spec.Namespace, match[1])
	switch {
	case err != nil:
		writeFailure(w, r, err)
	case d == nil, !p.Reaches(d.Name):
		writeError(w, http.StatusNotFound, "deployment "+match[1]+" does not exist")
	case !p.MayOn(needed, d.Name):
		writeError(w, http.StatusForbidden, "the permission "+string(needed)+" is required on deployment "+match[1])
	case d.Spec.Model.Repository == nil:
		writeError(w, http.StatusNotFound, "the data model of deployment "+match[1]+" is not kept by Quoin: spec.model.repository is not set")
	default:
		ctx := auth.With(r.Context(), p)
		s.serveTenant(w, r.WithContext(ctx), a, target{account: account, deployment: d})
	}
}

// serveTenant serves an authorized request on the host of an account.
func (s *Server) serveTenant(w http.ResponseWriter, r *http.Request, a action, t target) {
	if a.service == uploadPack && !a.advertise {
		release, err := wait(r.Context(), s.fetches, t.account.Name)
		if err != nil {
			serving.WriteBusy(w, http.StatusServiceUnavailable, errTooManyFetches.Error())
			return
		}
		defer release()
	}
	s.serve(w, r, a, t)
}

// serve serves an authorized request.
func (s *Server) serve(w http.ResponseWriter, r *http.Request, a action, t target) {
	if s.Repositories == nil {
		writeError(w, http.StatusServiceUnavailable, "repositories are not available: quoin apiserver has no --database-url")
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), maxDuration)
	defer cancel()
	r = r.WithContext(ctx)
	session := s.Repositories.Session(ctx, t.scope())
	out := newResponse(w, a)
	out.within(maxDuration + writeTimeout)
	if err := starter.Ensure(session, t.deployment); err != nil {
		out.fail(r, err)
		return
	}
	switch {
	case a.advertise:
		s.advertise(out, r, a, t, session)
	case a.service == uploadPack:
		s.uploadPack(out, r, t, session)
	default:
		s.receivePack(out, r, t, session)
	}
}
