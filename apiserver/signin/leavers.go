package signin

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/content/oauth"
	"github.com/quoin-dev/quoin/internal/store"
	"github.com/quoin-dev/quoin/internal/tenant"
)

// leaverRetry is the time after which the sessions and grants of a user are ended again if that has failed.
const leaverRetry = 5 * time.Second

// Leavers ends the sessions and grants of SCIM users who are deactivated or deleted. Requests are rejected without it; but what is not
// used before the user is activated again would be valid again. Create it with NewLeavers.
type Leavers struct {
	sessions *oauth.Store
	cache    client.Reader
	log      *slog.Logger
	wake     chan struct{}

	mu sync.Mutex
	// left are the namespaces of the users, by UID.
	left map[types.UID]string // guarded by mu
}

// NewLeavers returns a Leavers. cache has Accounts, with the index tenant.IndexNamespace.
func NewLeavers(sessions *oauth.Store, cache client.Reader, log *slog.Logger) *Leavers {
	return &Leavers{sessions: sessions, cache: cache, log: log, wake: make(chan struct{}, 1), left: map[types.UID]string{}}
}

// Left makes Run end the sessions and grants of a user.
func (l *Leavers) Left(u *v1alpha1.ScimUser) {
	l.add(u.UID, u.Namespace)
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

func (l *Leavers) add(uid types.UID, namespace string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.left[uid] = namespace
}

// Run ends the sessions and grants of users who have left until the context ends. Every replica may run it.
func (l *Leavers) Run(ctx context.Context) error {
	for {
		var retry <-chan time.Time
		if err := l.End(ctx); err != nil && ctx.Err() == nil {
			l.log.ErrorContext(ctx, "Cannot end the sessions of deactivated users; trying again", "error", err.Error())
			retry = time.After(leaverRetry)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-l.wake:
		case <-retry:
		}
	}
}

// End ends the sessions and grants of the users who were passed to Left since the last call. The next call tries again for
// users whose sessions and grants could not be ended.
func (l *Leavers) End(ctx context.Context) error {
	l.mu.Lock()
	left := l.left
	l.left = map[types.UID]string{}
	l.mu.Unlock()
	var failures []error
	for uid, namespace := range left {
		if err := l.end(ctx, uid, namespace); err != nil {
			l.add(uid, namespace)
			failures = append(failures, err)
		}
	}
	return errors.Join(failures...)
}

func (l *Leavers) end(ctx context.Context, uid types.UID, namespace string) error {
	account, err := tenant.Of(ctx, l.cache, namespace)
	if errors.Is(err, tenant.ErrNoAccount) { // its rows are purged
		return nil
	}
	if err != nil {
		return err
	}
	return l.sessions.EndUser(ctx, store.Account{UID: string(account.UID), Name: account.Name}, string(uid))
}
