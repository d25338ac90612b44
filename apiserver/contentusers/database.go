package contentusers

import (
	"context"
	"errors"

	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/subject"
	"github.com/quoin-dev/quoin/internal/store"
)

// Guard returns a database for the content of REST requests. The user of a request is admitted before anything is read, and is
// still admitted when a change is committed.
func (s *Service) Guard(db content.Database) content.Database { return &guarded{db, s} }

type guarded struct {
	content.Database
	service *Service
}

// callerOf returns the user of a request; nil for another principal.
func callerOf(ctx context.Context) *subject.User {
	scope := rest.ScopeFrom(ctx)
	if scope == nil || scope.Principal == nil || scope.Principal.User == "" {
		return nil
	}
	return &subject.User{Name: scope.Principal.User, UID: scope.Principal.UserUID}
}

// Read implements content.Database.
func (g *guarded) Read(ctx context.Context, work func(q store.Querier) error) error {
	if user := callerOf(ctx); user != nil {
		if err := g.service.Admit(ctx, rest.ScopeFrom(ctx).Account, *user); err != nil {
			return err
		}
	}
	return g.Database.Read(ctx, work)
}

// Tx implements content.Database.
func (g *guarded) Tx(ctx context.Context, work func(tx *store.Tx) error) error {
	return g.transact(ctx, g.Database.Tx, work)
}

// TxAsync implements content.Database.
func (g *guarded) TxAsync(ctx context.Context, work func(tx *store.Tx) error) error {
	return g.transact(ctx, g.Database.TxAsync, work)
}

func (g *guarded) transact(ctx context.Context, transact func(context.Context, func(*store.Tx) error) error, work func(tx *store.Tx) error) error {
	user := callerOf(ctx)
	if user == nil {
		return transact(ctx, work)
	}
	account := rest.ScopeFrom(ctx).Account
	for try := 1; ; try++ {
		if err := g.service.Admit(ctx, account, *user); err != nil {
			return err
		}
		err := transact(ctx, func(tx *store.Tx) error {
			if err := work(tx); err != nil {
				return err
			}
			return subject.Confirm(ctx, tx, stored(account), *user)
		})
		if !errors.Is(err, subject.ErrUnknown) || try == 2 {
			return err
		}
		g.service.forget(account, *user) // another replica has handed over the content under the name
	}
}
