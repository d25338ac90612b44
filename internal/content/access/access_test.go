package access_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/content"
	. "github.com/quoin-dev/quoin/internal/content/access"
	"github.com/quoin-dev/quoin/internal/content/contenttest"
	"github.com/quoin-dev/quoin/internal/content/folder"
	"github.com/quoin-dev/quoin/internal/content/subject"
	"github.com/quoin-dev/quoin/internal/content/workspace"
	"github.com/quoin-dev/quoin/internal/store"
	"github.com/quoin-dev/quoin/internal/store/storetest"
)

// The subjects of the tests. Ada is in the groups sales and staff.
var (
	ada     = Subject{Max: Manage, Owner: User("ada"), Groups: []string{Group("sales"), Group("staff")}}
	viewer  = Subject{Max: View, Owner: ada.Owner, Groups: ada.Groups}
	nothing = Subject{Owner: ada.Owner, Groups: ada.Groups}
	program = Subject{All: true, Max: Edit, Owner: "ApiKey:loader"}
)

// decisions is the decision table, which docs/decisions/0083 has too. The objects are a report, its workbook, the folder that
// contains the workbook or the report, and the folder above. Each has the owner carl, unless it says "owned", and these grants.
// Ada asks, unless who is set.
var decisions = []struct {
	report, workbook, folder, above string
	who                             *Subject
	want                            Level
}{
	// One object.
	{workbook: "none", want: None},
	{workbook: "owned", want: Manage},
	{workbook: "user view", want: View},
	{workbook: "user edit", want: Edit},
	{workbook: "user manage", want: Manage},
	{workbook: "group view", want: View},
	{workbook: "everyone edit", want: Edit},
	{workbook: "other manage", want: None},
	{workbook: "user view, group edit, everyone view", want: Edit},
	{workbook: "user view, everyone manage", want: Manage},
	{workbook: "group view, second group edit", want: Edit},
	{workbook: "owned, user view", want: Manage},
	// Folders.
	{workbook: "none", folder: "user edit", want: Edit},
	{workbook: "none", folder: "owned", want: Manage},
	{workbook: "none", folder: "none", above: "group view", want: View},
	{workbook: "none", folder: "none", above: "owned", want: Manage},
	{workbook: "none", folder: "user view", above: "user manage", want: View},
	{workbook: "none", folder: "everyone view", above: "user manage", want: View},
	{workbook: "none", folder: "everyone view", above: "owned", want: View},
	{workbook: "none", folder: "other manage", above: "user edit", want: Edit},
	{workbook: "user view", folder: "user manage", want: View},
	{workbook: "everyone view", folder: "owned", want: View},
	{workbook: "user manage", folder: "user view", want: Manage},
	{workbook: "other view", folder: "user edit", want: Edit},
	{folder: "none", above: "user edit", want: Edit},
	{folder: "group view", above: "owned", want: View},
	{folder: "owned", above: "user view", want: Manage},
	{folder: "none", above: "none", want: None},
	// Reports.
	{report: "none", folder: "user edit", want: Edit},
	{report: "user view", folder: "user edit", want: View},
	{report: "owned", want: Manage},
	{report: "none", workbook: "user edit", want: Edit},
	{report: "none", workbook: "owned", want: Manage},
	{report: "none", workbook: "none", folder: "group edit", want: Edit},
	{report: "none", workbook: "user view", folder: "user manage", want: View},
	{report: "user view", workbook: "user manage", want: View},
	{report: "everyone edit", workbook: "user view", want: Edit},
	{report: "owned", workbook: "user view", want: Manage},
	{report: "none", workbook: "other manage", above: "user view", folder: "none", want: View},
	// Viewers and administrators.
	{workbook: "owned", who: &viewer, want: View},
	{workbook: "user manage", who: &viewer, want: View},
	{workbook: "none", who: &viewer, want: None},
	{workbook: "none", who: &Everything, want: Manage},
	{workbook: "other manage", folder: "everyone view", who: &Everything, want: Manage},
	{workbook: "user view", who: &program, want: Edit},
	{workbook: "everyone manage", who: &nothing, want: None},
}

// step parses what an object of the table has.
func step(text string) Step {
	out := Step{Owner: User("carl"), Grants: map[string]Level{}}
	for part := range strings.SplitSeq(text, ", ") {
		i := strings.LastIndex(part, " ")
		switch part {
		case "owned":
			out.Owner = ada.Owner
			continue
		case "none":
			continue
		}
		level := map[string]Level{"view": View, "edit": Edit, "manage": Manage}[part[i+1:]]
		subject := map[string]string{
			"user": ada.Owner, "group": Group("sales"), "second group": Group("staff"), "everyone": Everyone, "other": User("bob"),
		}[part[:i]]
		if level == None || subject == "" {
			panic(part)
		}
		out.Grants[subject] = level
	}
	return out
}

// who returns the subject of a decision.
func who(i int) Subject {
	if s := decisions[i].who; s != nil {
		return *s
	}
	return ada
}

func TestDecide(t *testing.T) {
	for i, d := range decisions {
		var path []Step
		for _, text := range []string{d.report, d.workbook, d.folder, d.above} {
			if text != "" {
				path = append(path, step(text))
			}
		}
		if got := Decide(who(i), path); got != d.want {
			t.Errorf("%+v: %s", d, got)
		}
	}
}

// TestDecisionsAreDocumented compares the table with that of the decision document.
func TestDecisionsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../../docs/decisions/0083-workspace-content.md")
	if err != nil {
		t.Fatal(err)
	}
	table := "| Report | Workbook | Folder | Folder above | Caller | Level |\n|---|---|---|---|---|---|\n"
	for _, d := range decisions {
		caller := map[*Subject]string{
			nil: "ada", &viewer: "ada, as a viewer", &nothing: "ada, without permissions", &Everything: "administrator", &program: "program that may edit",
		}[d.who]
		table += fmt.Sprintf("| %s | %s | %s | %s | %s | %s |\n", d.report, d.workbook, d.folder, d.above, caller, d.want)
	}
	table = strings.ReplaceAll(table, "|  ", "| ")
	if !strings.Contains(strings.ReplaceAll(string(text), "|  ", "| "), table) {
		t.Errorf("docs/decisions/0083-workspace-content.md does not have this table:\n%s", table)
	}
}

// world is a database with the tables of content, empty at first.
type world struct {
	*testing.T
	store *store.Store
	ids   int64
}

var demo = content.Scope{Account: store.Account{UID: "a1", Name: "demo"}, Deployment: store.Deployment{UID: "d1", Namespace: "demo", Name: "sales"}}

func open(t *testing.T, url string) *world {
	w := &world{T: t, store: contenttest.Open(t, url, audit.Owner, subject.Owner, folder.Owner, workspace.Owner, Owner)}
	w.tx(func(tx *store.Tx) error { return tx.LockDeployment(t.Context(), demo.Account, demo.Deployment) })
	return w
}

func (w *world) tx(work func(tx *store.Tx) error) {
	w.Helper()
	if err := w.store.Tx(w.Context(), work); err != nil {
		w.Fatal(err)
	}
}

// add inserts an object with its grants, and returns its id.
func (w *world) add(kind Kind, in Step, folder, workbook int64) int64 {
	w.Helper()
	w.ids++
	id := w.ids
	base := []any{demo.Account.UID, demo.Deployment.UID, id, folder, in.Owner, fmt.Sprint(kind, " ", id)}
	switch kind {
	case Folder:
		contenttest.Exec(w, w.store, `INSERT INTO folder (account_uid, deployment_uid, id, parent_id, owner, name, name_key, position, created_at, created_by, updated_at, updated_by)
			VALUES ($1, $2, $3, $4, $5, $6, $6, 0, 0, '', 0, '')`, base...)
	case Workbook:
		contenttest.Exec(w, w.store, `INSERT INTO workbook (account_uid, deployment_uid, id, folder_id, owner, name, slug, meta, version, created_at, created_by, updated_at, updated_by)
			VALUES ($1, $2, $3, $4, $5, $6, '', '{}', 1, 0, '', 0, '')`, base...)
	case Report:
		if workbook != 0 {
			base[3] = 0
		}
		contenttest.Exec(w, w.store, `INSERT INTO report (account_uid, deployment_uid, id, folder_id, owner, name, workbook_id, public_id, name_key, title, json_query, sql_query,
			pivot_items, meta, source, checksum, version, refreshed_by, created_at, created_by, updated_at, updated_by)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $6, $6, '', '', '', '', '{}', '', '', 1, '', 0, '', 0, '')`, append(base, workbook)...)
	}
	w.tx(func(tx *store.Tx) error {
		for _, subject := range slices.Sorted(maps.Keys(in.Grants)) {
			if _, err := Set(w.Context(), tx, demo, Grant{Object: Object{kind, id}, Subject: subject, Level: in.Grants[subject]}); err != nil {
				return err
			}
		}
		return nil
	})
	return id
}

// list returns the levels of all rows of a table that a subject sees, by id.
func (w *world) list(s Subject, kind Kind) map[int64]Level {
	w.Helper()
	return w.read(s, kind, In(demo, s), "")
}

// read returns the levels of the rows of a table that a subject sees, by id.
func (w *world) read(s Subject, kind Kind, st Statement, condition string) map[int64]Level {
	w.Helper()
	rows := map[Kind]func() Rows{Folder: st.Folders, Workbook: st.Workbooks, Report: st.Reports}[kind]()
	table := strings.ToLower(string(kind))
	query := fmt.Sprintf("%sSELECT id, %s FROM %s%s WHERE account_uid = $1 AND deployment_uid = $2 AND %s%s", st.With, rows.Level, table, rows.Join, rows.Visible, condition)
	found, err := w.store.Reader().QueryContext(w.Context(), query, st.Args...)
	if err != nil {
		w.Fatalf("%s: %v", query, err)
	}
	defer func() { _ = found.Close() }()
	out := map[int64]Level{}
	for found.Next() {
		var id int64
		var level Level
		if err := found.Scan(&id, &level); err != nil {
			w.Fatal(err)
		}
		if _, twice := out[id]; twice {
			w.Errorf("%s %d is listed twice", kind, id)
		}
		out[id] = s.Limited(level)
	}
	if err := found.Err(); err != nil {
		w.Fatal(err)
	}
	return out
}

// checkWithin checks that the lists of the root, of all folders and of all workbooks have together what the lists of everything have.
func (w *world) checkWithin(s Subject) {
	w.Helper()
	for _, kind := range []Kind{Folder, Workbook, Report} {
		together := map[int64]Level{}
		within := func(in Object, level Level, column string) {
			maps.Copy(together, w.read(s, kind, Within(demo, s, level), fmt.Sprintf(" AND %s = %d", column, in.ID)))
		}
		column := map[Kind]string{Folder: "parent_id", Workbook: "folder_id", Report: "workbook_id = 0 AND folder_id"}[kind]
		within(Object{}, None, column)
		for id := range w.all(Folder) {
			o := Object{Folder, id}
			within(o, w.of(s, o), column)
		}
		for id := range w.all(Workbook) {
			if o := (Object{Workbook, id}); kind == Report {
				within(o, w.of(s, o), "workbook_id")
			}
		}
		if all := w.list(s, kind); !maps.Equal(all, together) {
			w.Errorf("%+v: lists within folders and workbooks have %v, that of everything has %v", s, together, all)
		}
	}
}

// all returns the ids of the rows of a table.
func (w *world) all(kind Kind) map[int64]Level {
	w.Helper()
	return w.list(Everything, kind)
}

func (w *world) of(s Subject, o Object) Level {
	w.Helper()
	level, err := Of(w.Context(), w.store.Reader(), demo, s, o)
	if err != nil {
		w.Fatal(err)
	}
	return level
}

// cases run on both databases.
var cases = []struct {
	name string
	run  func(w *world)
}{
	{"the decision table", testDecisions},
	{"folders above what is reached are visible", testWay},
	{"deep trees", testDepth},
	{"what is required", testRequire},
	{"grants", testGrants},
	{"groups of the same name", testGroupsOfTheSameName},
	{"sharing", testSharing},
	{"grants to deleted groups do not count", testGrantsToDeletedGroups},
}

func TestDatabases(t *testing.T) {
	storetest.ForEach(t, func(t *testing.T, newDatabase func(testing.TB) string) {
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) { c.run(open(t, newDatabase(t))) })
		}
	})
}

func testDecisions(w *world) {
	objects := make([]Object, len(decisions))
	for i, d := range decisions {
		var above, in, workbook int64
		o := &objects[i]
		if d.above != "" {
			above = w.add(Folder, step(d.above), 0, 0)
			*o = Object{Folder, above}
		}
		if d.folder != "" {
			in = w.add(Folder, step(d.folder), above, 0)
			*o = Object{Folder, in}
		}
		if d.workbook != "" {
			workbook = w.add(Workbook, step(d.workbook), in, 0)
			*o = Object{Workbook, workbook}
		}
		if d.report != "" {
			*o = Object{Report, w.add(Report, step(d.report), in, workbook)}
		}
	}
	for i, d := range decisions {
		s := who(i)
		if got := w.of(s, objects[i]); got != d.want {
			w.Errorf("%+v: Of returns %s", d, got)
		}
		listed := w.list(s, objects[i].Kind)
		if got, visible := listed[objects[i].ID]; got != d.want || visible != (d.want != None) {
			w.Errorf("%+v: the statement has %s, visible %t", d, got, visible)
		}
	}
	for _, s := range []Subject{ada, viewer, nothing, program, Everything} {
		w.checkWithin(s)
	}
}

func testWay(w *world) {
	none := step("none")
	top := w.add(Folder, none, 0, 0)
	left, right := w.add(Folder, none, top, 0), w.add(Folder, none, top, 0)
	deep, beside := w.add(Folder, none, left, 0), w.add(Folder, none, left, 0)
	for _, c := range []struct {
		add  func() int64
		want []int64
	}{
		{func() int64 { return 0 }, nil},
		{func() int64 { return w.add(Workbook, step("other manage"), deep, 0) }, nil},
		{func() int64 { return w.add(Workbook, step("user view"), deep, 0) }, []int64{top, left, deep}},
		{func() int64 { return w.add(Report, step("owned"), 0, w.add(Workbook, none, right, 0)) }, []int64{top, left, right, deep}},
		{func() int64 { return w.add(Folder, step("owned"), beside, 0) }, []int64{top, left, right, deep, beside}},
	} {
		added, got := c.add(), w.list(ada, Folder)
		w.checkWithin(ada)
		delete(got, added) // the folder in beside
		if shown := slices.Sorted(maps.Keys(got)); !slices.Equal(shown, c.want) {
			w.Errorf("visible: %v, want %v", shown, c.want)
		}
		for _, id := range []int64{top, left, right, deep, beside} {
			if got[id] != None {
				w.Errorf("folder %d has the level %s", id, got[id])
			}
			if shows, err := Shows(w.Context(), w.store.Reader(), demo, ada, id); err != nil || shows != slices.Contains(c.want, id) {
				w.Errorf("folder %d is shown: %t, %v", id, shows, err)
			}
		}
	}
}

func testDepth(w *world) {
	parent, deepest := int64(0), int64(0)
	for i := range 10 {
		in := step("none")
		if i == 0 {
			in = step("user edit")
		}
		parent = w.add(Folder, in, parent, 0)
		deepest = parent
	}
	report := w.add(Report, step("none"), 0, w.add(Workbook, step("none"), deepest, 0))
	for _, o := range []Object{{Folder, deepest}, {Report, report}} {
		if got, listed := w.of(ada, o), w.list(ada, o.Kind)[o.ID]; got != Edit || listed != Edit {
			w.Errorf("%v: %s, listed %s", o, got, listed)
		}
	}
}

func testRequire(w *world) {
	hidden := w.add(Folder, step("none"), 0, 0)
	way := w.add(Folder, step("none"), 0, 0)
	shared := w.add(Workbook, step("user edit"), way, 0)
	for _, c := range []struct {
		who    Subject
		on     Object
		needed Level
		reason content.Reason
		text   string
	}{
		{ada, Object{Folder, hidden}, View, content.NotFound, fmt.Sprintf("folder %d does not exist", hidden)},
		{ada, Object{Folder, way}, View, content.Forbidden, fmt.Sprintf("folder %d: the level view is needed; the caller has none", way)},
		{ada, Object{Workbook, shared}, Edit, "", ""},
		{ada, Object{Workbook, shared}, Manage, content.Forbidden, fmt.Sprintf("workbook %d: the level manage is needed; the caller has edit", shared)},
		{viewer, Object{Workbook, shared}, Edit, content.Forbidden, "the caller has view, because it does not hold the permission WorkbookEdit"},
		{Everything, Object{Folder, hidden}, Manage, "", ""},
		{program, Object{Folder, hidden}, Manage, content.Forbidden, "the caller has edit, because it does not hold the permission FolderManage"},
		{nothing, Object{Workbook, shared}, View, content.NotFound, "does not exist"},
		{ada, Object{Report, 999_999}, View, content.NotFound, "report 999999 does not exist"},
	} {
		err := Require(w.Context(), w.store.Reader(), demo, c.who, c.on, c.needed)
		if c.reason == "" && err == nil {
			continue
		}
		contenttest.Rejects(w, err, c.reason, c.text)
	}
}

func testGrants(w *world) {
	above := w.add(Folder, step("user manage, group view, other edit"), 0, 0)
	id := w.add(Workbook, step("user view, everyone edit"), above, 0)
	o := Object{Workbook, id}
	read := func() (out []string) {
		all, err := Grants(w.Context(), w.store.Reader(), demo, o)
		if err != nil {
			w.Fatal(err)
		}
		for _, g := range all {
			text := fmt.Sprint(g.Name, " ", g.Subject, " ", g.Level)
			if g.IsOwner {
				text += ", owner"
			}
			out = append(out, text)
		}
		return out
	}
	want := []string{"Workbook 2 ScimUser:carl manage, owner", "Workbook 2 Organization: edit", "Workbook 2 ScimUser:ada view", "Folder 1 ScimGroup:sales view", "Folder 1 ScimUser:bob edit"}
	if got := read(); !slices.Equal(got, want) {
		w.Errorf("%q", got)
	}
	for _, c := range []struct {
		subject       string
		level, before Level
	}{{ada.Owner, Edit, View}, {ada.Owner, Edit, Edit}, {ada.Owner, None, Edit}, {ada.Owner, None, None}, {User("bob"), Manage, None}} {
		w.tx(func(tx *store.Tx) error {
			before, err := Set(w.Context(), tx, demo, Grant{Object: o, Subject: c.subject, Level: c.level})
			if before != c.before {
				w.Errorf("%v: before %s", c, before)
			}
			return err
		})
	}
	want = []string{"Workbook 2 ScimUser:carl manage, owner", "Workbook 2 Organization: edit", "Workbook 2 ScimUser:bob manage", "Folder 1 ScimGroup:sales view", "Folder 1 ScimUser:ada manage"}
	if got := read(); !slices.Equal(got, want) {
		w.Errorf("%q", got)
	}
	w.tx(func(tx *store.Tx) error { return Deleted(w.Context(), tx, demo, o) })
	err := w.store.Tx(w.Context(), func(tx *store.Tx) error {
		_, err := Set(w.Context(), tx, demo, Grant{Object: Object{Report, id}, Subject: ada.Owner, Level: View})
		return err
	})
	contenttest.Rejects(w, err, content.NotFound, "does not exist")
	if got := read(); len(got) != 4 || contenttest.Count(w, w.store, "access_grant") != 3 {
		w.Errorf("after the deletion: %q", got)
	}
}

// testGroupsOfTheSameName: what was granted to a deleted group is not granted to a later one of its name.
func testGroupsOfTheSameName(w *world) {
	folder := w.add(Folder, step("none"), 0, 0)
	o := Object{Workbook, w.add(Workbook, step("none"), folder, 0)}
	set := func(uid string, level, wantBefore Level) {
		w.Helper()
		w.tx(func(tx *store.Tx) error {
			before, err := Set(w.Context(), tx, demo, Grant{Object: o, Subject: Group("sales"), GroupUID: uid, Level: level})
			if before != wantBefore {
				w.Errorf("before: %s, want %s", before, wantBefore)
			}
			return err
		})
	}
	member := func(uid string) Subject {
		return Subject{Max: Manage, Owner: ada.Owner, Groups: []string{Group("sales"), Group("staff")}, GroupUIDs: []string{uid, "u-staff"}}
	}
	check := func(want map[string]Level) {
		w.Helper()
		for uid, level := range want {
			who := member(uid)
			if got := w.of(who, o); got != level {
				w.Errorf("a member of group %s has %s, want %s", uid, got, level)
			}
			if got, visible := w.list(who, Workbook)[o.ID]; got != level || visible != (level != None) {
				w.Errorf("the list of a member of group %s has %s, want %s", uid, got, level)
			}
			if shown, err := Shows(w.Context(), w.store.Reader(), demo, who, folder); err != nil || shown != (level != None) {
				w.Errorf("the folder is shown to a member of group %s: %t, %v", uid, shown, err)
			}
			w.checkWithin(who)
		}
	}
	set("", View, None) // of a version without UIDs
	check(map[string]Level{"first": View, "second": View})
	set("first", View, View)
	check(map[string]Level{"first": View, "second": None})
	set("first", Edit, View)
	set("second", None, None) // removes that of the first
	check(map[string]Level{"first": None, "second": None})
	set("first", Edit, None)
	set("second", View, None)
	check(map[string]Level{"first": None, "second": View})
	if n := contenttest.Count(w, w.store, "access_grant"); n != 1 {
		w.Errorf("there are %d grants", n)
	}
}

func testSharing(w *world) {
	var events []string
	sharing := &Sharing{DB: w.store, Record: func(_ context.Context, _ *store.Tx, e audit.Event) error {
		events = append(events, fmt.Sprintf("%s %s %s", e.Name, e.Object, e.Changes))
		return nil
	}}
	o := Object{Workbook, w.add(Workbook, step("user edit, group manage"), 0, 0)}
	editor := Caller{Principal: "ApiKey:a", Owner: ada.Owner, Access: Subject{Max: Manage, Owner: ada.Owner}}
	manager := Caller{Principal: "ApiKey:b", Owner: ada.Owner, Access: ada}
	bob := To{Subject: User("bob"), User: &subject.User{Name: "bob", UID: "u1"}}
	set := func(by Caller, to To, level Level) error {
		_, err := sharing.Set(w.Context(), demo, by, o, to, level)
		return err
	}
	contenttest.Rejects(w, set(editor, bob, View), content.Forbidden, "the level manage is needed; the caller has edit")
	for _, level := range []Level{None, View, View, Manage, None, None, Edit} {
		if err := set(manager, bob, level); err != nil {
			w.Errorf("%s: %v", level, err)
		}
	}
	want := []string{"Granted access", "Granted access", "Revoked access", "Granted access"}
	if len(events) != len(want) || !strings.Contains(events[1], `"ScimUser:bob":{"before":"view","after":"manage"}`) {
		w.Errorf("%q", events)
	}
	for i := range min(len(events), len(want)) {
		if !strings.HasPrefix(events[i], want[i]) {
			w.Errorf("%q is not %q", events[i], want[i])
		}
	}
	// Another user of the same name cannot be granted anything before the content of the former one is handed over.
	next := To{Subject: bob.Subject, User: &subject.User{Name: "bob", UID: "u2"}}
	for _, level := range []Level{Manage, Edit} { // the former one has edit
		contenttest.Rejects(w, set(manager, next, level), content.Conflict, "userId: ")
	}
	if got := w.of(Subject{Max: Manage, Owner: User("bob")}, o); got != Edit {
		w.Errorf("bob has %s", got)
	}
	contenttest.Rejects(w, func() error { _, err := sharing.Grants(w.Context(), demo, manager, Object{Report, o.ID}); return err }(), content.NotFound, "does not exist")
	if uid, err := sharing.DeploymentUID(w.Context(), demo.Account, o); err != nil || uid != demo.Deployment.UID {
		w.Error(uid, err)
	}
	if _, err := sharing.DeploymentUID(w.Context(), store.Account{UID: "a2"}, o); err == nil {
		w.Error("another account has the workbook")
	}
	// A failure of the database is no conflict, and is not described to the caller.
	contenttest.Exec(w, w.store, "DROP TABLE content_user")
	var rejected *content.Error
	if err := set(manager, To{Subject: User("dora"), User: &subject.User{Name: "dora", UID: "u3"}}, View); err == nil || errors.As(err, &rejected) {
		w.Errorf("without the table of users: %v", err)
	}
}

// insertGrant inserts a grant as it is, to a group with a UID or to a user.
func (w *world) insertGrant(o Object, subject, uid string) {
	w.Helper()
	contenttest.Exec(w, w.store, `INSERT INTO access_grant (account_uid, deployment_uid, object_kind, object_id, subject, level, created_at, created_by, group_uid)
		VALUES ($1, $2, 'Folder', $3, $4, 1, 0, '', $5)`, demo.Account.UID, demo.Deployment.UID, o.ID, subject, uid)
}

// testGrantsToDeletedGroups: an object with the maximum number of grants can have another one if some are to deleted groups.
func testGrantsToDeletedGroups(w *world) {
	o := Object{Folder, w.add(Folder, step("none"), 0, 0)}
	other := Object{Folder, w.add(Folder, step("none"), 0, 0)}
	for i := range MaxGrants - 4 {
		w.insertGrant(o, User(fmt.Sprint("u", i)), "")
	}
	for group, uid := range map[string]string{"kept": "k1", "again": "old", "deleted": "d1", "unknown": ""} {
		w.insertGrant(o, Group(group), uid)
	}
	w.insertGrant(other, Group("deleted"), "d1")
	live := map[string]string{"kept": "k1", "again": "old", "deleted": "d1", "unknown": "x1"}
	var failure error
	var events int
	sharing := &Sharing{
		DB: w.store, Record: func(context.Context, *store.Tx, audit.Event) error { events++; return nil },
		GroupIsGone: func(_ context.Context, group, uid string) (bool, error) {
			return live[group] == "" || uid != "" && live[group] != uid, failure
		},
	}
	manager := Caller{Principal: "ApiKey:b", Owner: "ApiKey:b", Access: Everything}
	add := func(user string) error {
		_, err := sharing.Set(w.Context(), demo, manager, o, To{Subject: User(user), User: &subject.User{Name: user, UID: "u"}}, View)
		return err
	}
	check := func(want ...string) {
		w.Helper()
		all, err := Grants(w.Context(), w.store.Reader(), demo, o)
		if err != nil {
			w.Fatal(err)
		}
		var got []string
		for _, g := range all {
			if strings.HasPrefix(g.Subject, Group("")) {
				got = append(got, strings.TrimPrefix(g.Subject, Group(""))+" "+g.GroupUID)
			}
		}
		if !slices.Equal(got, want) {
			w.Errorf("grants to groups: %q, want %q", got, want)
		}
	}
	contenttest.Rejects(w, add("new"), content.Conflict, "has 1000 grants already; allowed: 1000")
	check("again old", "deleted d1", "kept k1", "unknown ")
	live = map[string]string{"kept": "k1", "again": "new"}
	if failure = errors.New("no answer"); !errors.Is(add("new"), failure) {
		w.Error("the failure of the lookup is not returned")
	}
	check("again old", "deleted d1", "kept k1", "unknown ")
	failure = nil
	for _, user := range []string{"new", "new", "second", "third"} {
		if err := add(user); err != nil {
			w.Errorf("%s: %v", user, err)
		}
	}
	check("kept k1")
	contenttest.Rejects(w, add("fourth"), content.Conflict, "has 1000 grants already")
	if events != 3 {
		w.Errorf("%d events", events)
	}
	if n := contenttest.Count(w, w.store, "access_grant"); n != MaxGrants+1 {
		w.Errorf("%d grants: that on another object was removed", n)
	}
}
