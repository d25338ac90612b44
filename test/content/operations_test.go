package content_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"k8s.io/utils/ptr"

	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/access"
	"github.com/quoin-dev/quoin/internal/content/folder"
	"github.com/quoin-dev/quoin/internal/content/managed"
	"github.com/quoin-dev/quoin/internal/content/subject"
	"github.com/quoin-dev/quoin/internal/content/workspace"
	"github.com/quoin-dev/quoin/internal/store"
)

// operation is a random change. It has the same meaning whatever was changed before, so a sequence of operations without some of
// them is a sequence of operations.
type operation struct {
	kind string
	by   int
	// id is that of the object, to that of the folder or workbook, n another random number.
	id, to, n int64
}

func (o operation) String() string {
	return fmt.Sprintf("{%q, %d, %d, %d, %d}, // %s", o.kind, o.by, o.id, o.to, o.n, callers[o.by].name)
}

var callers = []caller{
	{"admin", true, access.Manage}, {"editor", true, access.Edit},
	{"ada", false, access.Manage}, {"bob", false, access.Manage}, {"vic", false, access.View},
}

var groups = []string{"sales", "staff"}

// weights are how often operations are made.
var weights = map[string]int{
	"create folder": 20, "rename folder": 3, "move folder": 12, "delete folder": 4,
	"create workbook": 12, "upsert workbook": 12, "update workbook": 8, "delete workbook": 3,
	"create report": 12, "upsert report": 12, "update report": 8, "delete report": 3,
	"publish": 12, "restore": 8, "grant": 20, "member": 4, "delete user": 1, "bulk move": 6, "bulk delete": 2,
}

// randomOperation returns the operation of a step. Ids are those of objects that may exist.
func randomOperation(r *rand.Rand, step int) operation {
	var kinds []string
	for _, kind := range slices.Sorted(maps.Keys(weights)) {
		kinds = append(kinds, slices.Repeat([]string{kind}, weights[kind])...)
	}
	most := int64(step/20 + 4)
	o := operation{kinds[r.IntN(len(kinds))], r.IntN(len(callers)), r.Int64N(most) + 1, r.Int64N(most) + 1, r.Int64N(1 << 20)}
	if r.IntN(3) == 0 {
		o.to = 0
	}
	if o.kind == "move folder" { // of few, so that some are moved into themselves
		o.by, o.id, o.to = o.by%3, r.Int64N(6)+1, r.Int64N(8)
	}
	return o
}

// world is the content of a deployment, with the model of it.
type world struct {
	ctx     context.Context //nolint:containedctx // that of the test
	store   *store.Store
	folders *folder.Folders
	content *workspace.Workspace
	users   *subject.Users
	model   *model
	// api serves bulk requests.
	api *rest.API
}

var (
	owners = []store.Owner{audit.Owner, managed.Owner, folder.Owner, access.Owner, workspace.Owner, subject.Owner}
	demo   = content.Scope{Account: store.Account{UID: "a1", Name: "demo"}, Deployment: store.Deployment{UID: "d1", Namespace: "demo", Name: "sales"}}
)

func unrecorded(context.Context, *store.Tx, audit.Event) error { return nil }

func newWorld(ctx context.Context, s *store.Store) *world {
	w := &world{
		ctx: ctx, store: s, model: newModel(),
		folders: &folder.Folders{DB: s, Record: unrecorded, Deleted: workspace.FolderDeleted},
		content: &workspace.Workspace{DB: s, Record: unrecorded},
		users:   &subject.Users{DB: s, Parts: slices.Concat(folder.OfUsers, workspace.OfUsers, access.OfUsers)},
	}
	w.api = newAPI(w)
	return w
}

// outcome is what an operation has to result in.
type outcome struct {
	// reason is that of the rejection; empty for a success, after which then changes the model.
	reason content.Reason
	then   func()
	// different is how the outcomes of a bulk request differ from those that it has to have; empty if they do not.
	different string
}

func rejected(r content.Reason) outcome { return outcome{reason: r} }

// do makes a change and returns what it has to result in, and its error. The outcome is that of the model before the change.
func (w *world) do(o operation) (outcome, error) {
	c := callers[o.by]
	by := w.model.asked(c)
	switch kind, what, _ := strings.Cut(o.kind, " "); {
	case what == "folder":
		return w.doFolder(o, kind, c, by)
	case what == "workbook":
		return w.doWorkbook(o, kind, c, by)
	case what == "report":
		return w.doReport(o, kind, c, by)
	case kind == "bulk":
		return w.bulk(o, what, c)
	}
	switch o.kind {
	case "publish":
		return w.publish(o, c, by)
	case "restore":
		return w.restore(o, c, by)
	case "grant":
		return w.grant(o)
	case "member":
		return w.member(o), nil
	}
	return w.deleteUser(c)
}

// needs returns the rejection of a caller without a level on an object; empty if there is none.
func (m *model) needs(c caller, kind access.Kind, id int64, needed access.Level) content.Reason {
	o := m.find(kind, id)
	if o == nil || !m.shown(c, o) {
		return content.NotFound
	}
	if m.level(c, o) < needed {
		return content.Forbidden
	}
	return ""
}

// into returns the rejection of a caller who puts something into a folder; empty if there is none.
func (m *model) into(c caller, id int64) content.Reason {
	if id == 0 {
		return ""
	}
	return m.needs(c, access.Folder, id, access.Edit)
}

// first returns the first rejection.
func first(reasons ...func() content.Reason) content.Reason {
	for _, reason := range reasons {
		if r := reason(); r != "" {
			return r
		}
	}
	return ""
}

// rejects returns a rejection if a condition is true.
func rejects(is bool, r content.Reason) content.Reason {
	if is {
		return r
	}
	return ""
}

// grant changes a grant as an administrator.
func (w *world) grant(o operation) (outcome, error) {
	kind := []access.Kind{access.Folder, access.Workbook, access.Report}[o.n%3]
	target := w.model.find(kind, o.id)
	if target == nil {
		return outcome{}, nil
	}
	subjects := []string{access.User("ada"), access.User("bob"), access.User("vic"), access.Group("sales"), access.Group("staff"), access.Everyone}
	who, level := subjects[o.n/3%int64(len(subjects))], access.Level(o.n/30%4)
	err := w.store.Tx(w.ctx, func(tx *store.Tx) error {
		if err := tx.LockDeployment(w.ctx, demo.Account, demo.Deployment); err != nil {
			return err
		}
		_, err := access.Set(w.ctx, tx, demo, access.Grant{Object: target.Object, Subject: who, Level: level, CreatedBy: "ApiKey:admin"})
		return err
	})
	return outcome{then: func() {
		if target.grants[who] = level; level == access.None {
			delete(target.grants, who)
		}
	}}, err
}

// member makes a person a member of a group, or ends that.
func (w *world) member(o operation) outcome {
	name, group := callers[o.by].name, groups[o.n%int64(len(groups))]
	return outcome{then: func() {
		if w.model.members[name] == nil {
			w.model.members[name] = map[string]bool{}
		}
		if w.model.members[name][group] {
			delete(w.model.members[name], group)
		} else {
			w.model.members[name][group] = true
		}
	}}
}

// deleteUser deletes a person. There is another one of the name then, in the same groups.
func (w *world) deleteUser(c caller) (outcome, error) {
	user := subject.User{Name: c.name, UID: "u"}
	err := w.users.Use(w.ctx, demo.Account, user)
	if err == nil {
		err = w.users.Release(w.ctx, demo.Account, user, unrecorded)
	}
	return outcome{then: func() {
		for _, o := range w.model.objects {
			delete(o.grants, access.User(c.name))
			if o.owner == access.User(c.name) {
				o.owner = subject.Administrators(demo.Account.Name)
			}
		}
	}}, err
}

// doFolder creates, renames, moves or deletes a folder.
func (w *world) doFolder(o operation, kind string, c caller, by access.Caller) (outcome, error) {
	m, name := w.model, []string{"North", "SOUTH", "north", "East"}[o.n%4]
	taken := func(parent, but int64) bool {
		return slices.ContainsFunc(m.all(access.Folder), func(f *object) bool {
			return f.folder == parent && f.ID != but && strings.EqualFold(f.name, name)
		})
	}
	target := m.find(access.Folder, o.id)
	switch kind {
	case "create":
		path, err := w.folders.Create(w.ctx, demo, by, folder.New{Name: name, ParentID: o.to})
		reason := first(
			func() content.Reason { return m.into(c, o.to) },
			func() content.Reason { return rejects(m.depth(o.to) >= folder.MaxDepth, content.Invalid) },
			func() content.Reason { return rejects(taken(o.to, 0), content.Conflict) },
		)
		return outcome{reason: reason, then: func() {
			m.add(&object{Object: access.Object{Kind: access.Folder, ID: path[len(path)-1].ID}, folder: o.to, name: name, owner: c.owner()})
		}}, err
	case "rename":
		_, err := w.folders.Update(w.ctx, demo, by, o.id, folder.Update{Name: &name})
		reason := first(
			func() content.Reason { return m.needs(c, access.Folder, o.id, access.Edit) },
			func() content.Reason { return rejects(taken(target.folder, o.id), content.Conflict) },
		)
		return outcome{reason: reason, then: func() { target.name = name }}, err
	case "move":
		_, err := w.folders.Move(w.ctx, demo, by, o.id, o.to)
		return m.moved(c, target, o), err
	}
	err := w.folders.Delete(w.ctx, demo, by, o.id)
	return m.deletedFolder(c, o.id), err
}

// deletedFolder returns the outcome of deleting a folder.
func (m *model) deletedFolder(c caller, id int64) outcome {
	reason := first(
		func() content.Reason { return m.needs(c, access.Folder, id, access.Manage) },
		func() content.Reason {
			return rejects(slices.ContainsFunc(m.all(access.Folder), func(f *object) bool { return f.folder == id }), content.Invalid)
		},
	)
	return outcome{reason: reason, then: func() {
		delete(m.objects, access.Object{Kind: access.Folder, ID: id})
		for _, other := range m.objects {
			if other.folder == id {
				other.folder = 0
			}
		}
	}}
}

// depth returns the number of folders on the path to a folder.
func (m *model) depth(id int64) int { return len(m.path(m.find(access.Folder, id))) }

// moved returns the outcome of moving a folder.
func (m *model) moved(c caller, target *object, o operation) outcome {
	return outcome{reason: first(
		func() content.Reason { return m.needs(c, access.Folder, o.id, access.Manage) },
		func() content.Reason { return m.into(c, o.to) },
		func() content.Reason {
			if target.folder == o.to {
				return ""
			}
			if slices.Contains(m.path(m.find(access.Folder, o.to)), target) {
				return content.Invalid
			}
			height := 0
			for _, f := range m.all(access.Folder) {
				if slices.Contains(m.path(f), target) {
					height = max(height, m.depth(f.ID)-m.depth(target.ID)+1)
				}
			}
			return rejects(m.depth(o.to)+height > folder.MaxDepth, content.Invalid)
		},
		func() content.Reason {
			return rejects(slices.ContainsFunc(m.all(access.Folder), func(f *object) bool {
				return f.folder == o.to && f != target && strings.EqualFold(f.name, target.name)
			}), content.Conflict)
		},
	), then: func() { target.folder = o.to }}
}

// doWorkbook creates, updates, upserts or deletes a workbook.
func (w *world) doWorkbook(o operation, kind string, c caller, by access.Caller) (outcome, error) {
	m, target := w.model, w.model.find(access.Workbook, o.id)
	slug, takeover, name := []string{"", "", "s1", "s2", "s3"}[o.n%5], o.n/5%2 == 0, fmt.Sprint("w", o.n%7)
	in := workspace.Change{Name: &name, Takeover: takeover}
	if o.n/10%2 == 0 {
		in.FolderID = &o.to
	}
	switch kind {
	case "create":
		in.FolderID, in.Slug = &o.to, &slug
		wb, err := w.content.Create(w.ctx, demo, by, in)
		return m.createdWorkbook(c, o.to, slug, name, takeover, wb), err
	case "upsert":
		if slug == "" {
			slug = "s4"
		}
		wb, err := w.content.Upsert(w.ctx, demo, by, slug, in)
		for _, other := range m.all(access.Workbook) {
			if other.slug == slug {
				return m.updatedWorkbook(c, other, in, content.Conflict), err
			}
		}
		return m.createdWorkbook(c, ptr.Deref(in.FolderID, 0), slug, name, takeover, wb), err
	case "update":
		in.Slug = &slug
		_, err := w.content.Update(w.ctx, demo, by, o.id, in)
		return m.updatedWorkbook(c, target, in, content.NotFound), err
	}
	err := w.content.Delete(w.ctx, demo, by, o.id)
	return m.deletedWorkbook(c, o.id), err
}

// deletedWorkbook returns the outcome of deleting a workbook.
func (m *model) deletedWorkbook(c caller, id int64) outcome {
	return outcome{reason: m.needs(c, access.Workbook, id, access.Manage), then: func() {
		delete(m.objects, access.Object{Kind: access.Workbook, ID: id})
		for _, r := range m.all(access.Report) {
			if r.workbook == id {
				delete(m.objects, r.Object)
			}
		}
	}}
}

// slugFree returns the rejection of a slug of a workbook, and the workbook that loses it.
func (m *model) slugFree(c caller, slug string, takeover bool, but *object) (content.Reason, *object) {
	for _, other := range m.all(access.Workbook) {
		if slug == "" || other == but || other.slug != slug {
			continue
		}
		switch level := m.level(c, other); {
		case level == access.None, !takeover:
			return content.Conflict, nil
		case level < access.Edit:
			return content.Forbidden, nil
		}
		return "", other
	}
	return "", nil
}

func (m *model) createdWorkbook(c caller, in int64, slug, name string, takeover bool, created *workspace.Workbook) outcome {
	if r := m.into(c, in); r != "" {
		return rejected(r)
	}
	r, loser := m.slugFree(c, slug, takeover, nil)
	return outcome{reason: r, then: func() {
		if loser != nil {
			loser.slug = ""
		}
		m.add(&object{Object: access.Object{Kind: access.Workbook, ID: created.ID}, folder: in, name: name, slug: slug, owner: c.owner()})
	}}
}

// updatedWorkbook returns the outcome of updating a workbook; hidden is the rejection for one that the caller does not see.
func (m *model) updatedWorkbook(c caller, target *object, in workspace.Change, hidden content.Reason) outcome {
	if target == nil {
		return rejected(content.NotFound)
	}
	needed, slug := access.Edit, ptr.Deref(in.Slug, target.slug)
	if in.FolderID != nil {
		needed = access.Manage
	}
	switch r := m.needs(c, access.Workbook, target.ID, needed); {
	case r == content.NotFound:
		return rejected(hidden)
	case r != "":
		return rejected(r)
	}
	to := ptr.Deref(in.FolderID, target.folder)
	if in.FolderID != nil {
		if r := m.into(c, to); r != "" {
			return rejected(r)
		}
	}
	r, loser := content.Reason(""), (*object)(nil)
	if to != target.folder || slug != target.slug {
		r, loser = m.slugFree(c, slug, in.Takeover, target)
	}
	return outcome{reason: r, then: func() {
		if loser != nil {
			loser.slug = ""
		}
		target.folder, target.slug, target.name = to, slug, *in.Name
	}}
}

// doReport creates, updates, upserts or deletes a report.
func (w *world) doReport(o operation, kind string, c caller, by access.Caller) (outcome, error) {
	m, target := w.model, w.model.find(access.Report, o.id)
	publicID, sql := fmt.Sprintf("report%06d", o.n%30), fmt.Sprint("SELECT ", o.n%5)
	in := workspace.ReportChange{SQLQuery: &sql}
	switch o.n / 10 % 3 {
	case 0:
		in.FolderID = &o.to
	case 1:
		in.WorkbookID = &o.to
	}
	switch kind {
	case "create":
		r, err := w.content.CreateReport(w.ctx, demo, by, in)
		return m.createdReport(c, in, r), err
	case "upsert":
		r, err := w.content.UpsertReport(w.ctx, demo, by, publicID, in)
		for _, other := range m.all(access.Report) {
			if other.publicID == publicID {
				return m.updatedReport(c, other, in, content.Conflict), err
			}
		}
		return m.createdReport(c, in, r), err
	case "update":
		_, err := w.content.UpdateReport(w.ctx, demo, by, o.id, in)
		return m.updatedReport(c, target, in, content.NotFound), err
	}
	err := w.content.DeleteReport(w.ctx, demo, by, o.id)
	return m.deletedReport(c, o.id), err
}

// deletedReport returns the outcome of deleting a report.
func (m *model) deletedReport(c caller, id int64) outcome {
	return outcome{reason: m.needs(c, access.Report, id, access.Manage), then: func() { delete(m.objects, access.Object{Kind: access.Report, ID: id}) }}
}

// reportInto returns the rejection of a caller who puts a report into a folder or a workbook.
func (m *model) reportInto(c caller, in workspace.ReportChange) content.Reason {
	if in.WorkbookID != nil && *in.WorkbookID != 0 {
		return m.needs(c, access.Workbook, *in.WorkbookID, access.Edit)
	}
	return m.into(c, ptr.Deref(in.FolderID, 0))
}

func (m *model) createdReport(c caller, in workspace.ReportChange, created *workspace.Report) outcome {
	return outcome{reason: m.reportInto(c, in), then: func() {
		m.add(&object{
			Object: access.Object{Kind: access.Report, ID: created.ID}, folder: ptr.Deref(in.FolderID, 0), workbook: ptr.Deref(in.WorkbookID, 0),
			name: workspace.UntitledReport, publicID: created.PublicID, sql: *in.SQLQuery, owner: c.owner(),
		})
	}}
}

func (m *model) updatedReport(c caller, target *object, in workspace.ReportChange, hidden content.Reason) outcome {
	if target == nil {
		return rejected(content.NotFound)
	}
	switch r := m.needs(c, access.Report, target.ID, access.Edit); {
	case r == content.NotFound:
		return rejected(hidden)
	case r != "":
		return rejected(r)
	}
	inFolder, inWorkbook := target.folder, target.workbook
	switch {
	case ptr.Deref(in.WorkbookID, 0) != 0:
		inFolder, inWorkbook = 0, *in.WorkbookID
	case ptr.Deref(in.FolderID, 0) != 0:
		inFolder, inWorkbook = *in.FolderID, 0
	case in.WorkbookID != nil:
		inWorkbook = 0
	case in.FolderID != nil:
		inFolder = 0
	}
	if inFolder != target.folder || inWorkbook != target.workbook {
		if r := first(
			func() content.Reason { return m.needs(c, access.Report, target.ID, access.Manage) },
			func() content.Reason { return m.reportInto(c, in) },
		); r != "" {
			return rejected(r)
		}
	}
	return outcome{then: func() { target.folder, target.workbook, target.sql = inFolder, inWorkbook, *in.SQLQuery }}
}

// reportsOf returns the reports in a workbook.
func (m *model) reportsOf(workbook int64) (out []*object) {
	for _, r := range m.all(access.Report) {
		if r.workbook == workbook {
			out = append(out, r)
		}
	}
	return out
}

// state returns a report as a version shows it.
func (o *object) state() string { return fmt.Sprintf("%d %s %s %s", o.ID, o.publicID, o.name, o.sql) }

// published adds a version that shows reports, unless that is what is shown already.
func (o *object) published(reports []string) {
	if last := len(o.versions); last == 0 || !slices.Equal(o.versions[last-1].reports, reports) {
		o.versions = append(o.versions, version{int64(last + 1), reports})
	}
}

// publish publishes a dashboard with charts of some of the reports of the workbook.
func (w *world) publish(o operation, c caller, by access.Caller) (outcome, error) {
	target, widgets := w.model.find(access.Workbook, o.id), []any{}
	var reports []string
	for i, r := range w.model.reportsOf(o.id) {
		if o.n>>i&1 == 0 {
			reports = append(reports, r.state())
			widgets = append(widgets, chart(i, r.publicID))
		}
	}
	_, err := w.content.Publish(w.ctx, demo, by, o.id, workspace.Publication{Config: workspace.Object{"widgets": widgets}})
	return outcome{reason: w.model.needs(c, access.Workbook, o.id, access.Edit), then: func() { target.published(reports) }}, err
}

// chart returns a widget.
func chart(i int, publicID string) workspace.Object {
	return workspace.Object{
		"id": fmt.Sprint("c", i), "type": "CHART", "position": workspace.Object{"x": 0, "y": 0, "w": 1, "h": 1}, "config": workspace.Object{"reportPublicId": publicID},
	}
}

// restore restores a version.
func (w *world) restore(o operation, c caller, by access.Caller) (outcome, error) {
	m, target, number := w.model, w.model.find(access.Workbook, o.id), o.n%3+1
	restored, err := w.content.Restore(w.ctx, demo, by, o.id, number)
	if r := m.needs(c, access.Workbook, o.id, access.Edit); r != "" {
		return rejected(r), err
	}
	if number > int64(len(target.versions)) {
		return rejected(content.NotFound), err
	}
	known := map[string]*object{}
	for _, r := range m.all(access.Report) {
		known[r.publicID] = r
	}
	var then []func()
	var reports []string
	for i, state := range target.versions[number-1].reports {
		var id int64
		var publicID string
		_, _ = fmt.Sscan(state, &id, &publicID)
		rest := strings.SplitN(state, " ", 3)[2]
		name, sql := rest[:strings.Index(rest, " SELECT ")], rest[strings.Index(rest, "SELECT "):]
		r := known[publicID]
		switch {
		case r == nil:
			if err == nil && i < len(restored.Snapshots) {
				id = restored.Snapshots[i].ReportID
			}
			then = append(then, func() {
				m.add(&object{Object: access.Object{Kind: access.Report, ID: id}, workbook: o.id, name: name, publicID: publicID, sql: sql, owner: c.owner()})
			})
		case r.workbook != o.id:
			return rejected(content.Conflict), err
		default:
			id = r.ID
			then = append(then, func() { r.name, r.sql = name, sql })
		}
		reports = append(reports, fmt.Sprintf("%d %s %s %s", id, publicID, name, sql))
	}
	return outcome{then: func() {
		for _, f := range then {
			f()
		}
		target.published(reports)
	}}, err
}
