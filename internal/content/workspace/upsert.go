package workspace

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/access"
	"github.com/quoin-dev/quoin/internal/store"
)

// Upsert updates the workbook with a slug, or creates it. The meta is merged into that of an existing
// workbook. The same request again changes nothing. The caller needs what Update needs, or Create.
func (w *Workspace) Upsert(ctx context.Context, s content.Scope, by Caller, slug string, in Change) (out *Workbook, err error) {
	if slug, err = Slug(slug); err != nil {
		return nil, err
	}
	err = w.change(ctx, s, func(tx *store.Tx) error {
		before, err := workbookBySlug(ctx, tx, s, slug)
		if err != nil {
			return err
		}
		if before != nil {
			in.Merge = true
			out, err = w.upsertOf(ctx, tx, s, by, before, in)
			return err
		}
		in.Slug = &slug
		if in.Name == nil {
			in.Name = &slug
		}
		out, err = w.create(ctx, tx, s, by, in)
		return err
	})
	return out, err
}

// upsertOf updates the workbook with the slug of an upsert.
func (w *Workspace) upsertOf(ctx context.Context, tx *store.Tx, s content.Scope, by Caller, before *Workbook, in Change) (*Workbook, error) {
	known, err := workbookFor(ctx, tx, s, by, before.ID, in.needs())
	var rejected *content.Error
	if errors.As(err, &rejected) && rejected.Reason == content.NotFound {
		return nil, content.Errorf(content.Conflict, "slug: %q is the slug of a workbook that the caller does not see", before.Slug)
	}
	if err != nil {
		return nil, err
	}
	if in.FolderID != nil {
		if err := checkDestination(ctx, tx, s, by, *in.FolderID); err != nil {
			return nil, err
		}
	}
	return w.update(ctx, tx, s, by, known, in)
}

// Duplicate creates a copy of a workbook that the caller sees, with copies of its reports, to which the charts of the copied
// draft and of the copied dashboard refer. It is in the same folder if the caller may edit that, else at the root. The copy has no
// slug. A caller who does not see the draft gets the published dashboard as the draft.
func (w *Workspace) Duplicate(ctx context.Context, s content.Scope, by Caller, id int64) (out *Workbook, err error) {
	err = w.change(ctx, s, func(tx *store.Tx) error {
		source, err := workbookFor(ctx, tx, s, by, id, access.View)
		if err != nil {
			return err
		}
		meta, err := w.copiedMeta(ctx, tx, s, source)
		if err != nil {
			return err
		}
		folder, err := folderOfCopy(ctx, tx, s, by, source.FolderID)
		if err != nil {
			return err
		}
		name := copyName(source.Name)
		if out, err = w.create(ctx, tx, s, by, Change{Name: &name, FolderID: &folder, Meta: meta}); err != nil {
			return err
		}
		byID, byPublicID, err := w.copyReportsOf(ctx, tx, s, by, id, out.ID)
		if err != nil {
			return err
		}
		if redirect(meta[draftProperty], byID, byPublicID) {
			if out.Meta, err = encode("meta", meta); err != nil {
				return err
			}
			if err := updateWorkbook(ctx, tx, s, out); err != nil {
				return err
			}
		}
		return w.copyDashboard(ctx, tx, s, by, id, out, byID, byPublicID)
	})
	return out, err
}

// folderOfCopy returns the folder of a copy of what is in a folder: the same if the caller may edit it.
func folderOfCopy(ctx context.Context, q store.Querier, s content.Scope, by Caller, folder int64) (int64, error) {
	if folder == Root {
		return Root, nil
	}
	level, err := access.Of(ctx, q, s, by.Access, access.Object{Kind: access.Folder, ID: folder})
	if err != nil || level < access.Edit {
		return Root, err
	}
	return folder, nil
}

// copiedMeta returns the meta of the copy of a workbook.
func (w *Workspace) copiedMeta(ctx context.Context, q store.Querier, s content.Scope, source *Workbook) (Object, error) {
	meta, err := Decode([]byte(source.Meta))
	if err != nil || source.Level >= access.Edit {
		return meta, err
	}
	delete(meta, draftProperty)
	published, err := getDashboard(ctx, q, s, source.ID)
	if err != nil || published == nil {
		return meta, err
	}
	meta[draftProperty], err = Decode([]byte(published.Config))
	return meta, err
}

// redirect makes the charts of a dashboard show the copies of their reports. It reports whether there are such charts.
func redirect(dashboard any, byID map[int64]*Report, byPublicID map[string]*Report) (changed bool) {
	object, _ := dashboard.(Object)
	widgets, _ := object["widgets"].([]any)
	for _, item := range widgets {
		widget, _ := item.(Object)
		config, _ := widget["config"].(Object)
		if id, ok := config["reportId"].(json.Number); ok {
			if n, err := id.Int64(); err == nil && byID[n] != nil {
				config["reportId"], changed = byID[n].ID, true
			}
		}
		if id, ok := config["reportPublicId"].(string); ok && byPublicID[id] != nil {
			config["reportPublicId"], changed = byPublicID[id].PublicID, true
		}
	}
	return changed
}

// copyName returns the name of a copy, which is shortened to the maximum.
func copyName(name string) string {
	runes := []rune("Copy of " + name)
	if len(runes) > content.MaxName {
		runes = runes[:content.MaxName]
		for runes[len(runes)-1] == ' ' {
			runes = runes[:len(runes)-1]
		}
	}
	return string(runes)
}
