// Package aggregation implements an aggregated API server: the Kubernetes API server forwards requests
// below /apis/api.platform.quoin.dev/v1, and an account's documented paths are available as
// accounts/{name}/proxy/<documented path>, like services/proxy. Authentication and authorization are
// delegated to Kubernetes; credentials of Quoin are not used. Only the Kubernetes API server is a client:
// requests without its certificate are refused, so that no other client can cause token reviews.
//
// server.go has the options and the TLS configuration, request.go the dispatch of requests,
// authenticate.go and authorize.go delegate to Kubernetes, proxy.go forwards to the documented paths,
// account.go and discovery.go serve the resources and the discovery documents of the API group.
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

// Options of a Server. All fields are required.
type Options struct {
	// Client creates access reviews, several for a request: it must not be rate-limited (QPS -1). It
	// needs the roles in config/aggregation.
	Client kubernetes.Interface
	// Account returns an account by name, nil if there is none.
	Account func(name string) (*v1alpha1.Account, error)
	// Accounts returns all accounts in any order.
	Accounts func(ctx context.Context) ([]v1alpha1.Account, error)
	// Next serves a request to a documented path of an account. The request has the documented path,
	// no credential and no Host; its context has the principal (auth.From).
	Next func(w http.ResponseWriter, r *http.Request, account *v1alpha1.Account, p *auth.Principal)
	// Review serves the admission reviews of the validating webhook.
	Review func(ctx context.Context, request *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse
}

// Server serves the requests that the Kubernetes API server forwards.
type Server struct {
	options       Options
	frontProxy    *frontProxy
	authenticator authenticator.Request
	authorizer    authorizer.Authorizer
}

var _ http.Handler = &Server{}

// New returns a Server. It authenticates no requests of the front proxy until Start has read the front
// proxy's certificate authority.
func New(options Options) (*Server, error) {
	if options.Client == nil || options.Account == nil || options.Accounts == nil || options.Next == nil || options.Review == nil {
		return nil, errors.New("aggregation: an option is missing")
	}
	front, err := newFrontProxy(options.Client)
	if err != nil {
		return nil, fmt.Errorf("aggregation: %w", err)
	}
	authentication, _, err := authenticatorfactory.DelegatingAuthenticatorConfig{
		RequestHeaderConfig: front.config(),
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

// Start watches the front proxy's certificate authority until the context ends. It implements
// manager.Runnable.
func (s *Server) Start(ctx context.Context) error {
	var running sync.WaitGroup
	running.Go(func() { s.frontProxy.authorities.Run(ctx, 1) })
	running.Go(func() { s.frontProxy.headers.Run(ctx, 1) })
	running.Wait()
	return nil
}

// NeedLeaderElection returns false: every replica serves.
func (*Server) NeedLeaderElection() bool { return false }

// TLS configures a listener to request client certificates without requiring them; they are verified
// with the request. The listener sends the front proxy's authorities, so that browsers do not prompt
// for a certificate on the hosts of accounts.
//
// Call it last: later changes of the configuration have no effect, including those of http.Server, so
// NextProtos must contain h2 for HTTP/2. It replaces GetConfigForClient; use GetCertificate for
// certificates that change.
func (s *Server) TLS(config *tls.Config) {
	config.ClientAuth = tls.RequestClientCert
	original := config.Clone()
	var lock sync.Mutex
	var bundle string
	var current *tls.Config
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		lock.Lock()
		defer lock.Unlock()
		// Reuse the configuration while the authorities are unchanged: it has the keys for the
		// resumption of TLS sessions.
		if now := string(s.frontProxy.authorities.CurrentCABundleContent()); current == nil || now != bundle {
			bundle, current = now, original.Clone()
			if options, known := s.frontProxy.authorities.VerifyOptions(); known {
				current.ClientCAs = options.Roots
			}
		}
		return current, nil
	}
}

// HasCertificate reports whether the client of a request has presented a certificate, as the Kubernetes
// API server does. It is not verified yet.
func HasCertificate(r *http.Request) bool { return r.TLS != nil && len(r.TLS.PeerCertificates) > 0 }

// Handles reports whether a path is served by a Server. No documented path is.
func Handles(path string) bool {
	return path == "/apis" || strings.HasPrefix(path, "/apis/") ||
		path == "/openapi/v2" || path == "/openapi/v3" || strings.HasPrefix(path, "/openapi/v3/")
}
