package apiserver

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientrest "k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/apiserver/edit"
)

// apiServiceName is the object that registers the front end with the Kubernetes API.
const apiServiceName = "v1.api.platform.quoin.dev"

// caBundleInterval is how often the APIService is read: it may be registered after the front
// end has started, and registered anew.
const caBundleInterval = 10 * time.Second

// +kubebuilder:rbac:groups=apiregistration.k8s.io,resources=apiservices,resourceNames=v1.api.platform.quoin.dev,verbs=get;patch

// caBundle tells the Kubernetes API server by which authority it recognises the certificate
// that is made in process: nobody else knows it. It reads the APIService and writes only when
// another authority stands there. All replicas do so, and write the same.
type caBundle struct {
	client    client.Client // must not read from a cache
	namespace string        // of the Service that the APIService names
	ca        func() []byte // the authority, in PEM
	log       *slog.Logger
	failure   string // what was logged last
}

func newCABundle(config *clientrest.Config, c Config, ca func() []byte) (*caBundle, error) {
	direct, err := client.New(config, client.Options{})
	if err != nil {
		return nil, fmt.Errorf("set up client: %w", err)
	}
	return &caBundle{client: direct, namespace: c.Namespace, ca: ca, log: c.Log}, nil
}

// run keeps the APIService up to date until the context ends. It returns nil: that the way
// through the Kubernetes API is closed does not close the other.
func (b *caBundle) run(ctx context.Context) error {
	ticker := time.NewTicker(caBundleInterval)
	defer ticker.Stop()
	for {
		b.report(ctx, b.sync(ctx))
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// report logs a failure once, for as long as it stays the same.
func (b *caBundle) report(ctx context.Context, err error) {
	switch {
	case err == nil:
		b.failure = ""
	case ctx.Err() == nil && err.Error() != b.failure:
		b.failure = err.Error()
		b.log.Error("Cannot tell the Kubernetes API server the certificate's authority", "error", err)
	}
}

// errForeign says that an APIService leads elsewhere.
var errForeign = errors.New("it leads to a service in another namespace")

// sync writes the authority into the APIService if it is not there. An APIService that does
// not exist is none to write into: whoever registers it later is waited for.
func (b *caBundle) sync(ctx context.Context) error {
	registered := &unstructured.Unstructured{}
	registered.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService"})
	if err := b.client.Get(ctx, client.ObjectKey{Name: apiServiceName}, registered); apierrors.IsNotFound(err) {
		return nil
	} else if err != nil {
		return fmt.Errorf("read APIService %s: %w", apiServiceName, err)
	}
	if namespace, _, _ := unstructured.NestedString(registered.Object, "spec", "service", "namespace"); namespace != b.namespace {
		return fmt.Errorf("APIService %s: %w: %q", apiServiceName, errForeign, namespace)
	}
	wanted := base64.StdEncoding.EncodeToString(b.ca())
	if is, _, _ := unstructured.NestedString(registered.Object, "spec", "caBundle"); is == wanted {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"caBundle": wanted}})
	if err != nil {
		return err
	}
	if err := b.client.Patch(ctx, registered, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(edit.Manager)); err != nil {
		return fmt.Errorf("write the authority into APIService %s: %w", apiServiceName, err)
	}
	b.log.Info("Told the Kubernetes API server the certificate's authority", "apiService", apiServiceName)
	return nil
}
