package workspace

import (
	"context"
	"encoding/json"

	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/store"
)

// Upsert updates the workbook with a slug, or creates it. The meta is merged into that of an existing
// workbook. The same request again changes nothing.
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
			out, err = w.update(ctx, tx, s, by, before, in)
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

// Duplicate creates a copy of a workbook in the same folder, with copies of its reports, to which the charts of the copied
// draft and of the copied dashboard refer. The copy has no slug.
func (w *Workspace) Duplicate(ctx context.Context, s content.Scope, by Caller, id int64) (out *Workbook, err error) {
	err = w.change(ctx, s, func(tx *store.Tx) error {
		source, err := getWorkbook(ctx, tx, s, id)
		if err != nil {
			return err
		}
		meta, err := Decode([]byte(source.Meta))
		if err != nil {
			return err
		}
		name := copyName(source.Name)
		if out, err = w.create(ctx, tx, s, by, Change{Name: &name, FolderID: &source.FolderID, Meta: meta}); err != nil {
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
