// Package ask sends requests to the servers of environments.
package ask

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/engine"
	"github.com/quoin-dev/quoin/internal/engine/dataapi"
	"github.com/quoin-dev/quoin/internal/kube"
	"github.com/quoin-dev/quoin/internal/tracing"
)

// Limits of requests to the servers of environments.
const (
	askTimeout     = 20 * time.Second
	connectTimeout = 5 * time.Second
	maxHeaderBytes = 64 << 10
)

// errNoServer is returned for an environment without a pod that accepts requests.
var errNoServer = errors.New("no pod accepts requests")

// +kubebuilder:rbac:groups=discovery.k8s.io,resources=endpointslices,verbs=list

// OverHTTP returns a function that requests the metadata of an environment from one of its ready pods, with a
// token. It uses no proxy and follows no redirects, because the pods' code belongs to their tenant. The caller
// closes the body.
func OverHTTP(c *kube.Client, tracer *tracing.Tracer) func(ctx context.Context, e *v1alpha1.Environment, token string) (status int, body io.ReadCloser, err error) {
	transport := &http.Transport{
		DialContext: (&net.Dialer{Timeout: connectTimeout}).DialContext, DisableKeepAlives: true, DisableCompression: true,
		MaxResponseHeaderBytes: maxHeaderBytes,
	}
	asker := &http.Client{Transport: tracer.Transport("pod", transport), CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return func(ctx context.Context, e *v1alpha1.Environment, token string) (int, io.ReadCloser, error) {
		address, err := serverOf(ctx, c, e)
		if err != nil {
			return 0, nil, err
		}
		ctx, cancel := context.WithTimeout(ctx, askTimeout)
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+engine.BasePath+dataapi.PathMeta, nil)
		if err != nil {
			cancel()
			return 0, nil, err
		}
		request.Header.Set("Authorization", token)
		response, err := asker.Do(request) //nolint:bodyclose // the caller closes it
		if err != nil {
			cancel()
			return 0, nil, err
		}
		return response.StatusCode, &cancelledBody{response.Body, cancel}, nil
	}
}

// serverOf returns the address of a ready pod.
func serverOf(ctx context.Context, c *kube.Client, e *v1alpha1.Environment) (string, error) {
	list := &discoveryv1.EndpointSliceList{}
	err := c.Live().List(ctx, list, client.InNamespace(e.Namespace), client.MatchingLabels{discoveryv1.LabelServiceName: engine.APIName(e.Name)})
	if err != nil {
		return "", err
	}
	for i := range list.Items {
		slice := &list.Items[i]
		at := slices.IndexFunc(slice.Ports, func(p discoveryv1.EndpointPort) bool {
			return p.Name != nil && *p.Name == engine.PortNameHTTP && p.Port != nil
		})
		if at < 0 || slice.AddressType == discoveryv1.AddressTypeFQDN {
			continue
		}
		for _, endpoint := range slice.Endpoints {
			if ready := endpoint.Conditions.Ready; (ready == nil || *ready) && len(endpoint.Addresses) > 0 {
				return net.JoinHostPort(endpoint.Addresses[0], strconv.Itoa(int(*slice.Ports[at].Port))), nil
			}
		}
	}
	return "", errNoServer
}

// cancelledBody ends the request when the body is closed.
type cancelledBody struct {
	io.ReadCloser
	cancel context.CancelFunc
}

// Close implements io.Closer.
func (b *cancelledBody) Close() error {
	defer b.cancel()
	return b.ReadCloser.Close()
}
