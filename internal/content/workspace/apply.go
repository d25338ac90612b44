package workspace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/utils/ptr"

	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/access"
	"github.com/quoin-dev/quoin/internal/content/managed"
	"github.com/quoin-dev/quoin/internal/store"
)

// Definition is a workbook that an object manages.
type Definition struct {
	Slug string
	// Name is the slug if empty.
	Name     string
	FolderID int64
	// Meta has no draft. It replaces what is stored, as the Draft does; there is none if that is nil.
	Meta, Draft Object
	// Publish publishes the draft. AllowEmbed is that of the dashboard also if it was published before.
	Publish, AllowEmbed bool
	Reports             []DefinedReport
	// Prune deletes other reports in the workbook.
	Prune bool
}

// DefinedReport is a report of a Definition.
type DefinedReport struct {
	PublicID, Name, Title, JSONQuery, SQLQuery string
	// PivotItems is nil for none.
	PivotItems, Meta Object
}

// Applied is the result of Apply.
type Applied struct {
	Workbook Workbook
	// Dashboard is the published dashboard; nil if there is none.
	Dashboard *Dashboard
	// Extra are the reports in the workbook that are not defined.
	Extra []Report
	// Corrected reports whether the content was not what the object had made of it.
	Corrected bool
}

// Apply makes the workbook of an object what it defines, in one transaction. What is so already is not written.
func (w *Workspace) Apply(ctx context.Context, s content.Scope, by Caller, of managed.Options, in Definition) (out *Applied, err error) {
	ctx = managed.As(ctx, of.Object)
	if in.Slug, err = Slug(in.Slug); err != nil {
		return nil, err
	}
	in.Name = cmp.Or(in.Name, in.Slug)
	a := &application{Workspace: w, scope: s, by: by, of: of, in: in, row: managed.Record{Object: of.Object}}
	if a.row.Definition, err = managed.Hash(in); err != nil {
		return nil, err
	}
	err = w.DB.Read(ctx, func(q store.Querier) error {
		seen, err := a.compare(ctx, q)
		if err == nil && seen.isApplied() {
			out = &seen.Applied
		}
		return err
	})
	if err != nil || out != nil {
		return out, err
	}
	err = w.change(ctx, s, func(tx *store.Tx) error {
		out, err = a.write(ctx, tx)
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// application is the work of Apply.
type application struct {
	*Workspace
	scope content.Scope
	by    Caller
	of    managed.Options
	in    Definition
	row   managed.Record
}

// comparison is how the stored content differs from the defined one.
type comparison struct {
	Applied
	// exists reports whether there is a workbook, which is that of Applied.
	exists bool
	// stored is the row of the object; nil without one. recorded reports whether it is what it should be.
	stored   *managed.Record
	recorded bool
	// different reports whether there is content to write.
	different bool
}

// isApplied reports whether there is nothing to write.
func (c *comparison) isApplied() bool { return c.recorded && !c.different }

// compare compares the stored content with the defined one.
func (a *application) compare(ctx context.Context, q store.Querier) (*comparison, error) {
	c, err := a.find(ctx, q)
	if err != nil || !c.exists {
		return c, err
	}
	after, change := c.Workbook, a.change()
	if err := apply(&after, change); err != nil {
		return nil, err
	}
	c.different = after != c.Workbook
	if err := a.compareReports(ctx, q, c); err != nil {
		return nil, err
	}
	if c.Dashboard, err = getDashboard(ctx, q, a.scope, c.Workbook.ID); err != nil || c.different {
		return c, err
	}
	if !a.in.Publish {
		// What was published before is still shown.
		c.different = c.Dashboard != nil && c.Dashboard.AllowEmbed != a.in.AllowEmbed
		return c, nil
	}
	published, err := a.version(ctx, q, a.scope, &after, c.Dashboard, a.publication())
	if err != nil {
		return nil, err
	}
	c.different = c.Dashboard == nil || c.Dashboard.Hash != published.Hash || c.Dashboard.AllowEmbed != published.AllowEmbed
	return c, nil
}

// find returns the workbook of the object: the one that it has, or one with the slug that it may take over.
func (a *application) find(ctx context.Context, q store.Querier) (*comparison, error) {
	c := &comparison{}
	var err error
	if c.stored, err = managed.Find(ctx, q, a.scope, a.of.Object); err != nil {
		return nil, err
	}
	wb, err := workbookBySlug(ctx, q, a.scope, a.in.Slug)
	if err != nil {
		return nil, err
	}
	if c.stored != nil && (wb == nil || wb.ID != c.stored.ContentID) {
		own, err := getWorkbook(ctx, q, a.scope, c.stored.ContentID)
		var missing *content.Error
		if err != nil && !errors.As(err, &missing) {
			return nil, err
		}
		wb = cmp.Or(own, wb)
	}
	if wb == nil {
		c.different = true
		return c, nil
	}
	if c.stored == nil || c.stored.ContentID != wb.ID {
		if err := managed.Claim(ctx, q, a.scope, a.of, wb.ID, fmt.Sprintf("slug: %q is the slug of workbook %d", a.in.Slug, wb.ID)); err != nil {
			return nil, err
		}
	}
	c.exists, c.Workbook, a.row.ContentID = true, *wb, wb.ID
	c.Workbook.Level = a.by.Access.Limited(access.Manage)
	c.recorded = c.stored != nil && *c.stored == a.row
	return c, nil
}

// compareReports compares the reports of a workbook.
func (a *application) compareReports(ctx context.Context, q store.Querier, c *comparison) error {
	stored, err := reportsOf(ctx, q, a.scope, c.Workbook.ID)
	if err != nil {
		return err
	}
	for i := range a.in.Reports {
		r := &a.in.Reports[i]
		at := slices.IndexFunc(stored, func(s Report) bool { return s.PublicID == r.PublicID })
		if at < 0 {
			c.different = true
			continue
		}
		after := stored[at]
		if err := applyReport(&after, r.change(c.Workbook.ID)); err != nil {
			return content.Prefixed(fmt.Sprintf("reports[%d]", i), err)
		}
		c.different = c.different || after != stored[at]
	}
	c.Extra = slices.DeleteFunc(stored, func(s Report) bool {
		return slices.ContainsFunc(a.in.Reports, func(r DefinedReport) bool { return r.PublicID == s.PublicID })
	})
	if len(c.Extra) == 0 {
		c.Extra = nil
	}
	c.different = c.different || a.in.Prune && c.Extra != nil
	return nil
}

// write makes the content what is defined.
func (a *application) write(ctx context.Context, tx *store.Tx) (*Applied, error) {
	c, err := a.compare(ctx, tx)
	if err != nil {
		return nil, err
	}
	c.Corrected = c.different && c.stored != nil && c.stored.Definition == a.row.Definition
	wb := &c.Workbook
	if c.exists {
		if err := a.take(ctx, tx, wb.ID); err != nil {
			return nil, err
		}
		wb, err = a.update(ctx, tx, a.scope, a.by, wb, a.change())
	} else {
		wb, err = a.create(ctx, tx, a.scope, a.by, a.change())
	}
	if err != nil {
		return nil, err
	}
	c.Workbook, a.row.ContentID = *wb, wb.ID
	if err := a.writeReports(ctx, tx, c); err != nil {
		return nil, err
	}
	switch {
	case a.in.Publish:
		c.Dashboard, err = a.publish(ctx, tx, a.scope, a.by, wb, a.publication())
	case c.Dashboard != nil:
		c.Dashboard, err = a.setAllowEmbed(ctx, tx, a.scope, wb, c.Dashboard, a.in.AllowEmbed)
	}
	if err != nil {
		return nil, err
	}
	if c.stored != nil && *c.stored == a.row {
		return &c.Applied, nil
	}
	return &c.Applied, managed.Set(ctx, tx, a.scope, a.row)
}

// take makes the object the owner of a workbook that it takes over.
func (a *application) take(ctx context.Context, tx *store.Tx, id int64) error {
	found, err := managed.Of(ctx, tx, a.scope, managed.Workbook, id)
	if err != nil || found == nil {
		return err
	}
	row := a.row
	row.ContentID = id
	if *found == row {
		return nil
	}
	return managed.Set(ctx, tx, a.scope, row)
}

// writeReports makes the reports of a workbook what is defined.
func (a *application) writeReports(ctx context.Context, tx *store.Tx, c *comparison) error {
	for i := range a.in.Reports {
		if err := a.writeReport(ctx, tx, c.Workbook.ID, &a.in.Reports[i]); err != nil {
			return content.Prefixed(fmt.Sprintf("reports[%d]", i), err)
		}
	}
	if !a.in.Prune {
		return nil
	}
	for i := range c.Extra {
		if err := a.deleteReport(ctx, tx, a.scope, &c.Extra[i]); err != nil {
			return err
		}
	}
	c.Extra = nil
	return nil
}

// writeReport makes a report what is defined. One that is elsewhere is moved into the workbook if it is adopted.
func (a *application) writeReport(ctx context.Context, tx *store.Tx, workbook int64, r *DefinedReport) error {
	before, err := reportByPublicID(ctx, tx, a.scope, r.PublicID)
	switch {
	case err != nil:
		return err
	case before == nil:
		_, err = a.createReport(ctx, tx, a.scope, a.by, r.change(workbook))
		return err
	case before.WorkbookID != workbook && !a.of.Adopt:
		return content.Errorf(content.Conflict, "publicId: %q is the id of report %d, which is not in workbook %d; set spec.adopt to move it there, or delete it",
			r.PublicID, before.ID, workbook)
	}
	_, err = a.updateReport(ctx, tx, a.scope, a.by, before, r.change(workbook))
	return err
}

// change returns the defined properties of the workbook. It copies what a change adds ids to.
func (a *application) change() Change {
	meta := maps.Clone(a.in.Meta)
	if meta == nil {
		meta = Object{}
	}
	delete(meta, draftProperty)
	if a.in.Draft != nil {
		meta[draftProperty] = copied(a.in.Draft)
	}
	return Change{Name: &a.in.Name, FolderID: &a.in.FolderID, Slug: &a.in.Slug, Meta: meta}
}

// publication returns what is published: the draft, with its title and its description also if it has none.
func (a *application) publication() Publication {
	title, _ := a.in.Draft["title"].(string)
	description, _ := a.in.Draft["description"].(string)
	return Publication{Title: &title, Description: &description, AllowEmbed: ptr.To(a.in.AllowEmbed)}
}

// change returns the defined properties of a report in a workbook.
func (r *DefinedReport) change(workbook int64) ReportChange {
	return ReportChange{
		PublicID: &r.PublicID, Name: &r.Name, Title: &r.Title, JSONQuery: &r.JSONQuery, SQLQuery: &r.SQLQuery,
		PivotItems: r.PivotItems, HasPivotItems: true, Meta: r.Meta, HasMeta: true, WorkbookID: &workbook,
	}
}

// copied returns a deep copy of a JSON value.
func copied(value any) any {
	switch v := value.(type) {
	case Object:
		out := make(Object, len(v))
		for name, item := range v {
			out[name] = copied(item)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = copied(item)
		}
		return out
	}
	return value
}

// Release deletes the workbook of an object, or keeps it without owner. It does nothing if the object has none.
func (w *Workspace) Release(ctx context.Context, s content.Scope, o managed.Object, keep bool) error {
	ctx = managed.As(ctx, o)
	var stored *managed.Record
	err := w.DB.Read(ctx, func(q store.Querier) (err error) {
		stored, err = managed.Find(ctx, q, s, o)
		return err
	})
	if err != nil || stored == nil {
		return err
	}
	return w.change(ctx, s, func(tx *store.Tx) error {
		if stored, err = managed.Find(ctx, tx, s, o); err != nil || stored == nil {
			return err
		}
		if keep {
			return managed.Release(ctx, tx, s, o)
		}
		err := w.delete(ctx, tx, s, stored.ContentID)
		var missing *content.Error
		if errors.As(err, &missing) && missing.Reason == content.NotFound {
			return managed.Release(ctx, tx, s, o)
		}
		return err
	})
}
