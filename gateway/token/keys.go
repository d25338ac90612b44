package token

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/internal/engine"
)

const (
	// refreshInterval is how long keys are used before they are read again.
	refreshInterval = 30 * time.Second
	// maxStaleness is how long keys are used while they cannot be read: the data plane must
	// survive an outage of the Kubernetes API server.
	maxStaleness = 10 * time.Minute
	// minRefreshInterval is the minimum age of keys that are read again because a signature did
	// not match: a new key works at once, and invalid tokens cannot cause a read per request.
	minRefreshInterval = 2 * time.Second
	// readTimeout is the timeout for reading the Secrets.
	readTimeout = 5 * time.Second
	// waitTimeout is how long a request waits for keys to be read again: an API server that does not
	// answer must not delay every request. The read continues.
	waitTimeout = 500 * time.Millisecond
	// retryInterval is how long older keys are used without waiting after a request has waited in
	// vain, or the read has failed.
	retryInterval = 5 * time.Second
)

// Reasons why an environment has no keys. The texts are shown to callers.
var (
	// ErrNoKeys means that the environment has no Secrets yet.
	ErrNoKeys = errors.New("the environment has no credentials yet")
	// ErrNotAllowed is an ErrNoKeys: the gateway is not permitted to read the Secrets.
	ErrNotAllowed error = forbiddenError{}
)

type forbiddenError struct{}

// Error implements error. The namespace and the missing binding are only logged.
func (forbiddenError) Error() string {
	return "the gateway may not read the environment's credentials; an administrator must grant access"
}

// Is reports whether target is ErrNoKeys.
func (forbiddenError) Is(target error) bool { return target == ErrNoKeys }

// Store reads and caches the keys of environments. Secrets are read by name, one environment at a
// time, and kept in memory only.
type Store struct {
	// Reader must not read from a cache.
	Reader client.Reader
	// Now returns the current time.
	Now func() time.Time
	// Log receives errors about Secrets that may not be read; slog.Default() if nil.
	Log *slog.Logger

	verified cache
	denied   denials
	reads    singleflight.Group
	mu       sync.Mutex
	cached   map[types.NamespacedName]cachedKeys
}

type cachedKeys struct {
	Keys
	read time.Time
	// awaited is when a request last waited in vain for newer ones.
	awaited time.Time
}

// Check verifies a token for an environment. It returns the token's kind and, for a metadata
// token, the data token that it is exchanged for. If the signature does not match, the keys are
// read again, because the token may be signed with a newer key.
func (s *Store) Check(ctx context.Context, environment types.NamespacedName, token string) (Kind, string, error) {
	keys, err := s.keys(ctx, environment, refreshInterval)
	if err != nil {
		return 0, "", err
	}
	v, err := s.verified.verify(environment, token, keys, s.Now())
	if errors.Is(err, ErrInvalid) && s.Now().Sub(keys.read) >= minRefreshInterval {
		if keys, err = s.keys(ctx, environment, minRefreshInterval); err != nil {
			return 0, "", err
		}
		v, err = s.verified.verify(environment, token, keys, s.Now())
	}
	return v.kind, v.exchanged, err
}

// keys returns keys that are not older than age, or stale ones if they cannot be read.
func (s *Store) keys(ctx context.Context, environment types.NamespacedName, age time.Duration) (cachedKeys, error) {
	cached, known := s.known(environment)
	now := s.Now()
	if known && now.Sub(cached.read) < age {
		return cached, nil
	}
	if !known || now.Sub(cached.read) >= maxStaleness {
		return s.lookUp(ctx, environment, age)
	}
	if now.Sub(cached.awaited) < retryInterval {
		return cached, nil
	}
	waiting, cancel := context.WithTimeout(ctx, waitTimeout)
	defer cancel()
	keys, err := s.lookUp(waiting, environment, age)
	deleted := errors.Is(err, ErrNoKeys) && !errors.Is(err, ErrNotAllowed)
	if err == nil || deleted || ctx.Err() != nil {
		return keys, err
	}
	s.postpone(environment, cached.read, now)
	return cached, nil
}

// known returns the cached keys of an environment.
func (s *Store) known(environment types.NamespacedName) (cachedKeys, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	cached, known := s.cached[environment]
	return cached, known
}

// postpone records that a request has waited in vain for keys newer than those that were read at a time.
func (s *Store) postpone(environment types.NamespacedName, read, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if cached, known := s.cached[environment]; known && cached.read.Equal(read) {
		cached.awaited = now
		s.cached[environment] = cached
	}
}

// lookUp reads the keys of an environment; concurrent calls share one read. A read that has ended since the caller has looked at
// the cache is shared too, if it is not older than age.
func (s *Store) lookUp(ctx context.Context, environment types.NamespacedName, age time.Duration) (cachedKeys, error) {
	if s.denied.recent(environment, s.Now()) {
		return cachedKeys{}, ErrNotAllowed
	}
	// The read does not end with the first caller's context, because others may wait for it.
	results := s.reads.DoChan(environment.String(), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readTimeout)
		defer cancel()
		if cached, known := s.known(environment); known && s.Now().Sub(cached.read) < age {
			return cached, nil
		}
		return s.read(ctx, environment)
	})
	select {
	case <-ctx.Done():
		return cachedKeys{}, ctx.Err()
	case result := <-results:
		keys, _ := result.Val.(cachedKeys)
		return keys, result.Err
	}
}

func (s *Store) read(ctx context.Context, environment types.NamespacedName) (cachedKeys, error) {
	result := cachedKeys{read: s.Now()}
	pods, gateway := &corev1.Secret{}, &corev1.Secret{}
	key := client.ObjectKey{Namespace: environment.Namespace, Name: engine.CredentialsName(environment.Name)}
	if err := s.Reader.Get(ctx, key, pods); err != nil {
		return cachedKeys{}, s.readError(environment, key.Name, err)
	}
	key.Name = engine.GatewayCredentialsName(environment.Name)
	// Without this Secret there are no metadata tokens, but data tokens work.
	if err := s.Reader.Get(ctx, key, gateway); client.IgnoreNotFound(err) != nil {
		return cachedKeys{}, s.readError(environment, key.Name, err)
	}
	s.denied.remove(environment)
	result.Keys = FromSecrets(pods.Data, gateway.Data)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cached == nil {
		s.cached = map[types.NamespacedName]cachedKeys{}
	}
	s.cached[environment] = result
	return result, nil
}

// readError returns the error for a Secret that could not be read.
func (s *Store) readError(environment types.NamespacedName, secret string, err error) error {
	switch {
	case apierrors.IsForbidden(err):
		s.denied.record(environment, secret, s.Now(), cmp.Or(s.Log, slog.Default()))
		return ErrNotAllowed
	case apierrors.IsNotFound(err):
		s.Forget(environment)
		return ErrNoKeys
	}
	return fmt.Errorf("read the credentials of environment %s: %w", environment, err)
}

// Prune removes the keys of environments that no longer exist.
func (s *Store) Prune(exists func(environment types.NamespacedName) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.cached, func(environment types.NamespacedName, _ cachedKeys) bool { return !exists(environment) })
}

// Forget removes the keys of a deleted environment.
func (s *Store) Forget(environment types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.cached, environment)
}

// FromSecrets returns the keys in the data of an environment's two Secrets. During a rotation,
// the list of all secrets that the pods accept replaces the single one, as in the server; the
// secret to sign with is first.
func FromSecrets(pods, gateway map[string][]byte) Keys {
	keys := Keys{Metadata: gateway[engine.KeyMetadata]}
	signing := pods[engine.KeyAPISecret]
	for listed := range bytes.SplitSeq(pods[engine.KeyAPISecrets], []byte(",")) {
		switch listed = bytes.TrimSpace(listed); {
		case len(listed) == 0:
		case bytes.Equal(listed, signing):
			keys.Data = append([][]byte{listed}, keys.Data...)
		default:
			keys.Data = append(keys.Data, listed)
		}
	}
	if len(keys.Data) == 0 && len(signing) > 0 {
		keys.Data = [][]byte{signing}
	}
	return keys
}
