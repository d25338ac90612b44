package aggregation

import (
	"net/http"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/request/headerrequest"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/quoin-dev/quoin/internal/serving"
)

// reviewCache is how long access reviews are cached: a deleted binding takes effect after it.
const reviewCache = 10 * time.Second

// reviewRetries returns the default backoff of aggregated API servers
// (k8s.io/apiserver/pkg/server/options, DefaultAuthWebhookRetryBackoff).
func reviewRetries() *wait.Backoff {
	return &wait.Backoff{Duration: 500 * time.Millisecond, Factor: 1.5, Jitter: 0.2, Steps: 5}
}

// frontProxy authenticates the Kubernetes API server, which forwards the user in headers. Its
// certificate authority and the names of the headers are in a ConfigMap in kube-system.
type frontProxy struct {
	authorities *dynamiccertificates.ConfigMapCAController
	headers     *headerrequest.RequestHeaderAuthRequestController
}

func newFrontProxy(client kubernetes.Interface) (*frontProxy, error) {
	const namespace, configMap = "kube-system", "extension-apiserver-authentication"
	authorities, err := dynamiccertificates.NewDynamicCAFromConfigMapController(
		"front-proxy", namespace, configMap, "requestheader-client-ca-file", client)
	if err != nil {
		return nil, err
	}
	headers := headerrequest.NewRequestHeaderAuthRequestController(configMap, namespace, client,
		"requestheader-username-headers", "requestheader-uid-headers", "requestheader-group-headers",
		"requestheader-extra-headers-prefix", "requestheader-allowed-names")
	return &frontProxy{authorities: authorities, headers: headers}, nil
}

func (f *frontProxy) config() *authenticatorfactory.RequestHeaderConfig {
	return &authenticatorfactory.RequestHeaderConfig{
		CAContentProvider:   f.authorities,
		UsernameHeaders:     headerrequest.StringSliceProviderFunc(f.headers.UsernameHeaders),
		UIDHeaders:          headerrequest.StringSliceProviderFunc(f.headers.UIDHeaders),
		GroupHeaders:        headerrequest.StringSliceProviderFunc(f.headers.GroupHeaders),
		ExtraHeaderPrefixes: headerrequest.StringSliceProviderFunc(f.headers.ExtraHeaderPrefixes),
		AllowedClientNames:  headerrequest.StringSliceProviderFunc(f.headers.AllowedClientNames),
	}
}

// authenticate returns the Kubernetes user of a request, from the headers of the front proxy, whose
// certificate the connection must have.
func (s *Server) authenticate(r *http.Request) (user.Info, error) {
	response, known, err := s.authenticator.AuthenticateRequest(r)
	if err != nil {
		// The reason is logged only: it may reveal the form of a credential.
		log.FromContext(r.Context()).V(1).Info("Credential refused", "reason", err.Error())
	}
	if err != nil || !known {
		return nil, apierrors.NewUnauthorized("Unauthorized")
	}
	serving.Authenticated(r, sharedByKubernetes)
	for header := range r.Header {
		// The Kubernetes API server handles and removes these headers.
		if strings.HasPrefix(header, "Impersonate-") {
			return nil, apierrors.NewBadRequest("impersonation works through the Kubernetes API server only")
		}
	}
	return response.User, nil
}

// sharedByKubernetes has the share of the connections of the Kubernetes API server. It is no name of an account.
const sharedByKubernetes = "system:kubernetes"

// withoutCredentials deletes the credentials of an authenticated request.
func (s *Server) withoutCredentials(header http.Header) {
	config := s.frontProxy.config()
	headerrequest.ClearAuthenticationHeaders(header, config.UsernameHeaders, config.UIDHeaders, config.GroupHeaders, config.ExtraHeaderPrefixes)
	header.Del("Authorization")
	header.Del("Cookie")
}
