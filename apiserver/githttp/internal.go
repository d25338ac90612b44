package githttp

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/engine"
	"github.com/quoin-dev/quoin/internal/serving"
	"github.com/quoin-dev/quoin/internal/tenant"
)

const (
	// maxReaders is the number of concurrent requests for a repository: pods that start at the same
	// time fetch it.
	maxReaders = 20
	// failuresPerSecond and failureBurst limit failed authentications of a client address.
	failuresPerSecond = 1
	failureBurst      = 20
	maxAddresses      = 10_000
	// secretFor is how long the password of a repository is cached.
	secretFor  = 5 * time.Second
	maxSecrets = 1024
)

var internalPath = regexp.MustCompile(`^/repositories/([a-z0-9-]{1,63})/([a-z0-9.-]{1,253})\.git(/.*)$`)

// maxPassword is the maximum length of a password in bytes.
const maxPassword = 1024

// ServeInternal serves a request on the server's own address, which authenticates with the Secret of
// the repository. It allows reading only.
func (s *Server) ServeInternal(w http.ResponseWriter, r *http.Request) {
	serving.Annotate(r.Context(), serving.AnnotationRoute, engine.RepositoryPath("{namespace}", "{deployment}"))
	match := internalPath.FindStringSubmatch(r.URL.Path)
	if match == nil {
		writeError(w, http.StatusNotFound, "no such path")
		return
	}
	t, err := s.authenticate(r, types.NamespacedName{Namespace: match[1], Name: match[2]})
	switch {
	case err != nil:
		writeFailure(w, r, err)
		return
	case t == nil:
		if wait := s.failures.Take(serving.ClientNetwork(r.Context()), s.Now()); wait > 0 {
			serving.RetryAfter(w, wait)
			writeError(w, http.StatusTooManyRequests, "too many requests without a valid password")
			return
		}
		w.Header().Set("WWW-Authenticate", Challenge)
		writeError(w, http.StatusUnauthorized, "the password of the repository is required")
		return
	}
	serving.Authenticated(r, t.account.Name)
	serving.Annotate(r.Context(), "account", t.account.Name)
	serving.Annotate(r.Context(), "principal", "Repository:"+match[1]+"/"+match[2])
	a, ok := actionOf(w, r, match[3])
	if !ok {
		return
	}
	if a.service != uploadPack {
		writeError(w, http.StatusForbidden, "repositories are read-only on this address")
		return
	}
	release := s.readers.Acquire(match[1] + "/" + match[2])
	if release == nil {
		serving.WriteBusy(w, http.StatusTooManyRequests, "too many concurrent requests for this repository")
		return
	}
	defer release()
	s.serve(w, r, a, *t)
}

// authenticate returns the repository of a request; nil if it does not exist or the password is wrong.
// Only the Secrets of deployments with a repository are read.
func (s *Server) authenticate(r *http.Request, key types.NamespacedName) (*target, error) {
	_, password, ok := r.BasicAuth()
	if !ok || len(password) > maxPassword {
		return nil, nil
	}
	d, err := s.deployment(r.Context(), key)
	if err != nil || d == nil {
		return nil, err
	}
	expected, err := s.secrets.get(key, func() (string, error) { return s.password(r.Context(), key) })
	if err != nil {
		return nil, err
	}
	if expected == "" || subtle.ConstantTimeCompare([]byte(password), []byte(expected)) != 1 {
		return nil, nil
	}
	account, err := tenant.Of(r.Context(), s.Cached, key.Namespace)
	if errors.Is(err, tenant.ErrNoAccount) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("find the account of a repository: %w", err)
	}
	return &target{account: account, deployment: d}, nil
}

// deployment returns the deployment with a repository; nil if there is none in the cache. The controller
// begins to read when this server has published its certificate for the deployment, so the cache has it
// by then.
func (s *Server) deployment(ctx context.Context, key types.NamespacedName) (*v1alpha1.Deployment, error) {
	d := &v1alpha1.Deployment{}
	err := s.Cached.Get(ctx, key, d)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("find the deployment of a repository: %w", err)
	case d.Spec.Model.Repository == nil, !d.DeletionTimestamp.IsZero():
		return nil, nil
	}
	return d, nil
}

// password returns the password of a repository, "" if there is none.
func (s *Server) password(ctx context.Context, key types.NamespacedName) (string, error) {
	secret := &corev1.Secret{}
	err := s.Live.Get(ctx, client.ObjectKey{Namespace: key.Namespace, Name: engine.RepositorySecretName(key.Name)}, secret)
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read the password of a repository: %w", err)
	}
	return string(secret.Data[corev1.BasicAuthPasswordKey]), nil
}

// secretCache caches passwords for a short time, so that clients without a password cause few reads of
// Secrets.
type secretCache struct {
	now func() time.Time

	mu    sync.Mutex
	known map[types.NamespacedName]cachedSecret // guarded by mu
}

type cachedSecret struct {
	password string
	until    time.Time
}

func newSecretCache(now func() time.Time) *secretCache {
	return &secretCache{now: now, known: map[types.NamespacedName]cachedSecret{}}
}

// get returns the password of a repository, from the cache or with read.
func (c *secretCache) get(key types.NamespacedName, read func() (string, error)) (string, error) {
	now := c.now()
	c.mu.Lock()
	found, ok := c.known[key]
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
	if len(c.known) >= maxSecrets {
		clear(c.known)
	}
	c.known[key] = cachedSecret{password, now.Add(secretFor)}
	return password, nil
}
