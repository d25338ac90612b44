package dbtsync

import (
	"bytes"
	"compress/gzip"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/store"
)

const syncColumns = "job, id, started_from, source, output, git_ref, branch, started_by, started_at, updated_at, completed_at, status, stage, error, object_name, report"

// scan reads a row with syncColumns, and more columns after them.
func scan(row interface{ Scan(into ...any) error }, s *Sync, more ...any) error {
	var started, updated, completed int64
	var report string
	into := append([]any{&s.ID, &s.Number, &s.Trigger, &s.Source, &s.Output, &s.Ref, &s.Branch, &s.StartedBy, &started, &updated, &completed,
		&s.Status, &s.Stage, &s.Error, &s.ObjectName, &report}, more...)
	if err := row.Scan(into...); err != nil {
		return err
	}
	s.StartedAt, s.UpdatedAt = time.UnixMicro(started).UTC(), time.UnixMicro(updated).UTC()
	if completed != 0 {
		s.CompletedAt = time.UnixMicro(completed).UTC()
	}
	return json.Unmarshal([]byte(report), &s.Report)
}

func get(ctx context.Context, q store.Querier, of content.Scope, id string) (s Sync, err error) {
	return read(ctx, q, of, id, "")
}

func read(ctx context.Context, q store.Querier, of content.Scope, id, columns string, more ...any) (s Sync, err error) {
	query := "SELECT " + syncColumns + columns + " FROM dbt_sync WHERE account_uid = $1 AND deployment_uid = $2 AND job = $3"
	err = scan(q.QueryRowContext(ctx, query, of.Account.UID, of.Deployment.UID, id), &s, more...)
	if errors.Is(err, sql.ErrNoRows) {
		return s, notFound(id)
	}
	if err != nil {
		return s, fmt.Errorf("read a sync: %w", err)
	}
	return s, nil
}

// Get returns a sync.
func (s *Syncs) Get(ctx context.Context, of content.Scope, id string) (found Sync, err error) {
	err = s.DB.Read(ctx, func(q store.Querier) error {
		found, err = get(ctx, q, of, id)
		return err
	})
	return found, err
}

// Log returns the log of a sync, oldest first.
func (s *Syncs) Log(ctx context.Context, of content.Scope, id string) (entries []Entry, err error) {
	err = s.DB.Read(ctx, func(q store.Querier) error {
		var log string
		if _, err := read(ctx, q, of, id, ", log", &log); err != nil {
			return err
		}
		return json.Unmarshal([]byte(log), &entries)
	})
	return entries, err
}

// Paths returns a sync and the paths of its generated files, sorted.
func (s *Syncs) Paths(ctx context.Context, of content.Scope, id string) (found Sync, paths []string, err error) {
	err = s.DB.Read(ctx, func(q store.Querier) (err error) {
		var files string
		if found, err = read(ctx, q, of, id, ", files", &files); err != nil {
			return err
		}
		return json.Unmarshal([]byte(files), &paths)
	})
	return found, paths, err
}

// Files returns the files of a sync to files, sorted by path. They are NotFound until it has completed,
// and an hour later.
func (s *Syncs) Files(ctx context.Context, of content.Scope, id string) (files []File, err error) {
	var packed []byte
	err = s.DB.Read(ctx, func(q store.Querier) error {
		found, err := get(ctx, q, of, id)
		switch {
		case err != nil:
			return err
		case found.Output == ToBranch:
			return content.Errorf(content.NotFound, "the files of dbt sync %s are in branch %q", found.ID, found.Branch)
		case found.Status != Completed:
			return content.Errorf(content.NotFound, "dbt sync %s has no files: it is %s", found.ID, found.Status)
		}
		const query = `SELECT data FROM dbt_sync_data WHERE account_uid = $1 AND id = $2 AND kind = $3 AND expires_at > $4`
		err = q.QueryRowContext(ctx, query, of.Account.UID, found.Number, filesData, s.now().UnixMicro()).Scan(&packed)
		if errors.Is(err, sql.ErrNoRows) {
			return content.Errorf(content.NotFound, "the files of dbt sync %s were kept for %s after its end; start another sync", found.ID, FilesKept)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	err = unpack(packed, func(r io.Reader) error { return json.NewDecoder(r).Decode(&files) })
	return files, err
}

// Filter selects syncs; empty fields select all.
type Filter struct {
	Status  Status
	Trigger string
}

// List returns a page of the syncs of a deployment, newest first. The key of a sync is its Number.
func (s *Syncs) List(ctx context.Context, of content.Scope, by Filter, r store.PageRequest) (page store.Page[Sync], err error) {
	list := store.List[Sync]{
		Columns: syncColumns, From: "dbt_sync WHERE deployment_uid = $1 AND account_uid = $2", Args: []any{of.Deployment.UID, of.Account.UID},
		Order: []string{"id"}, Descending: true,
		Scan: func(row *sql.Rows, item *Sync) error { return scan(row, item) },
		Key:  func(item *Sync) []any { return []any{item.Number} },
	}
	for column, value := range map[string]string{"status": string(by.Status), "started_from": by.Trigger} {
		if value != "" {
			list.Args = append(list.Args, value)
			list.From += fmt.Sprintf(" AND %s = $%d", column, len(list.Args))
		}
	}
	err = s.DB.Read(ctx, func(q store.Querier) error {
		page, err = list.Read(ctx, q, r)
		return err
	})
	return page, err
}

// pack returns what write writes, compressed.
func pack(write func(w io.Writer) error) ([]byte, error) {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if err := errors.Join(write(w), w.Close()); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// unpack calls read with what was packed.
func unpack(packed []byte, read func(r io.Reader) error) error {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return err
	}
	return read(r)
}

// event returns an event of a sync.
func event(of content.Scope, name string, s *Sync, details map[string]any) audit.Event {
	changes, _ := json.Marshal(details) // of strings and numbers: it does not fail
	return audit.Event{
		Account: of.Account.Name, Name: name, Deployment: audit.Deployment{Name: of.Deployment.Name},
		Object: audit.Object{Kind: "DbtSync", Namespace: of.Deployment.Namespace, Name: s.ID, ID: s.ID}, Changes: changes,
	}
}
