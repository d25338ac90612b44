package contract_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/quoin-dev/quoin/internal/engine"
)

// dataPlane is the address of a server that answers for all API pods; nil on a machine with only loopback addresses,
// which EndpointSlices reject.
var dataPlane *net.TCPAddr

// startDataPlane starts the server of all API pods, whose data model has two cubes. It changes the scheme of k8s, so it
// is called first.
func startDataPlane(ctx context.Context) error {
	if err := discoveryv1.AddToScheme(k8s.Scheme()); err != nil {
		return err
	}
	all, err := net.InterfaceAddrs()
	if err != nil {
		return err
	}
	for _, address := range all {
		ip, ok := address.(*net.IPNet)
		if !ok || !ip.IP.IsGlobalUnicast() || ip.IP.To4() == nil {
			continue
		}
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(ip.IP.String(), "0"))
		if err != nil {
			return err
		}
		server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/cubejs-api/v1/meta" || r.Header.Get("Authorization") == "" {
				w.WriteHeader(http.StatusForbidden)
				return
			}
			_, _ = io.WriteString(w, `{"cubes":[{"name":"orders"},{"name":"users"}]}`)
		})}
		go func() { _ = server.Serve(listener) }()
		context.AfterFunc(ctx, func() { _ = server.Close() })
		address, ok := listener.Addr().(*net.TCPAddr)
		if !ok {
			return errors.New("not a TCP listener")
		}
		dataPlane = address
		return nil
	}
	return nil
}

// addEndpoint makes the data plane the endpoint of the API pods of a workload.
func addEndpoint(ctx context.Context, workload *appsv1.Deployment) error {
	if dataPlane == nil {
		return nil
	}
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: workload.Namespace, Name: workload.Name, Labels: map[string]string{discoveryv1.LabelServiceName: workload.Name},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: workload.Name, UID: workload.UID}},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{dataPlane.IP.String()}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)}}},
		Ports:       []discoveryv1.EndpointPort{{Name: ptr.To(engine.PortNameHTTP), Port: ptr.To(int32(dataPlane.Port))}},
	}
	if err := k8s.Create(ctx, slice); !apierrors.IsAlreadyExists(err) {
		return err
	}
	return nil
}
