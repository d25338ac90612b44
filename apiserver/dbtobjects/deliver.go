package dbtobjects

import (
	"crypto/subtle"
	"errors"
	"net/http"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/dbtsync"
	"github.com/quoin-dev/quoin/internal/dbt"
	"github.com/quoin-dev/quoin/internal/engine"
	"github.com/quoin-dev/quoin/internal/serving"
	"github.com/quoin-dev/quoin/internal/store"
	"github.com/quoin-dev/quoin/internal/tenant"
)

const (
	// maxDeliveries is the number of manifests that are received at a time.
	maxDeliveries = 4
	// maxBody is the maximum length of a delivery: a manifest and the selected models.
	maxBody = dbt.MaxManifestBytes + 9<<20
	// maxPassword is the maximum length of a password in bytes.
	maxPassword = 256
	// failuresPerSecond and failureBurst limit failed authentications of a client address.
	failuresPerSecond = 1
	failureBurst      = 20
	maxAddresses      = 10_000
)

const prefix = "/dbt-syncs/"

var deliveryPath = regexp.MustCompile(`^/dbt-syncs/([a-z0-9-]{1,63})/([a-z0-9.-]{1,253})/manifest$`)

// Handles reports whether a path on the server's own address is one for deliveries.
func Handles(path string) bool { return strings.HasPrefix(path, prefix) }

// BodyLimit returns the limit of the body of a request; 0 for the default.
func BodyLimit(r *http.Request) int64 {
	if r.Method == http.MethodPut && deliveryPath.MatchString(r.URL.Path) {
		return maxBody
	}
	return 0
}

// ServeHTTP receives the manifest of a sync from its pod, which authenticates with the Secret of the
// DbtSync.
func (o *Objects) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	serving.Annotate(r.Context(), serving.AnnotationRoute, engine.DbtDeliveryPath("{namespace}", "{name}"))
	match := deliveryPath.FindStringSubmatch(r.URL.Path)
	if match == nil {
		serving.WriteError(w, http.StatusNotFound, "no such path")
		return
	}
	obj, of, err := o.authenticate(r, types.NamespacedName{Namespace: match[1], Name: match[2]})
	switch {
	case err != nil:
		o.writeFailure(w, r, err)
		return
	case obj == nil:
		if wait := o.failures.Take(serving.ClientNetwork(r.Context()), o.Now()); wait > 0 {
			serving.RetryAfter(w, wait)
			serving.WriteError(w, http.StatusTooManyRequests, "too many requests without a valid password")
			return
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="quoin"`)
		serving.WriteError(w, http.StatusUnauthorized, "the password of the dbt sync is required")
		return
	}
	serving.Authenticated(r, of.Account.Name)
	serving.Annotate(r.Context(), "account", of.Account.Name)
	serving.Annotate(r.Context(), "principal", "DbtSync:"+obj.Namespace+"/"+obj.Name)
	if r.Method != http.MethodPut {
		w.Header().Set("Allow", http.MethodPut)
		serving.WriteError(w, http.StatusMethodNotAllowed, "allowed: PUT")
		return
	}
	select {
	case o.deliveries <- struct{}{}:
		defer func() { <-o.deliveries }()
	default:
		serving.WriteBusy(w, http.StatusTooManyRequests, "too many manifests are being received")
		return
	}
	if err := o.receive(r, obj, of); err != nil {
		o.writeFailure(w, r, err)
		return
	}
	o.Wake()
	w.WriteHeader(http.StatusNoContent)
}

// authenticate returns the object of a request and its deployment; nil if it does not exist, has no pod,
// or the password is wrong.
func (o *Objects) authenticate(r *http.Request, key types.NamespacedName) (*v1alpha1.DbtSync, content.Scope, error) {
	_, password, ok := r.BasicAuth()
	if !ok || password == "" || len(password) > maxPassword {
		return nil, content.Scope{}, nil
	}
	obj := &v1alpha1.DbtSync{}
	if err := o.Cached.Get(r.Context(), key, obj); err != nil {
		return nil, content.Scope{}, ignoreNotFound(err)
	}
	// The pod may be faster than the cache.
	if s := &obj.Status; s.Stage != v1alpha1.DbtStageInitializing && !s.InSandbox() {
		return nil, content.Scope{}, nil
	}
	secret := &corev1.Secret{}
	if err := o.Live.Get(r.Context(), types.NamespacedName{Namespace: key.Namespace, Name: engine.DbtDeliveryName(key.Name)}, secret); err != nil {
		return nil, content.Scope{}, ignoreNotFound(err)
	}
	expected := secret.Data[corev1.BasicAuthPasswordKey]
	if !metav1.IsControlledBy(secret, obj) || len(expected) == 0 || subtle.ConstantTimeCompare([]byte(password), expected) != 1 {
		return nil, content.Scope{}, nil
	}
	account, err := tenant.Of(r.Context(), o.Cached, key.Namespace)
	if errors.Is(err, tenant.ErrNoAccount) {
		return nil, content.Scope{}, nil
	}
	if err != nil {
		return nil, content.Scope{}, err
	}
	d := &v1alpha1.Deployment{}
	if err := o.Cached.Get(r.Context(), types.NamespacedName{Namespace: key.Namespace, Name: obj.Spec.DeploymentRef.Name}, d); err != nil {
		return nil, content.Scope{}, ignoreNotFound(err)
	}
	return obj, scopeOf(account, d), nil
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// receive stores the manifest of a request.
func (o *Objects) receive(r *http.Request, obj *v1alpha1.DbtSync, of content.Scope) error {
	p, err := o.Syncs.OfObject(r.Context(), of, obj.Name, string(obj.UID))
	if err != nil {
		return err
	}
	if p == nil {
		return content.Errorf(content.NotFound, "the dbt sync does not exist")
	}
	if p.Status != dbtsync.Running {
		return content.Errorf(content.Conflict, "the dbt sync has ended: %s", p.Status)
	}
	packed, err := pack(r.Body)
	if err != nil {
		return err
	}
	return o.Syncs.Deliver(r.Context(), p, packed)
}

// writeFailure responds to an error.
func (o *Objects) writeFailure(w http.ResponseWriter, r *http.Request, err error) {
	var invalid *dbt.Error
	var rejected *content.Error
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &invalid):
		serving.WriteError(w, http.StatusBadRequest, invalid.Message)
	case errors.As(err, &rejected):
		serving.WriteError(w, http.StatusConflict, rejected.Message)
	case errors.As(err, &tooLarge), errors.Is(err, serving.ErrSlowBody):
		serving.WriteReadError(w, err)
	case errors.Is(err, store.ErrUnavailable):
		serving.WriteBusy(w, http.StatusServiceUnavailable, "the database is not available now")
	default:
		if r.Context().Err() == nil {
			log.FromContext(r.Context()).Error(err, "Failed to receive the manifest of a dbt sync", "requestID", serving.RequestID(r.Context()))
		}
		serving.WriteBusy(w, http.StatusServiceUnavailable, "the manifest cannot be received now")
	}
}
