package evaluation

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/store"
)

const columns = "id, kind, agent_id, owner, caller, request, state, failure, total, passed, failed, for_review, errors, started_at, ended_at"

type scanner interface{ Scan(values ...any) error }

func scan(row scanner, e *Evaluation) error {
	var request string
	var begun, end int64
	c := &e.Counts
	if err := row.Scan(&e.ID, &e.Kind, &e.Agent, &e.Owner, &e.Caller, &request, &e.State, &e.Failure, &e.Total,
		&c.Pass, &c.Fail, &c.Review, &c.Errors, &begun, &end); err != nil {
		return err
	}
	e.Request, e.StartedAt, e.EndedAt = []byte(request), timeOf(begun), timeOf(end)
	return nil
}

func timeOf(micro int64) time.Time {
	if micro == 0 {
		return time.Time{}
	}
	return time.UnixMicro(micro).UTC()
}

func find(ctx context.Context, q store.Querier, s content.Scope, id int64) (*Evaluation, error) {
	const query = "SELECT " + columns + " FROM evaluation WHERE account_uid = $1 AND deployment_uid = $2 AND id = $3"
	e := &Evaluation{}
	err := scan(q.QueryRowContext(ctx, query, s.Account.UID, s.Deployment.UID, id), e)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, ErrUnknown
	}
	return e, err
}

// Find returns an evaluation. The error is ErrUnknown if there is none.
func (e *Evaluations) Find(ctx context.Context, s content.Scope, id int64) (found *Evaluation, err error) {
	err = e.DB.Read(ctx, func(q store.Querier) error {
		found, err = find(ctx, q, s, id)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("find an evaluation: %w", err)
	}
	return found, nil
}

// List returns a page of the evaluations of a deployment, the newest first; after is the number of the last one of the page before,
// 0 for the first page.
func (e *Evaluations) List(ctx context.Context, s content.Scope, after int64, limit int) (page store.Page[Evaluation], err error) {
	list := store.List[Evaluation]{
		Columns: columns, From: "evaluation WHERE account_uid = $1 AND deployment_uid = $2", Args: []any{s.Account.UID, s.Deployment.UID},
		Order: []string{"id"}, Descending: true,
		Scan: func(row *sql.Rows, item *Evaluation) error { return scan(row, item) },
		Key:  func(item *Evaluation) []any { return []any{item.ID} },
	}
	err = e.DB.Read(ctx, func(q store.Querier) error {
		page, err = list.Read(ctx, q, request(after, limit))
		return err
	})
	if err != nil {
		return page, fmt.Errorf("list evaluations: %w", err)
	}
	return page, nil
}

func request(after int64, limit int) store.PageRequest {
	r := store.PageRequest{Limit: limit}
	if after != 0 {
		r.After = []any{after}
	}
	return r
}

// Results returns a page of the results of an evaluation, by number; after is the last one of the page before, 0 for the first page.
// While the evaluation is in progress, results can be added anywhere.
func (e *Evaluations) Results(ctx context.Context, s content.Scope, id int64, after, limit int) (page store.Page[Result], err error) {
	list := store.List[Result]{
		Columns: "number, verdict, body", From: "evaluation_result WHERE account_uid = $1 AND deployment_uid = $2 AND evaluation_id = $3",
		Args: []any{s.Account.UID, s.Deployment.UID, id}, Order: []string{"number"},
		Scan: func(row *sql.Rows, item *Result) error {
			return row.Scan(&item.Number, &item.Verdict, (*[]byte)(&item.Body))
		},
		Key: func(item *Result) []any { return []any{item.Number} },
	}
	err = e.DB.Read(ctx, func(q store.Querier) error {
		page, err = list.Read(ctx, q, request(int64(after), limit))
		return err
	})
	if err != nil {
		return page, fmt.Errorf("list results of an evaluation: %w", err)
	}
	return page, nil
}
