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
	// flushEvery is the interval at which LastUsed writes.
	flushEvery = time.Minute
	// lastFlush is the timeout for the writes at shutdown.
	lastFlush = 5 * time.Second
	// maxUsed is the maximum number of keys between two writes.
	maxUsed = 10000
)

// LastUsed writes the time of the last use of ApiKeys to their status, to the hour: at most one write
// per key and hour over all replicas, in the background. It is best-effort: a use that is not
// recorded is recorded with the next one. Create it with NewLastUsed and run Start.
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

// Note records that a key was used now. It does not block on writes.
func (l *LastUsed) Note(k *v1alpha1.ApiKey, now time.Time) {
	hour := now.Truncate(time.Hour)
	if recorded(k, hour) {
		return
	}
	l.note(client.ObjectKeyFromObject(k), hour)
}

func (l *LastUsed) note(name client.ObjectKey, hour time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if known, ok := l.used[name]; !ok && len(l.used) >= maxUsed || known.After(hour) {
		return
	}
	l.used[name] = hour
}

// recorded reports whether the status has a use of the key in that hour or later.
func recorded(k *v1alpha1.ApiKey, hour time.Time) bool {
	return k.Status.LastUsedTime != nil && !k.Status.LastUsedTime.Time.Before(hour)
}

// Start writes every minute until the context ends, and once more then. It implements
// manager.Runnable and returns nil.
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

// NeedLeaderElection returns false: every replica writes the uses that it observed.
func (*LastUsed) NeedLeaderElection() bool { return false }

// flush writes the recorded uses and keeps those that could not be written.
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

// write returns a conflict if the cache is stale, as it is after a write of another replica.
func (l *LastUsed) write(ctx context.Context, name client.ObjectKey, hour time.Time) error {
	k := &v1alpha1.ApiKey{}
	if err := l.client.Get(ctx, name, k); err != nil {
		return client.IgnoreNotFound(err)
	}
	if recorded(k, hour) {
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
