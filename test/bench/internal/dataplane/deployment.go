package dataplane

import (
	"context"
	"net"
	"strconv"
	"time"

	"github.com/golang-jwt/jwt/v5"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/engine"
	"github.com/quoin-dev/quoin/test/bench/internal/controlplane"
)

// Deployment is a deployment with one pod.
type Deployment struct {
	Namespace, Name string
	// Ports are the addresses of the pod by the name of the port. They have the same IP address.
	Ports map[string]string
}

// Create creates the objects that the controllers would create, and returns a token for the data API.
func (d Deployment) Create(ctx context.Context, server *controlplane.APIServer) (token string, err error) {
	const secret = "a secret that is long enough for HS256"
	if token, err = jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{
		"iat": time.Now().Unix(), "exp": time.Now().Add(24 * time.Hour).Unix(), "tenant": "acme",
	}).SignedString([]byte(secret)); err != nil {
		return "", err
	}
	slice, err := d.endpoints()
	if err != nil {
		return "", err
	}
	environment := v1alpha1.ProductionName(d.Name)
	return token, server.CreateAll(ctx,
		&v1alpha1.Deployment{ObjectMeta: d.meta(d.Name), Spec: v1alpha1.DeploymentSpec{
			ReleaseChannel: "latest", Model: v1alpha1.ModelSource{ConfigMapRef: &v1alpha1.LocalReference{Name: "model"}},
		}},
		&v1alpha1.Environment{ObjectMeta: d.meta(environment), Spec: v1alpha1.EnvironmentSpec{
			DeploymentRef: v1alpha1.LocalReference{Name: d.Name}, Type: v1alpha1.EnvironmentProduction, Version: "1.0.0", Image: "cube:v1.0.0",
		}},
		&corev1.Secret{ObjectMeta: d.meta(engine.CredentialsName(environment)), Data: map[string][]byte{engine.KeyAPISecret: []byte(secret)}},
		&corev1.Secret{ObjectMeta: d.meta(engine.GatewayCredentialsName(environment)), Data: map[string][]byte{engine.KeyMetadata: []byte("another secret, for metadata tokens")}},
		slice,
	)
}

func (d Deployment) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: d.Namespace, Name: name}
}

func (d Deployment) endpoints() (*discoveryv1.EndpointSlice, error) {
	slice := &discoveryv1.EndpointSlice{ObjectMeta: d.meta(d.Name), AddressType: discoveryv1.AddressTypeIPv4}
	slice.Labels = map[string]string{
		discoveryv1.LabelServiceName: engine.APIName(v1alpha1.ProductionName(d.Name)),
		engine.LabelManagedBy:        engine.ManagedBy,
	}
	for name, address := range d.Ports {
		ip, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		number, err := strconv.ParseInt(port, 10, 32)
		if err != nil {
			return nil, err
		}
		slice.Endpoints = []discoveryv1.Endpoint{{Addresses: []string{ip}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)}}}
		slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{Name: ptr.To(name), Port: ptr.To(int32(number))})
	}
	return slice, nil
}
