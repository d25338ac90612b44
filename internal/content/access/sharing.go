package access

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/subject"
	"github.com/quoin-dev/quoin/internal/store"
)

// Names of events.
var (
	grantedAccess = audit.Declare("Granted access")
	revokedAccess = audit.Declare("Revoked access")
)

// Sharing shows and changes the grants on objects.
type Sharing struct {
	DB     content.Database
	Record content.Record
	// GroupIsGone reports whether a group of the account of the request was deleted; nil for never. uid is empty for any group of the name.
	GroupIsGone func(ctx context.Context, group, uid string) (bool, error)
	// Now is the clock; time.Now if nil.
	Now func() time.Time
}

// To is whom a level is granted to.
type To struct {
	// Subject is User(name), Group(name) or Everyone.
	Subject string
	// User is the user, if it is one, of whom the grant is then: another user of the same name does not have it.
	User *subject.User
	// GroupUID is the UID of the group, if it is one, for the same reason.
	GroupUID string
}

// DeploymentUID returns the UID of the deployment of an object of an account.
func (g *Sharing) DeploymentUID(ctx context.Context, a store.Account, o Object) (uid string, err error) {
	err = g.DB.Read(ctx, func(q store.Querier) error {
		err := q.QueryRowContext(ctx, "SELECT deployment_uid FROM "+tables[o.Kind]+" WHERE account_uid = $1 AND id = $2", a.UID, o.ID).Scan(&uid)
		if errors.Is(err, sql.ErrNoRows) {
			return NotFound(o)
		}
		if err != nil {
			return fmt.Errorf("read %s %d: %w", o.Kind, o.ID, err)
		}
		return nil
	})
	return uid, err
}

// Grants returns who has a level on an object, as the function Grants. The caller needs the level manage.
func (g *Sharing) Grants(ctx context.Context, s content.Scope, by Caller, o Object) (out []Grant, err error) {
	err = g.DB.Read(ctx, func(q store.Querier) error {
		out, err = shared(ctx, q, s, by, o)
		return err
	})
	return out, err
}

// shared returns the grants on an object that exists. The caller needs the level manage.
func shared(ctx context.Context, q store.Querier, s content.Scope, by Caller, o Object) ([]Grant, error) {
	all, err := Grants(ctx, q, s, o)
	if err == nil && len(all) == 0 {
		err = NotFound(o)
	}
	if err == nil {
		err = Require(ctx, q, s, by.Access, o, Manage)
	}
	return all, err
}

// Set grants a level on an object, or revokes what was granted if it is None. It returns the grants, as the function Grants. The same
// again changes nothing. If the object can have no other grant, those to deleted groups are removed first. The caller needs the level
// manage.
func (g *Sharing) Set(ctx context.Context, s content.Scope, by Caller, o Object, to To, level Level) ([]Grant, error) {
	out, err := g.set(ctx, s, by, o, to, level)
	var full tooManyError
	if !errors.As(err, &full) {
		return out, err
	}
	// The groups are looked up between two transactions, so that no lock is held meanwhile.
	if removed, failure := g.removeGone(ctx, s, o); failure != nil || !removed {
		return nil, cmp.Or(failure, err)
	}
	return g.set(ctx, s, by, o, to, level)
}

// set is Set, which is an error if the object can have no other grant.
func (g *Sharing) set(ctx context.Context, s content.Scope, by Caller, o Object, to To, level Level) (out []Grant, err error) {
	now := time.Now
	if g.Now != nil {
		now = g.Now
	}
	err = g.DB.Tx(ctx, func(tx *store.Tx) error {
		if err := tx.LockDeployment(ctx, s.Account, s.Deployment); err != nil {
			return err
		}
		all, err := shared(ctx, tx, s, by, o)
		if err != nil {
			return err
		}
		if to.User != nil && level != None {
			// Even if the level does not change: the existing grant may be that of a deleted user of the same name, and is then
			// removed with the content of that user.
			if err := g.use(ctx, tx, s, *to.User); err != nil {
				return err
			}
		}
		before, err := Set(ctx, tx, s, Grant{Object: o, Subject: to.Subject, GroupUID: to.GroupUID, Level: level, CreatedAt: now().UTC(), CreatedBy: by.Principal})
		if err != nil {
			return err
		}
		if level == before {
			out = all
			return nil
		}
		if err := g.record(ctx, tx, all[0], to, before, level); err != nil {
			return err
		}
		out, err = Grants(ctx, tx, s, o)
		return err
	})
	return out, err
}

// use records the user of a grant. It is a conflict while the content of a deleted user of the name is not handed over.
func (g *Sharing) use(ctx context.Context, tx *store.Tx, s content.Scope, user subject.User) error {
	err := (&subject.Users{Now: g.Now}).UseTx(ctx, tx, s.Account, user)
	if errors.Is(err, subject.ErrOther) || errors.Is(err, subject.ErrGone) {
		return content.Errorf(content.Conflict, "userId: %v: try again later", err)
	}
	return err
}

// record stores the event of a change; first is the first grant on the object.
func (g *Sharing) record(ctx context.Context, tx *store.Tx, first Grant, to To, before, after Level) error {
	fields := func(l Level) map[string]any {
		if l == None {
			return nil
		}
		return map[string]any{to.Subject: l.String()}
	}
	name := grantedAccess
	if after == None {
		name = revokedAccess
	}
	object := audit.Object{Kind: string(first.Kind), Name: first.Name, ID: strconv.FormatInt(first.ID, 10)}
	return g.Record.Change(ctx, tx, name, object, fields(before), fields(after))
}
