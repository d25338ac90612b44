package auth

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

const (
	// flushEvery is how often LastUsed writes what it noted.
	flushEvery = time.Minute
	// lastFlush bounds the writes when the process ends.
	lastFlush = 5 * time.Second
	// mostUsed is how many keys LastUsed remembers between two flushes.
	mostUsed = 10000
)

// LastUsed writes into the status of ApiKeys when they were last used, to the hour: at most
// one write an hour for each key, over all replicas, and none while a request waits. What
// cannot be remembered or written is left out: the next use tells it again. Make one with
// NewLastUsed, and run Start.
type LastUsed struct {
	client client.Client
	every  time.Duration

	mu   sync.Mutex
	used map[client.ObjectKey]time.Time
}

// NewLastUsed returns a LastUsed that reads from the client's cache and writes with it.
func NewLastUsed(c client.Client) *LastUsed {
	return &LastUsed{client: c, every: flushEvery, used: map[client.ObjectKey]time.Time{}}
}

// Note notes that a key was used now. It never blocks on a request.
func (l *LastUsed) Note(k *v1alpha1.ApiKey, now time.Time) {
	hour := now.Truncate(time.Hour)
	if told(k, hour) {
		return
	}
	l.note(client.ObjectKeyFromObject(k), hour)
}

func (l *LastUsed) note(name client.ObjectKey, hour time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if known, ok := l.used[name]; !ok && len(l.used) >= mostUsed || known.After(hour) {
		return
	}
	l.used[name] = hour
}

// told tells whether the status says already that the key was used in that hour or later.
func told(k *v1alpha1.ApiKey, hour time.Time) bool {
	return k.Status.LastUsedTime != nil && !k.Status.LastUsedTime.Time.Before(hour)
}

// Start writes what was noted every minute until the context ends, and once more then. It
// implements manager.Runnable and returns nil.
func (l *LastUsed) Start(ctx context.Context) error {
	ticker := time.NewTicker(l.every)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			l.flush(ctx)
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastFlush)
			defer cancel()
			l.flush(last)
			return nil
		}
	}
}

// NeedLeaderElection says that every replica writes what it saw.
func (*LastUsed) NeedLeaderElection() bool { return false }

// flush writes what was noted. What could not be written is noted again.
func (l *LastUsed) flush(ctx context.Context) {
	l.mu.Lock()
	used := l.used
	l.used = map[client.ObjectKey]time.Time{}
	l.mu.Unlock()
	for name, hour := range used {
		err := l.write(ctx, name, hour)
		if err == nil {
			continue
		}
		if !apierrors.IsConflict(err) {
			log.FromContext(ctx).Error(err, "Cannot write when an API key was last used", "apiKey", name)
		}
		l.note(name, hour)
	}
}

// write is refused with a conflict when the cache is behind, as it is after a write of
// another replica.
func (l *LastUsed) write(ctx context.Context, name client.ObjectKey, hour time.Time) error {
	k := &v1alpha1.ApiKey{}
	if err := l.client.Get(ctx, name, k); err != nil {
		return client.IgnoreNotFound(err)
	}
	if told(k, hour) {
		return nil
	}
	before := k.DeepCopy()
	k.Status.LastUsedTime = &metav1.Time{Time: hour}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := l.client.Status().Patch(ctx, k, patch); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("patch status of ApiKey %s: %w", name, err)
	}
	return nil
}
