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

// apiServiceName is the APIService of the aggregated API.
const apiServiceName = "v1.api.platform.quoin.dev"

// caBundleInterval is how often the APIService is read: it may be created after the server has
// started, and re-created.
const caBundleInterval = 10 * time.Second

// +kubebuilder:rbac:groups=apiregistration.k8s.io,resources=apiservices,resourceNames=v1.api.platform.quoin.dev,verbs=get;patch

// caBundle publishes the CA of the self-signed certificate in the APIService, so that the Kubernetes
// API server can verify it. It writes only if the APIService has another CA. All replicas do so, and
// write the same CA.
type caBundle struct {
	client    client.Client // must not use a cache
	namespace string        // of the Service that the APIService names
	ca        func() []byte // returns the CA in PEM
	log       *slog.Logger
	failure   string // the last logged error
}

func newCABundle(config *clientrest.Config, c Config, ca func() []byte) (*caBundle, error) {
	direct, err := client.New(config, client.Options{})
	if err != nil {
		return nil, fmt.Errorf("set up client: %w", err)
	}
	return &caBundle{client: direct, namespace: c.Namespace, ca: ca, log: c.Log}, nil
}

// run keeps the APIService up to date until the context ends. It returns nil, because a failure of
// the aggregated API does not affect the tenant hosts.
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

// report logs an error, unless it is the same as the last one.
func (b *caBundle) report(ctx context.Context, err error) {
	switch {
	case err == nil:
		b.failure = ""
	case ctx.Err() == nil && err.Error() != b.failure:
		b.failure = err.Error()
		b.log.Error("Cannot publish the CA in the APIService", "error", err)
	}
}

// errForeign is returned for an APIService of another installation.
var errForeign = errors.New("it names a service in another namespace")

// sync writes the CA into the APIService if it has another one. An APIService that does not exist is
// not an error: it may be created later.
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
		return fmt.Errorf("write the CA into APIService %s: %w", apiServiceName, err)
	}
	b.log.Info("Published the CA in the APIService", "apiService", apiServiceName)
	return nil
}
