// Package contentusers hands the content of users who were deleted over to the administrators of their account, and keeps users apart
// who have the same name one after the other (docs/decisions/0091). Package subject has the users and their content.
//
//	contentusers.go  which users may act, and the worker
//	database.go      the content database of REST requests
package contentusers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/recording"
	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/subject"
	"github.com/quoin-dev/quoin/internal/store"
	"github.com/quoin-dev/quoin/internal/tenant"
)

// +kubebuilder:rbac:groups=platform.quoin.dev,resources=scimusers,verbs=get

const (
	// sweepInterval is the time between two looks for users who were deleted. Deletions are observed at once; this finds what was
	// missed while no replica ran.
	sweepInterval = 10 * time.Minute
	// page is the number of users that are read at a time.
	page = 500
	// maxAdmitted bounds the memory for users who may act.
	maxAdmitted = 100_000
	// releaseTimeout is the time for which a request waits for the content of a deleted user of the same name.
	releaseTimeout = 10 * time.Second
)

// Options configure a Service.
type Options struct {
	Users *subject.Users
	// Cache has Accounts, with the index tenant.IndexNamespace, and ScimUsers.
	Cache client.Reader
	// Live reads ScimUsers from the Kubernetes API server.
	Live client.Reader
	Log  *slog.Logger
}

// Service has the users of content. Create it with New.
type Service struct {
	Options
	wake chan struct{}

	mu sync.Mutex
	// left are users who were deleted since the last round, by namespace and name.
	left map[client.ObjectKey]struct{}
	// admitted has the UID of the user who may act under a name.
	admitted map[admittedKey]string
}

// admittedKey is an account and a name of a user.
type admittedKey struct{ accountUID, name string }

// New returns a Service.
func New(o Options) *Service {
	return &Service{Options: o, wake: make(chan struct{}, 1), left: map[client.ObjectKey]struct{}{}, admitted: map[admittedKey]string{}}
}

// stored returns an account as the database has it.
func stored(a *v1alpha1.Account) store.Account {
	return store.Account{UID: string(a.UID), Name: a.Name}
}

// Admit returns nil if a user may use content. The content of a deleted user of the same name is handed over before.
func (s *Service) Admit(ctx context.Context, a *v1alpha1.Account, user subject.User) error {
	key := admittedKey{string(a.UID), user.Name}
	s.mu.Lock()
	uid := s.admitted[key]
	s.mu.Unlock()
	if uid == user.UID {
		return nil
	}
	err := s.Users.Use(ctx, stored(a), user)
	if errors.Is(err, subject.ErrOther) {
		err = s.replace(ctx, a, user)
	}
	if errors.Is(err, subject.ErrGone) {
		return content.Errorf(content.Forbidden, "the user was deleted")
	}
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.admitted) >= maxAdmitted {
		clear(s.admitted)
	}
	s.admitted[key] = user.UID
	return nil
}

// forget makes the next Admit of a user read the database.
func (s *Service) forget(a *v1alpha1.Account, user subject.User) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.admitted, admittedKey{string(a.UID), user.Name})
}

// replace hands over the content of the deleted user whose name a user has, and records the user.
func (s *Service) replace(ctx context.Context, a *v1alpha1.Account, user subject.User) error {
	// Without this, a replica whose cache is behind would hand over the content of the new user.
	uid, err := s.liveUID(ctx, client.ObjectKey{Namespace: a.Spec.Namespace, Name: user.Name})
	if err != nil {
		return err
	}
	if uid != user.UID {
		return subject.ErrGone
	}
	ctx, cancel := context.WithTimeout(ctx, releaseTimeout)
	defer cancel()
	previous, err := s.Users.Find(ctx, stored(a), user.Name)
	if err == nil && previous != nil && previous.UID != user.UID {
		err = s.release(ctx, a, previous.User)
	}
	if err == nil {
		err = s.Users.Use(ctx, stored(a), user)
	}
	if ctx.Err() != nil {
		s.Left(client.ObjectKey{Namespace: a.Spec.Namespace, Name: user.Name})
		return content.Errorf(content.Unavailable, "the content of a deleted user of the same name is being handed over to the administrators; try again later")
	}
	return err
}

// release hands over the content of a user who was deleted.
func (s *Service) release(ctx context.Context, a *v1alpha1.Account, user subject.User) error {
	record := func(ctx context.Context, tx *store.Tx, e audit.Event) error {
		if !recording.IsOn(a) {
			return nil
		}
		e.Account, e.Source, e.Actor = a.Name, audit.SourceController, audit.Actor{Kind: audit.ActorSystem, ID: "quoin-apiserver"}
		return audit.RecordTx(ctx, tx, e)
	}
	return s.Users.Release(ctx, stored(a), user, record)
}

// liveUID returns the UID of a ScimUser, empty if there is none, from the Kubernetes API server.
func (s *Service) liveUID(ctx context.Context, key client.ObjectKey) (string, error) {
	live := &metav1.PartialObjectMetadata{}
	live.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("ScimUser"))
	err := s.Live.Get(ctx, key, live)
	// A 404 with an unexpected body means that the kind is not served, not that the object is absent.
	if apierrors.IsNotFound(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read user %q: %w", key.Name, err)
	}
	return string(live.UID), nil
}

// Left makes Run hand over the content of a ScimUser that was deleted.
func (s *Service) Left(user client.ObjectKey) {
	s.mu.Lock()
	s.left[user] = struct{}{}
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Run hands over the content of users who were deleted until the context ends. Every replica may run it.
func (s *Service) Run(ctx context.Context) error {
	ticker := time.NewTicker(sweepInterval)
	defer ticker.Stop()
	work := s.Sweep
	for {
		if err := work(ctx); err != nil && ctx.Err() == nil {
			s.Log.ErrorContext(ctx, "Cannot hand over the content of deleted users", "error", err.Error())
		}
		select {
		case <-ctx.Done():
			return nil
		case <-s.wake:
			work = s.releaseObserved
		case <-ticker.C:
			work = s.Sweep
		}
	}
}

// releaseObserved hands over the content of users whose deletion was observed. What fails is done by Sweep.
func (s *Service) releaseObserved(ctx context.Context) error {
	s.mu.Lock()
	left := s.left
	s.left = map[client.ObjectKey]struct{}{}
	s.mu.Unlock()
	var failures []error
	for key := range left {
		a, err := tenant.Of(ctx, s.Cache, key.Namespace)
		if errors.Is(err, tenant.ErrNoAccount) {
			continue // its rows are purged
		}
		var known *subject.Recorded
		if err == nil {
			known, err = s.Users.Find(ctx, stored(a), key.Name)
		}
		if err == nil && known != nil {
			err = s.check(ctx, a, *known)
		}
		failures = append(failures, err)
	}
	return errors.Join(failures...)
}

// Sweep hands over the content of all users who were deleted. The failure of one does not keep the content of others.
func (s *Service) Sweep(ctx context.Context) error {
	var failures []error
	for after := (subject.Recorded{}); ; {
		all, err := s.Users.List(ctx, after, page)
		if err != nil {
			return errors.Join(append(failures, err)...)
		}
		for _, known := range all {
			a := &v1alpha1.Account{}
			if err := s.Cache.Get(ctx, client.ObjectKey{Name: known.Account.Name}, a); err != nil || string(a.UID) != known.Account.UID {
				continue // its rows are purged
			}
			failures = append(failures, s.check(ctx, a, known))
		}
		if len(all) < page || ctx.Err() != nil {
			return errors.Join(failures...)
		}
		after = all[len(all)-1]
	}
}

// check hands over the content of a user unless the user exists. One in the cache exists; absence is confirmed by the Kubernetes API
// server, so an empty cache hands over nothing. The users of an account that is being deleted are deleted with it: their content
// is purged with that of the account.
func (s *Service) check(ctx context.Context, a *v1alpha1.Account, known subject.Recorded) error {
	if !a.DeletionTimestamp.IsZero() {
		return nil
	}
	if !known.Gone {
		key, cached := client.ObjectKey{Namespace: a.Spec.Namespace, Name: known.Name}, &v1alpha1.ScimUser{}
		if err := s.Cache.Get(ctx, key, cached); err == nil && isOf(string(cached.UID), known) {
			return nil
		}
		uid, err := s.liveUID(ctx, key)
		if err != nil || uid != "" && isOf(uid, known) {
			return err
		}
	}
	return s.release(ctx, a, known.User)
}

// isOf reports whether a UID is that of a recorded user, or of the user who becomes the recorded one.
func isOf(uid string, known subject.Recorded) bool { return known.UID == "" || uid == known.UID }
