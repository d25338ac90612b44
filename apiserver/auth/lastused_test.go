package auth

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

// used is a LastUsed with a client that counts writes and returns fail for them unless it is nil.
type used struct {
	*LastUsed
	t      *testing.T
	writes int
	fail   error
}

func newUsed(t *testing.T, objs ...client.Object) *used {
	u := &used{t: t}
	u.LastUsed = NewLastUsed(interceptor.NewClient(indexed(t, objs...), interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			u.writes++
			if u.fail != nil {
				return u.fail
			}
			return c.SubResource(sub).Patch(ctx, obj, patch, opts...)
		},
	}))
	return u
}

func (u *used) get() *v1alpha1.ApiKey {
	u.t.Helper()
	k := &v1alpha1.ApiKey{}
	if err := u.client.Get(u.t.Context(), client.ObjectKey{Namespace: "acme-ns", Name: "etl"}, k); err != nil {
		u.t.Fatal(err)
	}
	return k
}

func TestLastUsed(t *testing.T) {
	u := newUsed(t, etl(newToken(t)))
	before := u.get()
	for i, step := range []struct {
		after  time.Duration
		writes int
		hour   int
	}{
		{0, 1, 12}, {time.Minute, 1, 12}, {29 * time.Minute, 1, 12}, {30 * time.Minute, 2, 13}, {-time.Hour, 2, 13}, {2 * time.Hour, 3, 14},
	} {
		key := u.get()
		if i == 1 {
			key = before // the cache is stale
		}
		for range 100 {
			u.Note(key, now.Add(step.after))
		}
		u.flush(t.Context())
		u.flush(t.Context())
		want := time.Date(2026, 1, 1, step.hour, 0, 0, 0, time.UTC)
		if got := u.get().Status.LastUsedTime; u.writes != step.writes || got == nil || !got.Time.Equal(want) {
			t.Errorf("step %d: %v after %d writes", i, got, u.writes)
		}
	}
}

// TestLastUsedOfTwoReplicas: a time that one replica has written is not written by the other.
func TestLastUsedOfTwoReplicas(t *testing.T) {
	u := newUsed(t, etl(newToken(t)))
	u.Note(u.get(), now)
	k := u.get()
	k.Status.LastUsedTime = &metav1.Time{Time: now.Truncate(time.Hour)}
	if err := u.client.Status().Update(t.Context(), k); err != nil {
		t.Fatal(err)
	}
	u.flush(t.Context())
	if u.writes != 0 {
		t.Errorf("%d writes", u.writes)
	}
}

func TestLastUsedRetriesFailedWrites(t *testing.T) {
	u := newUsed(t, etl(newToken(t)))
	u.fail = errors.New("connection refused")
	u.Note(u.get(), now)
	u.flush(t.Context())
	u.fail = nil
	u.flush(t.Context())
	if u.get().Status.LastUsedTime == nil || len(u.used) != 0 {
		t.Errorf("%v is pending, status %v", u.used, u.get().Status)
	}
	gone := etl(newToken(t))
	gone.Name = "gone"
	u.Note(gone, now)
	u.flush(t.Context())
	if len(u.LastUsed.used) != 0 {
		t.Errorf("%v is pending", u.LastUsed.used)
	}
}

func TestLastUsedIsBounded(t *testing.T) {
	u := newUsed(t)
	for i := range 2 * maxUsed {
		u.note(client.ObjectKey{Name: fmt.Sprint(i)}, now)
	}
	if len(u.used) != maxUsed {
		t.Errorf("%d keys are pending", len(u.used))
	}
}

// TestLastUsedStart: times are written at intervals, and once more when the context ends.
func TestLastUsedStart(t *testing.T) {
	for name, every := range map[string]time.Duration{"at intervals": time.Millisecond, "at the end": time.Hour} {
		t.Run(name, func(t *testing.T) {
			u := newUsed(t, etl(newToken(t)))
			u.every = every
			u.Note(u.get(), now)
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error)
			go func() { done <- u.Start(ctx) }()
			for deadline := time.Now().Add(10 * time.Second); every < time.Second && u.get().Status.LastUsedTime == nil && time.Now().Before(deadline); {
				time.Sleep(time.Millisecond)
			}
			if early := u.get().Status.LastUsedTime; (early != nil) != (every < time.Second) {
				t.Errorf("before the end: %v", early)
			}
			cancel()
			if err := <-done; err != nil || u.get().Status.LastUsedTime == nil {
				t.Errorf("got %v, %v", err, u.get().Status.LastUsedTime)
			}
		})
	}
}
