package dbtobjects

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
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
	// maxBody is the maximum length of a delivery: a manifest, a catalog and the selected models.
	maxBody = dbt.MaxManifestBytes + dbt.MaxCatalogBytes + 9<<20
	// maxPassword is the maximum length of a password in bytes.
	maxPassword = 256
	// failuresPerSecond and failureBurst limit failed authentications of a client address.
	failuresPerSecond = 1
	failureBurst      = 20
	maxAddresses      = 10_000
	// passwordFor is how long the password of a sync is cached.
	passwordFor  = 5 * time.Second
	maxPasswords = 1024
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
	p, err := o.authenticate(r, types.NamespacedName{Namespace: match[1], Name: match[2]})
	switch {
	case err != nil:
		o.writeFailure(w, r, err)
		return
	case p == nil:
		if wait := o.failures.Take(serving.ClientNetwork(r.Context()), o.Now()); wait > 0 {
			o.writeFailure(w, r, tooManyFailures{wait})
			return
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="quoin"`)
		serving.WriteError(w, http.StatusUnauthorized, "the password of a dbt sync that has not ended is required")
		return
	}
	account := p.Scope.Account.Name
	serving.Authenticated(r, account)
	serving.Annotate(r.Context(), "account", account)
	serving.Annotate(r.Context(), "principal", "DbtSync:"+match[1]+"/"+match[2])
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
	packed, err := pack(r.Body)
	if err == nil {
		err = o.Syncs.Deliver(r.Context(), p, packed)
	}
	if err != nil {
		o.writeFailure(w, r, err)
		return
	}
	o.Wake()
	w.WriteHeader(http.StatusNoContent)
}

// authenticate returns the running sync of a request; nil if it does not exist, has ended, has no pod, or
// the password is wrong. What it reads from the cache may be outdated: the row decides whether the sync has
// ended, and the Secret whether there is a pod.
func (o *Objects) authenticate(r *http.Request, key types.NamespacedName) (*dbtsync.Pending, error) {
	_, password, ok := r.BasicAuth()
	if !ok || password == "" || len(password) > maxPassword {
		return nil, nil
	}
	obj := &v1alpha1.DbtSync{}
	if err := o.Cached.Get(r.Context(), key, obj); err != nil || obj.Status.Ended() {
		return nil, client.IgnoreNotFound(err)
	}
	expected, err := o.passwords.get(obj.UID, func() (string, error) { return o.readPassword(r.Context(), obj) })
	if err != nil || !holds(password, expected) {
		return nil, err
	}
	account, err := tenant.Of(r.Context(), o.Cached, key.Namespace)
	if errors.Is(err, tenant.ErrNoAccount) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	d := &v1alpha1.Deployment{}
	if err := o.Cached.Get(r.Context(), types.NamespacedName{Namespace: key.Namespace, Name: obj.Spec.DeploymentRef.Name}, d); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	p, err := o.Syncs.OfObject(r.Context(), scopeOf(account, d), obj.Name, string(obj.UID))
	if err != nil || p == nil || p.Status != dbtsync.Running {
		return nil, err
	}
	return p, nil
}

// holds compares a password with the expected one; none is expected if that is empty. The time does not
// depend on them.
func holds(password, expected string) bool {
	given, wanted := sha256.Sum256([]byte(password)), sha256.Sum256([]byte(expected))
	return subtle.ConstantTimeCompare(given[:], wanted[:]) == 1 && expected != ""
}

// readPassword reads the password of a sync from its Secret; "" if there is none. Client addresses with too
// many failed authentications cause no read.
func (o *Objects) readPassword(ctx context.Context, obj *v1alpha1.DbtSync) (string, error) {
	if wait := o.failures.Wait(serving.ClientNetwork(ctx), o.Now()); wait > 0 {
		return "", tooManyFailures{wait}
	}
	secret := &corev1.Secret{}
	err := o.Live.Get(ctx, types.NamespacedName{Namespace: obj.Namespace, Name: engine.DbtDeliveryName(obj.Name)}, secret)
	if err != nil || !metav1.IsControlledBy(secret, obj) {
		return "", client.IgnoreNotFound(err)
	}
	return string(secret.Data[corev1.BasicAuthPasswordKey]), nil
}

// passwords caches the passwords of syncs by the UID of their objects, so that requests with made-up
// passwords cause few reads of Secrets. A missing one is cached too.
type passwords struct {
	now func() time.Time

	mu    sync.Mutex
	known map[types.UID]knownPassword // guarded by mu
}

type knownPassword struct {
	password string
	until    time.Time
}

// get returns the password of a sync, from the cache or with read.
func (c *passwords) get(of types.UID, read func() (string, error)) (string, error) {
	now := c.now()
	c.mu.Lock()
	found, ok := c.known[of]
	c.mu.Unlock()
	if ok && now.Before(found.until) {
		return found.password, nil
	}
	password, err := read()
	if err != nil {
		return "", err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.known) >= maxPasswords {
		clear(c.known)
	}
	c.known[of] = knownPassword{password, now.Add(passwordFor)}
	return password, nil
}

// tooManyFailures is the error of a client address with too many failed authentications.
type tooManyFailures struct{ wait time.Duration }

// Error implements error.
func (tooManyFailures) Error() string { return "too many requests without a valid password" }

// writeFailure responds to an error.
func (o *Objects) writeFailure(w http.ResponseWriter, r *http.Request, err error) {
	var invalid *dbt.Error
	var rejected *content.Error
	var tooLarge *http.MaxBytesError
	var tooMany tooManyFailures
	switch {
	case errors.As(err, &tooMany):
		serving.RetryAfter(w, tooMany.wait)
		serving.WriteError(w, http.StatusTooManyRequests, tooMany.Error())
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
