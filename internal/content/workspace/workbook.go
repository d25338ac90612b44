package workspace

import (
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/access"
	"github.com/quoin-dev/quoin/internal/content/managed"
	"github.com/quoin-dev/quoin/internal/store"
)

// Untitled is the name of a workbook that is created without one.
const Untitled = "Untitled workbook"

// Workbook is a workbook of a deployment.
type Workbook struct {
	// ID is unique in the account.
	ID int64
	// FolderID is Root at the root.
	FolderID int64
	// Slug is unique in the deployment; empty without one.
	Slug string
	Name string
	// Meta is a JSON object in canonical form. It has the draft of the dashboard.
	Meta string
	// Version counts the changes, from 1.
	Version int64
	// Level is what the caller may do with it. It is derived.
	Level access.Level
	// Owner is who the workbook belongs to, as <kind>:<id>.
	Owner     string
	CreatedAt time.Time
	UpdatedAt time.Time
	// CreatedBy and UpdatedBy are principals: <kind>:<id>.
	CreatedBy string
	UpdatedBy string
}

// Change has the properties of a workbook to set; those that are nil stay.
type Change struct {
	Name *string
	// FolderID is Root for the root.
	FolderID *int64
	// Slug is empty to remove it.
	Slug *string
	// Takeover takes the slug from the workbook that has it.
	Takeover bool
	// Meta replaces the meta, or is merged into it.
	Meta  Object
	Merge bool
	// Draft replaces the draft in the meta if HasDraft is set; it is removed if Draft is nil.
	Draft    any
	HasDraft bool
	// Version is the version that the workbook must have; any if 0.
	Version int64
}

var slugPattern = regexp.MustCompile(`^[a-z0-9](?:[a-z0-9_-]{0,126}[a-z0-9])?$`)

// Slug returns a slug in the form in which it is stored: without white space around it, in lower case.
func Slug(text string) (string, error) {
	slug := strings.ToLower(strings.TrimSpace(text))
	if !slugPattern.MatchString(slug) {
		return "", content.Errorf(content.Invalid, "slug: %q; allowed: 1 to 128 letters a to z, digits, - and _, with a letter or a digit at both ends", clip(text))
	}
	return slug, nil
}

// Create creates a workbook. The caller needs the level edit on the folder.
func (w *Workspace) Create(ctx context.Context, s content.Scope, by Caller, in Change) (created *Workbook, err error) {
	err = w.change(ctx, s, func(tx *store.Tx) error {
		created, err = w.create(ctx, tx, s, by, in)
		return err
	})
	return created, err
}

func (w *Workspace) create(ctx context.Context, tx *store.Tx, s content.Scope, by Caller, in Change) (*Workbook, error) {
	now := w.now()
	created := &Workbook{
		Name: Untitled, Meta: "{}", Version: 1, Owner: by.Owner, Level: by.Access.Limited(access.Manage),
		CreatedAt: now, UpdatedAt: now, CreatedBy: by.Principal, UpdatedBy: by.Principal,
	}
	if in.FolderID != nil {
		if err := checkDestination(ctx, tx, s, by, *in.FolderID); err != nil {
			return nil, err
		}
	}
	if err := apply(created, in); err != nil {
		return nil, err
	}
	if err := w.checkPlace(ctx, tx, s, by, created, in.Takeover); err != nil {
		return nil, err
	}
	var err error
	if created.ID, err = tx.NextID(ctx, s.Account.UID, "workbook"); err != nil {
		return nil, err
	}
	if err := insertWorkbook(ctx, tx, s, created); err != nil {
		return nil, err
	}
	return created, w.recordWorkbook(ctx, tx, createdWorkbook, nil, created)
}

// Update changes a workbook. A change to what it already is has no event and no new version. The caller needs the level edit; for a
// folder, even the one that it is in, manage, and edit on that folder.
func (w *Workspace) Update(ctx context.Context, s content.Scope, by Caller, id int64, in Change) (updated *Workbook, err error) {
	err = w.change(ctx, s, func(tx *store.Tx) error {
		before, err := workbookFor(ctx, tx, s, by, id, in.needs())
		if err != nil {
			return err
		}
		if in.FolderID != nil {
			if err := checkDestination(ctx, tx, s, by, *in.FolderID); err != nil {
				return err
			}
		}
		updated, err = w.update(ctx, tx, s, by, before, in)
		return err
	})
	return updated, err
}

// needs returns the level that a change of a workbook needs.
func (in *Change) needs() access.Level {
	if in.FolderID != nil {
		return access.Manage
	}
	return access.Edit
}

// update changes a workbook without checking what the caller may do with it.
func (w *Workspace) update(ctx context.Context, tx *store.Tx, s content.Scope, by Caller, before *Workbook, in Change) (*Workbook, error) {
	if err := managed.Check(ctx, tx, s, managed.Workbook, before.ID); err != nil {
		return nil, err
	}
	if in.Version != 0 && in.Version != before.Version {
		return nil, content.Errorf(content.Conflict, "version: workbook %d has version %d, not %d: read it again", before.ID, before.Version, in.Version)
	}
	after := *before
	if err := apply(&after, in); err != nil {
		return nil, err
	}
	if after == *before {
		return before, nil
	}
	if after.FolderID != before.FolderID || after.Slug != before.Slug {
		if err := w.checkPlace(ctx, tx, s, by, &after, in.Takeover); err != nil {
			return nil, err
		}
	}
	after.Version, after.UpdatedAt, after.UpdatedBy = before.Version+1, w.now(), by.Principal
	if err := updateWorkbook(ctx, tx, s, &after); err != nil {
		return nil, err
	}
	return &after, w.recordWorkbook(ctx, tx, updatedWorkbook, before, &after)
}

// Delete deletes a workbook with its reports and its dashboard, and the grants on them. The caller needs the level manage.
func (w *Workspace) Delete(ctx context.Context, s content.Scope, by Caller, id int64) error {
	return w.change(ctx, s, func(tx *store.Tx) error {
		if _, err := workbookFor(ctx, tx, s, by, id, access.Manage); err != nil {
			return err
		}
		return w.delete(ctx, tx, s, id)
	})
}

func (w *Workspace) delete(ctx context.Context, tx *store.Tx, s content.Scope, id int64) error {
	before, err := getWorkbook(ctx, tx, s, id)
	if err != nil {
		return err
	}
	if err := managed.Check(ctx, tx, s, managed.Workbook, id); err != nil {
		return err
	}
	if err := deleteDashboardOf(ctx, tx, s, id); err != nil {
		return err
	}
	if err := w.deleteReportsOf(ctx, tx, s, id); err != nil {
		return err
	}
	const statement = "DELETE FROM workbook WHERE account_uid = $1 AND deployment_uid = $2 AND id = $3"
	if _, err := tx.ExecContext(ctx, statement, s.Account.UID, s.Deployment.UID, id); err != nil {
		return fmt.Errorf("delete workbook %d: %w", id, err)
	}
	if err := managed.Deleted(ctx, tx, s, managed.Workbook, id); err != nil {
		return err
	}
	if err := access.Deleted(ctx, tx, s, access.Object{Kind: access.Workbook, ID: id}); err != nil {
		return err
	}
	if err := forget(ctx, tx, s, WorkbookItem, id); err != nil {
		return err
	}
	return w.recordWorkbook(ctx, tx, deletedWorkbook, before, nil)
}

// apply sets the properties of a change.
func apply(to *Workbook, in Change) error {
	if in.Name != nil {
		if err := content.CheckName("name", *in.Name); err != nil {
			return err
		}
		to.Name = *in.Name
	}
	if in.FolderID != nil {
		to.FolderID = *in.FolderID
	}
	if in.Slug != nil {
		to.Slug = ""
		if *in.Slug != "" {
			slug, err := Slug(*in.Slug)
			if err != nil {
				return err
			}
			to.Slug = slug
		}
	}
	return applyMeta(to, in)
}

func applyMeta(to *Workbook, in Change) (err error) {
	if in.Meta == nil && !in.HasDraft {
		return nil
	}
	meta := maps.Clone(in.Meta)
	if in.Merge || in.HasDraft {
		stored, err := Decode([]byte(to.Meta))
		if err != nil {
			return fmt.Errorf("meta of workbook %d: %w", to.ID, err)
		}
		meta = merged(stored, in.Meta)
	}
	if in.HasDraft {
		meta[draftProperty] = in.Draft
		if in.Draft != nil {
			if err := checkDraft(draftProperty, in.Draft); err != nil {
				return err
			}
		}
	}
	if err := checkMeta(meta); err != nil {
		return err
	}
	to.Meta, err = encode("meta", meta)
	return err
}

// checkPlace returns an error if a workbook cannot have its folder or its slug. With takeover it takes the
// slug from another workbook, on which the caller needs the level edit.
func (w *Workspace) checkPlace(ctx context.Context, tx *store.Tx, s content.Scope, by Caller, wb *Workbook, takeover bool) error {
	if err := checkFolder(ctx, tx, s, wb.FolderID); err != nil {
		return err
	}
	const query = "SELECT COUNT(*) FROM workbook WHERE deployment_uid = $1 AND account_uid = $2 AND folder_id = $3 AND id <> $4"
	var beside int
	if err := tx.QueryRowContext(ctx, query, s.Deployment.UID, s.Account.UID, wb.FolderID, wb.ID).Scan(&beside); err != nil {
		return fmt.Errorf("count workbooks: %w", err)
	}
	if beside >= MaxInFolder {
		return content.Errorf(content.Conflict, "folderId: there are %d workbooks already; allowed: %d", beside, MaxInFolder)
	}
	if wb.Slug == "" {
		return nil
	}
	other, err := workbookBySlug(ctx, tx, s, wb.Slug)
	switch {
	case err != nil:
		return err
	case other == nil || other.ID == wb.ID:
		return nil
	}
	level, err := access.Of(ctx, tx, s, by.Access, access.Object{Kind: access.Workbook, ID: other.ID})
	switch {
	case err != nil:
		return err
	case level == access.None:
		return content.Errorf(content.Conflict, "slug: %q is the slug of a workbook that the caller does not see", wb.Slug)
	case !takeover:
		return content.Errorf(content.Conflict, "slug: %q is the slug of workbook %d", wb.Slug, other.ID)
	case level < access.Edit:
		return content.Prefixed("slugTakeover", access.TooLow(by.Access, access.Object{Kind: access.Workbook, ID: other.ID}, access.Edit, level))
	}
	none := ""
	_, err = w.update(ctx, tx, s, by, other, Change{Slug: &none})
	return err
}

// fields returns the fields of a workbook that events show.
func (wb *Workbook) fields() map[string]any {
	if wb == nil {
		return nil
	}
	sum := sha256.Sum256([]byte(wb.Meta))
	return map[string]any{"name": wb.Name, "folderId": wb.FolderID, "slug": wb.Slug, "metaSHA256": hex.EncodeToString(sum[:])}
}

// recordWorkbook stores the event of a change; before is nil for a new workbook, after for a deleted one.
func (w *Workspace) recordWorkbook(ctx context.Context, tx *store.Tx, name string, before, after *Workbook) error {
	shown := cmp.Or(after, before)
	object := audit.Object{Kind: "Workbook", Name: shown.Name, ID: strconv.FormatInt(shown.ID, 10)}
	return w.Record.Change(ctx, tx, name, object, before.fields(), after.fields())
}

func workbookNotFound(id int64) error {
	return content.Errorf(content.NotFound, "workbook %d does not exist", id)
}

// getWorkbook returns a workbook.
func getWorkbook(ctx context.Context, q store.Querier, s content.Scope, id int64) (*Workbook, error) {
	const query = "SELECT " + workbookColumns + " FROM workbook WHERE account_uid = $1 AND deployment_uid = $2 AND id = $3"
	wb := &Workbook{}
	err := scanWorkbook(q.QueryRowContext(ctx, query, s.Account.UID, s.Deployment.UID, id), wb)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, workbookNotFound(id)
	}
	if err != nil {
		return nil, fmt.Errorf("read workbook %d: %w", id, err)
	}
	return wb, nil
}

// workbookBySlug returns the workbook with a slug; nil if there is none.
func workbookBySlug(ctx context.Context, q store.Querier, s content.Scope, slug string) (*Workbook, error) {
	const query = "SELECT " + workbookColumns + " FROM workbook WHERE deployment_uid = $1 AND account_uid = $2 AND slug = $3 AND slug <> ''"
	wb := &Workbook{}
	err := scanWorkbook(q.QueryRowContext(ctx, query, s.Deployment.UID, s.Account.UID, slug), wb)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the workbook with slug %q: %w", slug, err)
	}
	return wb, nil
}
