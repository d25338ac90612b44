package audit

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/quoin-dev/quoin/internal/store"
)

// Identify adds to the event of a creation what is known only later: the ids of the object. It has no effect if
// the event is not stored or has an object with an id.
func (l *Log) Identify(ctx context.Context, account string, id uuid.UUID, object Object, deployment Deployment) error {
	err := l.store.Tx(ctx, func(tx *store.Tx) error { return identify(ctx, tx, account, id, object, deployment) })
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return err
}

func identify(ctx context.Context, tx *store.Tx, account string, id uuid.UUID, object Object, deployment Deployment) error {
	e, err := unidentified(ctx, tx, account, id)
	if e == nil || err != nil {
		return err
	}
	e.Object, e.Deployment = object, deployment
	prepared, err := e.prepare(e.Time)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, "UPDATE audit_event SET object_id = $1, deployment_id = $2, deployment_name = $3, words = $4 WHERE id = $5 AND object_id = ''",
		prepared.Object.ID, prepared.Deployment.ID, prepared.Deployment.Name, prepared.indexed(), id.String())
	return err
}

// unidentified returns the stored event if its object has no id, otherwise nil.
func unidentified(ctx context.Context, tx *store.Tx, account string, id uuid.UUID) (e *Event, err error) {
	rows, err := tx.QueryContext(ctx, "SELECT "+selected+" FROM audit_event WHERE id = $1 AND account = $2 AND object_id = ''", id.String(), account)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	if rows.Next() {
		e = &Event{}
		if err := e.scan(rows); err != nil {
			return nil, err
		}
	}
	return e, rows.Err()
}
