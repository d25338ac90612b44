package evaluation

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/store"
)

// RunLease is the right to store results of an evaluation, and to end it. It is safe for concurrent use.
type RunLease struct {
	Scope content.Scope
	ID    int64
	Kind  Kind
	Agent int64

	holder string
}

// Start stores an evaluation, leases it, and records the event.
func (e *Evaluations) Start(ctx context.Context, s content.Scope, n New, holder string) (out *Evaluation, lease *RunLease, err error) {
	if err := n.check(); err != nil {
		return nil, nil, err
	}
	err = e.DB.Tx(ctx, func(tx *store.Tx) error {
		if err := tx.LockDeployment(ctx, s.Account, s.Deployment); err != nil {
			return err
		}
		id, err := tx.NextID(ctx, s.Account.UID, "evaluation")
		if err != nil {
			return err
		}
		now := e.now()
		const insert = `INSERT INTO evaluation (account_uid, deployment_uid, id, kind, agent_id, owner, caller, request, state, failure, total, passed, failed, for_review, errors,
				holder, lease_until, cancelled_by, started_at, ended_at)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 'running', '', $9, 0, 0, 0, 0, $10, $11, '', $12, 0)`
		if _, err := tx.ExecContext(ctx, insert, s.Account.UID, s.Deployment.UID, id, string(n.Kind), n.Agent, n.Owner, n.Caller, string(n.Request), n.Total,
			holder, now.Add(Lease).UnixMicro(), now.UnixMicro()); err != nil {
			return err
		}
		out = &Evaluation{New: n, ID: id, State: Running, StartedAt: now}
		lease = &RunLease{Scope: s, ID: id, Kind: n.Kind, Agent: n.Agent, holder: holder}
		details := map[string]any{}
		if err := json.Unmarshal(n.Request, &details); err != nil {
			return err
		}
		maps.Copy(details, map[string]any{"kind": string(n.Kind), "agentId": n.Agent, "owner": n.Owner, "items": n.Total})
		return e.record(ctx, tx, lease, started, details)
	})
	if err != nil {
		return nil, nil, fmt.Errorf("start an evaluation: %w", err)
	}
	return out, lease, nil
}

func (n *New) check() error {
	if n.Total < 1 || n.Total > MaxItems {
		return content.Errorf(content.Conflict, "there are %d questions or messages; allowed: 1 to %d", n.Total, MaxItems)
	}
	for field, value := range map[string]string{"owner": n.Owner, "caller": n.Caller, "request": string(n.Request)} {
		if value == "" || len(value) > maxText || strings.ContainsRune(value, 0) {
			return content.Errorf(content.Invalid, "%s: must have 1 to %d bytes, none of which is 0", field, maxText)
		}
	}
	return nil
}

func (e *Evaluations) record(ctx context.Context, tx *store.Tx, l *RunLease, event string, details map[string]any) error {
	changes, err := audit.DiffJSON(nil, details)
	if err != nil {
		return fmt.Errorf("record %q: %w", event, err)
	}
	id := strconv.FormatInt(l.ID, 10)
	return e.Record(ctx, tx, audit.Event{
		Account: l.Scope.Account.Name, Name: event, Object: audit.Object{Kind: "AgentEvaluation", Namespace: l.Scope.Deployment.Namespace, Name: id, ID: id}, Changes: changes,
	})
}

// holds is the condition of a change by the replica with the lease. Its parameters are the account, the number and the holder.
const holds = " WHERE account_uid = $1 AND id = $2 AND holder = $3 AND state = 'running'"

// Add stores a result and renews the lease. It may be called again with the same result after an error other than ErrLost: it is
// stored once.
func (e *Evaluations) Add(ctx context.Context, l *RunLease, r Result) error {
	if len(r.Body) > MaxBody {
		return fmt.Errorf("result %d of evaluation %d has %d bytes; allowed: %d", r.Number, l.ID, len(r.Body), MaxBody)
	}
	counter, ok := counters[r.Verdict]
	if !ok {
		return fmt.Errorf("result %d of evaluation %d has the verdict %q", r.Number, l.ID, r.Verdict)
	}
	err := e.DB.Tx(ctx, func(tx *store.Tx) error {
		// The row of the evaluation first: its lock orders results and the end.
		if err := e.renew(ctx, tx, l); err != nil {
			return err
		}
		const insert = `INSERT INTO evaluation_result (account_uid, deployment_uid, evaluation_id, number, verdict, body) VALUES ($1, $2, $3, $4, $5, $6)
			ON CONFLICT (account_uid, evaluation_id, number) DO NOTHING`
		result, err := tx.ExecContext(ctx, insert, l.Scope.Account.UID, l.Scope.Deployment.UID, l.ID, r.Number, string(r.Verdict), string(r.Body))
		if err != nil {
			return err
		}
		stored, err := result.RowsAffected()
		if err != nil || stored == 0 {
			return err
		}
		_, err = tx.ExecContext(ctx, "UPDATE evaluation SET "+counter+" = "+counter+" + 1 WHERE account_uid = $1 AND id = $2", l.Scope.Account.UID, l.ID)
		return err
	})
	if err != nil {
		return fmt.Errorf("store a result: %w", err)
	}
	return nil
}

func (e *Evaluations) renew(ctx context.Context, tx *store.Tx, l *RunLease) error {
	const update = "UPDATE evaluation SET lease_until = $4" + holds
	result, err := tx.ExecContext(ctx, update, l.Scope.Account.UID, l.ID, l.holder, e.now().Add(Lease).UnixMicro())
	return lostUnlessChanged(result, err)
}

func lostUnlessChanged(result sql.Result, err error) error {
	if err != nil {
		return err
	}
	n, err := result.RowsAffected()
	if err == nil && n == 0 {
		return ErrLost
	}
	return err
}

// Renew renews the lease. It returns who has cancelled the evaluation; empty if it goes on.
func (e *Evaluations) Renew(ctx context.Context, l *RunLease) (cancelledBy string, err error) {
	err = e.DB.TxAsync(ctx, func(tx *store.Tx) error {
		if err := e.renew(ctx, tx, l); err != nil {
			return err
		}
		return tx.QueryRowContext(ctx, "SELECT cancelled_by FROM evaluation WHERE account_uid = $1 AND id = $2", l.Scope.Account.UID, l.ID).Scan(&cancelledBy)
	})
	if err != nil {
		return "", fmt.Errorf("renew the lease of an evaluation: %w", err)
	}
	return cancelledBy, nil
}

// End ends an evaluation, and records the event. failure is the reason if it has failed, and empty otherwise. It may be called again
// as Add may.
func (e *Evaluations) End(ctx context.Context, l *RunLease, failure string) error {
	state := Completed
	if failure != "" {
		state = Failed
	}
	failure = strings.ToValidUTF8(failure[:min(len(failure), maxText)], "")
	err := e.DB.Tx(ctx, func(tx *store.Tx) error {
		if err := tx.LockDeployment(ctx, l.Scope.Account, l.Scope.Deployment); err != nil {
			return err
		}
		const update = "UPDATE evaluation SET state = $4, failure = $5, ended_at = $6, lease_until = 0" + holds
		result, err := tx.ExecContext(ctx, update, l.Scope.Account.UID, l.ID, l.holder, string(state), failure, e.now().UnixMicro())
		if err := lostUnlessChanged(result, err); err != nil {
			return e.unlessEnded(ctx, tx, l, state, failure, err)
		}
		found, err := find(ctx, tx, l.Scope, l.ID)
		if err != nil {
			return err
		}
		c := found.Counts
		details := map[string]any{
			"kind": string(l.Kind), "agentId": l.Agent, "status": string(state),
			// In a text: a field whose name begins with pass would be masked as a password.
			"verdicts": fmt.Sprintf("%d pass, %d fail, %d review, %d error", c.Pass, c.Fail, c.Review, c.Errors),
		}
		if failure != "" {
			details["reason"] = failure
		}
		return e.record(ctx, tx, l, ended, details)
	})
	if err != nil {
		return fmt.Errorf("end an evaluation: %w", err)
	}
	return nil
}

// unlessEnded returns nil if an earlier call, whose outcome was unknown, has ended the evaluation; otherwise the error.
func (e *Evaluations) unlessEnded(ctx context.Context, tx *store.Tx, l *RunLease, state State, failure string, lost error) error {
	if !errors.Is(lost, ErrLost) {
		return lost
	}
	found, err := find(ctx, tx, l.Scope, l.ID)
	switch {
	case errors.Is(err, ErrUnknown), err == nil && (found.State != state || found.Failure != failure):
		return lost
	}
	return err
}

// Cancel requests the end of an evaluation by a caller. The replica that works on it learns of the request when it renews the lease.
// The errors are ErrUnknown and ErrEnded.
func (e *Evaluations) Cancel(ctx context.Context, s content.Scope, id int64, caller string) error {
	err := e.DB.Tx(ctx, func(tx *store.Tx) error {
		if err := tx.LockDeployment(ctx, s.Account, s.Deployment); err != nil {
			return err
		}
		found, err := find(ctx, tx, s, id)
		switch {
		case err != nil:
			return err
		case found.State != Running:
			return ErrEnded
		}
		const update = `UPDATE evaluation SET cancelled_by = $4 WHERE account_uid = $1 AND deployment_uid = $2 AND id = $3 AND state = 'running' AND cancelled_by = ''`
		_, err = tx.ExecContext(ctx, update, s.Account.UID, s.Deployment.UID, id, caller)
		return err
	})
	if err != nil {
		return fmt.Errorf("cancel an evaluation: %w", err)
	}
	return nil
}

// TakeOver leases evaluations whose leases have expired, of all accounts: their replicas were killed. The caller ends them.
func (e *Evaluations) TakeOver(ctx context.Context, limit int, holder string) (out []*RunLease, err error) {
	var all []*RunLease
	now := e.now()
	err = e.DB.Read(ctx, func(q store.Querier) error {
		all = nil
		const query = `SELECT a.uid, a.name, d.uid, d.namespace, d.name, e.id, e.kind, e.agent_id FROM evaluation e
			JOIN account a ON a.uid = e.account_uid JOIN deployment d ON d.uid = e.deployment_uid
			WHERE e.lease_until > 0 AND e.lease_until <= $1 ORDER BY e.lease_until LIMIT $2`
		rows, err := q.QueryContext(ctx, query, now.UnixMicro(), limit)
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }()
		for rows.Next() {
			l := &RunLease{holder: holder}
			a, d := &l.Scope.Account, &l.Scope.Deployment
			if err := rows.Scan(&a.UID, &a.Name, &d.UID, &d.Namespace, &d.Name, &l.ID, &l.Kind, &l.Agent); err != nil {
				return err
			}
			all = append(all, l)
		}
		return rows.Err()
	})
	for i := 0; i < len(all) && err == nil; i++ {
		err = e.takeOver(ctx, all[i], now)
		switch {
		case errors.Is(err, ErrLost): // another replica has
			err = nil
		case err == nil:
			out = append(out, all[i])
		}
	}
	if err != nil {
		return out, fmt.Errorf("take over evaluations: %w", err)
	}
	return out, nil
}

// takeOver leases an evaluation.
func (e *Evaluations) takeOver(ctx context.Context, l *RunLease, now time.Time) error {
	return e.DB.Tx(ctx, func(tx *store.Tx) error {
		const update = "UPDATE evaluation SET holder = $3, lease_until = $4 WHERE account_uid = $1 AND id = $2 AND lease_until > 0 AND lease_until <= $5"
		result, err := tx.ExecContext(ctx, update, l.Scope.Account.UID, l.ID, l.holder, now.Add(Lease).UnixMicro(), now.UnixMicro())
		return lostUnlessChanged(result, err)
	})
}
