package token

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
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
	// fresh is how long keys are used without looking again.
	fresh = 30 * time.Second
	// stale is how long they are used when they cannot be read: an API server that is away
	// must not take the data plane with it.
	stale = 10 * time.Minute
	// again is how soon keys are read another time because a signature did not match: a new
	// key works at once, and nobody can make the gateway read all the time.
	again = 2 * time.Second
	// readTimeout bounds a look at the Secrets.
	readTimeout = 5 * time.Second
)

// Why there is nothing to check a token with. The texts are shown to callers.
var (
	// ErrNoKeys says that the environment has no secrets yet.
	ErrNoKeys = errors.New("the environment has no credentials yet")
	// ErrNotAllowed is an ErrNoKeys: nobody has allowed the gateway to read the secrets.
	ErrNotAllowed error = notAllowed{}
)

type notAllowed struct{}

// Error implements error. Which namespace and binding it is about is for the log only.
func (notAllowed) Error() string {
	return "the gateway may not read the environment's credentials, which an administrator has to allow"
}

// Is lets it pass for an ErrNoKeys.
func (notAllowed) Is(target error) bool { return target == ErrNoKeys }

// Store holds the keys of the environments that are in use. They are read by name, one
// environment at a time, and are in memory only.
type Store struct {
	// Reader must not read from a cache.
	Reader client.Reader
	// Now is the time.
	Now func() time.Time
	// Log is told where Secrets may not be read; slog.Default() when nil.
	Log *slog.Logger

	checked memory
	refused refusals
	reads   singleflight.Group
	mu      sync.Mutex
	held    map[types.NamespacedName]heldKeys
}

type heldKeys struct {
	Keys
	read time.Time
}

// Check says what a token may be used for in an environment. A signature that does not match
// may be one of a key that is newer than those in memory, so these are read again.
func (s *Store) Check(ctx context.Context, environment types.NamespacedName, token string) (Kind, string, error) {
	keys, err := s.keys(ctx, environment, fresh)
	if err != nil {
		return 0, "", err
	}
	checked, err := s.checked.check(environment, token, keys, s.Now())
	if errors.Is(err, ErrInvalid) && s.Now().Sub(keys.read) >= again {
		if keys, err = s.keys(ctx, environment, again); err != nil {
			return 0, "", err
		}
		checked, err = s.checked.check(environment, token, keys, s.Now())
	}
	return checked.kind, checked.relay, err
}

// keys returns keys that were read no longer than age ago.
func (s *Store) keys(ctx context.Context, environment types.NamespacedName, age time.Duration) (heldKeys, error) {
	s.mu.Lock()
	held, known := s.held[environment]
	s.mu.Unlock()
	if known && s.Now().Sub(held.read) < age {
		return held, nil
	}
	keys, err := s.lookUp(ctx, environment)
	gone := errors.Is(err, ErrNoKeys) && !errors.Is(err, ErrNotAllowed)
	if err != nil && ctx.Err() == nil && known && !gone && s.Now().Sub(held.read) < stale {
		return held, nil
	}
	return keys, err
}

// lookUp reads the keys of an environment, once for all who want them.
func (s *Store) lookUp(ctx context.Context, environment types.NamespacedName) (heldKeys, error) {
	if s.refused.recent(environment, s.Now()) {
		return heldKeys{}, ErrNotAllowed
	}
	// Who waits may go; the others still want the answer.
	answer := s.reads.DoChan(environment.String(), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readTimeout)
		defer cancel()
		return s.read(ctx, environment)
	})
	select {
	case <-ctx.Done():
		return heldKeys{}, ctx.Err()
	case result := <-answer:
		keys, _ := result.Val.(heldKeys)
		return keys, result.Err
	}
}

func (s *Store) read(ctx context.Context, environment types.NamespacedName) (heldKeys, error) {
	held := heldKeys{read: s.Now()}
	pods, gateway := &corev1.Secret{}, &corev1.Secret{}
	key := client.ObjectKey{Namespace: environment.Namespace, Name: engine.CredentialsName(environment.Name)}
	if err := s.Reader.Get(ctx, key, pods); err != nil {
		return heldKeys{}, s.failed(environment, key.Name, err)
	}
	key.Name = engine.GatewayCredentialsName(environment.Name)
	// Without it there are no metadata tokens, and data tokens work all the same.
	if err := s.Reader.Get(ctx, key, gateway); client.IgnoreNotFound(err) != nil {
		return heldKeys{}, s.failed(environment, key.Name, err)
	}
	s.refused.forget(environment)
	held.Keys = FromSecrets(pods.Data, gateway.Data)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held == nil {
		s.held = map[types.NamespacedName]heldKeys{}
	}
	s.held[environment] = held
	return held, nil
}

func (s *Store) failed(environment types.NamespacedName, secret string, err error) error {
	switch {
	case apierrors.IsForbidden(err):
		s.refused.note(environment, secret, s.Now(), cmp.Or(s.Log, slog.Default()))
		return ErrNotAllowed
	case apierrors.IsNotFound(err):
		s.Forget(environment)
		return ErrNoKeys
	}
	return fmt.Errorf("read the credentials of environment %s: %w", environment, err)
}

// Forget drops the keys of an environment that is gone.
func (s *Store) Forget(environment types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.held, environment)
}

// FromSecrets are the keys in the data of an environment's two Secrets. While a secret is being
// replaced there is a list of all that the pods accept: it counts alone, as in the server, and
// the one to sign with comes first.
func FromSecrets(pods, gateway map[string][]byte) Keys {
	keys := Keys{Metadata: gateway[engine.KeyMetadata]}
	signs := pods[engine.KeyAPISecret]
	for listed := range bytes.SplitSeq(pods[engine.KeyAPISecrets], []byte(",")) {
		switch listed = bytes.TrimSpace(listed); {
		case len(listed) == 0:
		case bytes.Equal(listed, signs):
			keys.Data = append([][]byte{listed}, keys.Data...)
		default:
			keys.Data = append(keys.Data, listed)
		}
	}
	if len(keys.Data) == 0 && len(signs) > 0 {
		keys.Data = [][]byte{signs}
	}
	return keys
}
