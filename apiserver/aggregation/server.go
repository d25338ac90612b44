// Package aggregation makes the front end an aggregated API server: the Kubernetes API server
// sends it the requests below /apis/api.platform.quoin.dev/v1, and an account's documented paths
// are there as accounts/{name}/proxy/<documented path>, in the way of services/proxy. Kubernetes
// says who asks and decides what that user may do; no credential of ours is needed.
//
// The folder in one line a file: server.go is what the listener needs, request.go goes from a
// request to its answer, authenticate.go and authorize.go ask Kubernetes, proxy.go hands on to
// the documented paths, account.go and discovery.go are what Kubernetes wants to see of a group.
package aggregation

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/client-go/kubernetes"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/auth"
)

// Options is what a Server needs. All of it is required.
type Options struct {
	// Client asks Kubernetes who somebody is and what they may do, up to two questions a
	// request: its rate must not be limited (QPS -1). It needs the roles in config/aggregation.
	Client kubernetes.Interface
	// Account finds an account by name; nil and no error when there is none.
	Account func(ctx context.Context, name string) (*v1alpha1.Account, error)
	// Accounts are all of them, in any order.
	Accounts func(ctx context.Context) ([]v1alpha1.Account, error)
	// Next answers a request to a documented path of an account. The request has the documented
	// path, no credential and no Host; its context knows the principal too (auth.From).
	Next func(w http.ResponseWriter, r *http.Request, account *v1alpha1.Account, p *auth.Principal)
	// Review answers the Kubernetes API server's question whether an object may be changed.
	Review func(ctx context.Context, request *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse
}

// Server answers what the Kubernetes API server sends to an aggregated API server.
type Server struct {
	options       Options
	frontProxy    *frontProxy
	authenticator authenticator.Request
	authorizer    authorizer.Authorizer
}

var _ http.Handler = &Server{}

// New makes a Server. Until Start has read the front proxy's certificate authority, nobody is
// recognised by it.
func New(options Options) (*Server, error) {
	if options.Client == nil || options.Account == nil || options.Accounts == nil || options.Next == nil || options.Review == nil {
		return nil, errors.New("aggregation: an option is missing")
	}
	front, err := newFrontProxy(options.Client)
	if err != nil {
		return nil, fmt.Errorf("aggregation: %w", err)
	}
	authentication, _, err := authenticatorfactory.DelegatingAuthenticatorConfig{
		RequestHeaderConfig:      front.config(),
		TokenAccessReviewClient:  options.Client.AuthenticationV1(),
		TokenAccessReviewTimeout: reviewTimeout,
		CacheTTL:                 reviewCache,
		WebhookRetryBackoff:      reviewRetries(),
	}.New()
	if err != nil {
		return nil, fmt.Errorf("aggregation: authentication: %w", err)
	}
	authorization, err := authorizerfactory.DelegatingAuthorizerConfig{
		SubjectAccessReviewClient: options.Client.AuthorizationV1(),
		AllowCacheTTL:             reviewCache,
		DenyCacheTTL:              reviewCache,
		WebhookRetryBackoff:       reviewRetries(),
	}.New()
	if err != nil {
		return nil, fmt.Errorf("aggregation: authorization: %w", err)
	}
	return &Server{options: options, frontProxy: front, authenticator: authentication, authorizer: authorization}, nil
}

// Start follows the front proxy's certificate authority until the context ends. A manager can
// run it.
func (s *Server) Start(ctx context.Context) error {
	var running sync.WaitGroup
	running.Go(func() { s.frontProxy.authorities.Run(ctx, 1) })
	running.Go(func() { s.frontProxy.headers.Run(ctx, 1) })
	running.Wait()
	return nil
}

// NeedLeaderElection is false: every replica answers.
func (*Server) NeedLeaderElection() bool { return false }

// TLS makes a listener ask for client certificates, without demanding one: what a certificate is
// worth is decided with the request. The listener names the front proxy's authorities when it
// asks, so that a browser on a tenant's host does not ask its user to choose one.
//
// Call it last: what is set later in the configuration has no effect, and that goes for what
// http.Server sets by itself, so NextProtos must name h2 for HTTP/2 to work. It replaces
// GetConfigForClient; certificates that change belong in GetCertificate.
func (s *Server) TLS(config *tls.Config) {
	config.ClientAuth = tls.RequestClientCert
	original := config.Clone()
	var lock sync.Mutex
	var bundle string
	var current *tls.Config
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		lock.Lock()
		defer lock.Unlock()
		// One configuration for as long as the authorities stay: it holds the keys by which
		// TLS sessions are resumed.
		if now := string(s.frontProxy.authorities.CurrentCABundleContent()); current == nil || now != bundle {
			bundle, current = now, original.Clone()
			if options, known := s.frontProxy.authorities.VerifyOptions(); known {
				current.ClientCAs = options.Roots
			}
		}
		return current, nil
	}
}

// Handles tells whether a request with this path is for a Server, whatever host it names. No
// documented path is among them.
func Handles(path string) bool {
	return path == "/apis" || strings.HasPrefix(path, "/apis/") ||
		path == "/openapi/v2" || path == "/openapi/v3" || strings.HasPrefix(path, "/openapi/v3/")
}
