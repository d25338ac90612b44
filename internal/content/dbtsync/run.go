package dbtsync

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"k8s.io/utils/ptr"

	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/dbt"
	"github.com/quoin-dev/quoin/internal/git"
	"github.com/quoin-dev/quoin/internal/store"
)

// The phases of a run, as its log and its report name them.
const (
	phaseManifest = "manifest-read"
	phaseGenerate = "cube-generate"
	phaseWrite    = "cube-write"
)

// work works on a run until it has ended. An error means that it is retried, by this or another worker,
// when the lease has expired.
func (r *run) work(ctx context.Context) error {
	if r.tries > maxTries {
		return r.fail(ctx, fmt.Sprintf("the sync was begun %d times and never ended; start another one, or report it", maxTries))
	}
	r.Report = Report{Push: r.Push, Phases: sandboxPhases(r.Phases)}
	r.log = logOf(&r.Sync)
	err := r.steps(ctx)
	var rejected *dbt.Error
	var refused *content.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &rejected):
		return r.fail(ctx, rejected.Message)
	case errors.As(err, &refused) && (!mayPass(err, refused) || r.tries == maxTries):
		return r.fail(ctx, refused.Message)
	}
	return err
}

// mayPass reports whether a later try may succeed: a Git server did not answer, or others are being read.
func mayPass(err error, refused *content.Error) bool {
	isPermanent := errors.Is(err, git.ErrUntrusted) || errors.Is(err, git.ErrUnexpectedResponse)
	return refused.Reason == content.Unavailable || refused.Reason == content.BadGateway && !isPermanent
}

func (r *run) steps(ctx context.Context) error {
	var request *Request
	var model *dbt.Model
	err := r.phase(ctx, ProcessingManifest, phaseManifest, func() (string, error) {
		var err error
		if request, err = r.readManifest(ctx); err != nil {
			return "", err
		}
		manifest := request.Manifest
		r.Stats = &manifest.Stats
		if request.Catalog != nil {
			r.note(Entry{Phase: phaseManifest, Message: fmt.Sprintf("Read a catalog: the data source has %d models", request.Catalog.Models())})
		}
		return fmt.Sprintf("Read a manifest of dbt %s: %d models, %d sources, %d macros", manifest.Stats.DbtVersion, manifest.Stats.Models, manifest.Stats.Sources, manifest.Stats.Macros), nil
	})
	if err != nil {
		return err
	}
	err = r.phase(ctx, ProcessingManifest, phaseGenerate, func() (string, error) {
		var err error
		if model, err = request.Manifest.Convert(dbt.Options{DbtOptions: r.in.Options, Catalog: r.in.Catalog, Selected: request.Selected, Types: request.Catalog}); err != nil {
			return "", err
		}
		r.Cubes = len(model.Files)
		for _, warning := range model.Warnings {
			r.note(Entry{Phase: phaseGenerate, Message: "Warning: " + warning})
		}
		return fmt.Sprintf("Generated %d cubes", len(model.Files)), nil
	})
	if err != nil {
		return err
	}
	if err := r.update(ctx, WritingFiles); err != nil {
		return err
	}
	if r.Output == ToFiles {
		return r.keepFiles(ctx, model)
	}
	return r.writeBranch(ctx, model)
}

// phase runs a phase, and logs its message or its failure.
func (r *run) phase(ctx context.Context, stage Stage, name string, do func() (string, error)) error {
	if err := r.update(ctx, stage); err != nil {
		return err
	}
	begin := r.worker.now()
	message, err := do()
	r.endPhase(name, begin, message, err)
	return err
}

// endPhase adds a phase to the report and the log. Only failures that are for users are described.
func (r *run) endPhase(name string, begin time.Time, message string, err error) {
	duration := max(r.worker.now().Sub(begin), 0)
	r.Phases = append(r.Phases, Phase{Name: name, OK: err == nil, Start: max(begin.Sub(r.StartedAt), 0), Duration: duration})
	entry := Entry{Phase: name, Message: message, Duration: duration}
	if err != nil {
		entry.Failure, entry.Message = true, err.Error()
	}
	r.note(entry)
}

// note adds an entry to the log.
func (r *run) note(e Entry) {
	e.Time = r.worker.now()
	r.log = append(r.log, e)
}

// update stores the progress of the run, renews its lease, and checks that it is still this worker's.
func (r *run) update(ctx context.Context, stage Stage) error {
	if r.worker.interrupt != nil {
		if err := r.worker.interrupt(string(stage)); err != nil {
			return err
		}
	}
	r.Stage = stage
	return r.worker.Store.Tx(ctx, func(tx *store.Tx) error {
		if err := r.renew(ctx, tx); err != nil {
			return err
		}
		return r.put(ctx, tx)
	})
}

// put stores the state of the run.
func (r *run) put(ctx context.Context, tx *store.Tx) error {
	report, err := json.Marshal(r.Report)
	if err != nil {
		return err
	}
	log, err := json.Marshal(r.log)
	if err != nil {
		return err
	}
	completed := int64(0)
	if !r.CompletedAt.IsZero() {
		completed = r.CompletedAt.UnixMicro()
	}
	const statement = `UPDATE dbt_sync SET status = $4, stage = $5, error = $6, report = $7, log = $8, completed_at = $9, updated_at = $10
		WHERE account_uid = $1 AND id = $2 AND status = 'RUNNING' AND lease_owner = $3`
	result, err := tx.ExecContext(ctx, statement, r.scope.Account.UID, r.Number, r.worker.owner,
		string(r.Status), string(r.Stage), r.Error, string(report), string(log), completed, r.worker.now().UnixMicro())
	return r.own(result, err)
}

// readManifest reads the manifest of the run.
func (r *run) readManifest(ctx context.Context) (request *Request, err error) {
	var packed []byte
	err = r.worker.Store.Read(ctx, func(q store.Querier) error {
		const query = `SELECT data FROM dbt_sync_data WHERE account_uid = $1 AND id = $2 AND kind = $3`
		return q.QueryRowContext(ctx, query, r.scope.Account.UID, r.Number, manifestData).Scan(&packed)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return nil, content.Errorf(content.NotFound, "the manifest was kept for %s and is deleted; start another sync", manifestKept)
	}
	if err != nil {
		return nil, fmt.Errorf("read the manifest of a sync: %w", err)
	}
	err = unpack(packed, func(source io.Reader) error {
		request, err = ReadDelivery(source)
		if err == nil && request.Manifest == nil {
			return errRequest("manifest: it is absent or empty")
		}
		if err == nil && request.Catalog == nil && ptr.Deref(r.in.Options.TypesFromCatalog, false) {
			return errRequest("catalog: it is absent, and options.typesFromCatalog is true")
		}
		return err
	})
	return request, err
}

// finish ends the run in a transaction.
func (r *run) finish(ctx context.Context, tx *store.Tx, paths []string) error {
	r.Status, r.Stage, r.CompletedAt = Completed, Ended, r.worker.now()
	if err := r.put(ctx, tx); err != nil {
		return err
	}
	files, err := json.Marshal(paths)
	if err != nil {
		return err
	}
	const statement = `UPDATE dbt_sync SET files = $3 WHERE account_uid = $1 AND id = $2`
	if _, err := tx.ExecContext(ctx, statement, r.scope.Account.UID, r.Number, string(files)); err != nil {
		return fmt.Errorf("store the paths of a sync: %w", err)
	}
	return deleteManifest(ctx, tx, r.scope, r.Number)
}

// fail ends the run with an error for users.
func (r *run) fail(ctx context.Context, message string) error {
	return r.worker.Store.Tx(ctx, func(tx *store.Tx) error {
		if err := tx.LockDeployment(ctx, r.scope.Account, r.scope.Deployment); err != nil {
			return err
		}
		r.Status, r.Error, r.CompletedAt = Failed, message, r.worker.now()
		if err := r.put(ctx, tx); err != nil {
			return err
		}
		if err := deleteManifest(ctx, tx, r.scope, r.Number); err != nil {
			return err
		}
		e := event(r.scope, audit.FinishedDbtSync, &r.Sync, map[string]any{"status": string(Failed), "error": message})
		e.Outcome = audit.Failed
		e.Deployment.ID = r.in.DeploymentNumber
		return r.worker.Record(ctx, tx, e)
	})
}

// keepFiles keeps the files to be fetched, and ends the run.
func (r *run) keepFiles(ctx context.Context, model *dbt.Model) error {
	begin := r.worker.now()
	files := make([]File, len(model.Files))
	paths := make([]string, len(model.Files))
	for i, f := range model.Files {
		files[i], paths[i] = File{Path: f.Path, Content: string(f.Content)}, f.Path
	}
	packed, err := pack(func(w io.Writer) error { return json.NewEncoder(w).Encode(files) })
	if err != nil {
		return err
	}
	r.endPhase(phaseWrite, begin, fmt.Sprintf("Kept %d files for %s", len(files), FilesKept), nil)
	if err := r.update(ctx, Finalizing); err != nil {
		return err
	}
	return r.worker.Store.Tx(ctx, func(tx *store.Tx) error {
		if err := tx.LockDeployment(ctx, r.scope.Account, r.scope.Deployment); err != nil {
			return err
		}
		if err := r.finish(ctx, tx, paths); err != nil {
			return err
		}
		if err := insertData(ctx, tx, r.scope, r.Number, filesData, packed, r.CompletedAt.Add(FilesKept)); err != nil {
			return err
		}
		return r.worker.Record(ctx, tx, r.finished())
	})
}

// finished returns the event of a completed run.
func (r *run) finished() audit.Event {
	e := event(r.scope, audit.FinishedDbtSync, &r.Sync, map[string]any{"status": string(Completed), "branch": r.Branch, "cubes": r.Cubes, "startedBy": r.StartedBy})
	e.Deployment.ID = r.in.DeploymentNumber
	return e
}
