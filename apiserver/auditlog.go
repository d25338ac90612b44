package apiserver

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"sync/atomic"
	"time"

	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/recording"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/serving"
	"github.com/quoin-dev/quoin/internal/store"
)

// auditLog is the audit log of all accounts, also before its database could be opened: a front end
// that starts while the database is away answers what changes nothing.
type auditLog struct {
	url    string
	reader client.Reader
	log    *slog.Logger
	opened atomic.Pointer[audit.Log]
}

// runAuditLog keeps the audit log in the background, with what the controllers roll in it.
func runAuditLog(k8s cluster.Cluster, c Config, deployments toolscache.SharedIndexInformer, background *serving.Background) *auditLog {
	events := &auditLog{url: c.DatabaseURL, reader: k8s.GetCache(), log: c.Log}
	background.Run("audit log", events.run)
	versions := &recording.Versions{Log: events, Deployments: deployments, Reader: k8s.GetCache(), Now: time.Now}
	background.Run("versions", versions.Start)
	return events
}

var (
	_ recording.Log = &auditLog{}
	_ rest.AuditLog = &auditLog{}
)

// How often the database is tried again, and events are looked over whether they are kept.
const (
	openAgain   = 3 * time.Second
	retainAgain = 10 * time.Minute
)

// run opens the database, for as long as that takes, and keeps the log in order until the context
// ends. Its end is what cannot be mended by waiting, such as a database of a newer Quoin.
func (l *auditLog) run(ctx context.Context) error {
	for {
		err := l.open(ctx)
		if err == nil || ctx.Err() != nil || errors.Is(err, store.ErrNewer) {
			return err
		}
		l.log.Error("The database does not open; changes of accounts with an audit log are refused meanwhile", "err", err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(openAgain):
		}
	}
}

// open serves events until the context ends.
func (l *auditLog) open(ctx context.Context) error {
	content, err := store.Open(ctx, l.url, l.log)
	if err != nil {
		return err
	}
	events := audit.NewLog(content, audit.Options{Log: l.log})
	l.opened.Store(events)
	err = events.RunRetention(ctx, retainAgain, l.limits(ctx))
	// Requests that are being answered end with an error from here on: their changes were waited for.
	l.opened.Store(nil)
	events.Close()
	return errors.Join(err, content.Close())
}

// limits are what an account's events are kept for; those of an account that is gone, as long as
// usual.
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

// now is the log, when its database is open.
func (l *auditLog) now() (*audit.Log, error) {
	if opened := l.opened.Load(); opened != nil {
		return opened, nil
	}
	return nil, fmt.Errorf("%w: its database is not open", audit.ErrUnavailable)
}

// Begin implements recording.Log.
func (l *auditLog) Begin(ctx context.Context, e audit.Event) (*audit.Attempt, error) {
	log, err := l.now()
	if err != nil {
		return nil, err
	}
	return log.Begin(ctx, e)
}

// Record implements recording.Log.
func (l *auditLog) Record(ctx context.Context, events ...audit.Event) error {
	log, err := l.now()
	if err != nil {
		return err
	}
	return log.Record(ctx, events...)
}

// Query implements rest.AuditLog.
func (l *auditLog) Query(ctx context.Context, f audit.Filter) (iter.Seq2[audit.Event, error], error) {
	log, err := l.now()
	if err != nil {
		return nil, err
	}
	return log.Query(ctx, f)
}
