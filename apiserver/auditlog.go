package apiserver

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/recording"
	"github.com/quoin-dev/quoin/apiserver/rest/tenant"
	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/store"
)

// auditLog is the audit log of all accounts. While the database is not open it returns
// audit.ErrUnavailable, so that requests that change nothing are still answered.
type auditLog struct {
	reader client.Reader
	log    *slog.Logger
	// onOpen is called when the log is open; it may be nil.
	onOpen func()
	opened atomic.Pointer[audit.Log]
}

var (
	_ recording.Log   = &auditLog{}
	_ tenant.AuditLog = &auditLog{}
)

// retentionInterval is the time between two runs of retention.
const retentionInterval = 10 * time.Minute

// run is a job of the database that others need: it serves the log of an open store until the context ends.
func (l *auditLog) run(ctx context.Context, s *store.Store) error {
	events := audit.NewLog(s, audit.Options{Log: l.log})
	l.opened.Store(events)
	if l.onOpen != nil {
		l.onOpen()
	}
	err := events.RunRetention(ctx, retentionInterval, l.limits(ctx))
	// From here on, requests in progress fail: shutdown has waited for those that change something, and the jobs of the
	// database have ended.
	l.opened.Store(nil)
	events.Close()
	return err
}

// limits returns how long events of an account are kept: the default for a deleted account.
func (l *auditLog) limits(ctx context.Context) func(string) audit.Limits {
	return func(name string) audit.Limits {
		limits := audit.Limits{MaxAge: audit.DefaultMaxAge}
		account := &v1alpha1.Account{}
		if err := l.reader.Get(ctx, client.ObjectKey{Name: name}, account); err != nil || account.Spec.AuditLog == nil {
			return limits
		}
		if days := account.Spec.AuditLog.RetentionDays; days != nil {
			limits.MaxAge = time.Duration(*days) * 24 * time.Hour
		}
		limits.MaxEvents = int(ptr.Deref(account.Spec.AuditLog.MaxEvents, 0))
		return limits
	}
}

// current returns the log, or an error while its database is not open.
func (l *auditLog) current() (*audit.Log, error) {
	if opened := l.opened.Load(); opened != nil {
		return opened, nil
	}
	return nil, fmt.Errorf("%w: its database is not open", audit.ErrUnavailable)
}

// Begin implements recording.Log.
func (l *auditLog) Begin(ctx context.Context, e audit.Event) (*audit.Attempt, error) {
	log, err := l.current()
	if err != nil {
		return nil, err
	}
	return log.Begin(ctx, e)
}

// Record implements recording.Log.
func (l *auditLog) Record(ctx context.Context, events ...audit.Event) error {
	log, err := l.current()
	if err != nil {
		return err
	}
	return log.Record(ctx, events...)
}

// Identify implements recording.Log.
func (l *auditLog) Identify(ctx context.Context, account string, id uuid.UUID, object audit.Object, deployment audit.Deployment) error {
	log, err := l.current()
	if err != nil {
		return err
	}
	return log.Identify(ctx, account, id, object, deployment)
}

// Query implements tenant.AuditLog.
func (l *auditLog) Query(ctx context.Context, f audit.Filter) (iter.Seq2[audit.Event, error], error) {
	log, err := l.current()
	if err != nil {
		return nil, err
	}
	return log.Query(ctx, f)
}
