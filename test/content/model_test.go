package content_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/quoin-dev/quoin/internal/content/access"
	"github.com/quoin-dev/quoin/internal/content/folder"
)

// object is a folder, a workbook or a report.
type object struct {
	access.Object
	// folder is the one that contains it, 0 for the root; workbook is that of a report.
	folder, workbook          int64
	name, slug, publicID, sql string
	owner                     string
	grants                    map[string]access.Level
	versions                  []version
}

// version is a version of the dashboard of a workbook: the reports that it shows.
type version struct {
	number  int64
	reports []string
}

// model is the content of a deployment as it has to be.
type model struct {
	objects map[access.Object]*object
	// members are the groups of each user.
	members map[string]map[string]bool
}

func newModel() *model {
	return &model{objects: map[access.Object]*object{}, members: map[string]map[string]bool{}}
}

func (m *model) add(o *object) {
	o.grants = map[string]access.Level{}
	m.objects[o.Object] = o
}

// find returns an object; nil if there is none.
func (m *model) find(kind access.Kind, id int64) *object {
	return m.objects[access.Object{Kind: kind, ID: id}]
}

// all returns the objects of a kind by id.
func (m *model) all(kind access.Kind) []*object {
	var out []*object
	for _, o := range m.objects {
		if o.Kind == kind {
			out = append(out, o)
		}
	}
	slices.SortFunc(out, func(a, b *object) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// above returns what contains an object; nil at the root.
func (m *model) above(o *object) *object {
	if o.workbook != 0 {
		return m.find(access.Workbook, o.workbook)
	}
	return m.find(access.Folder, o.folder)
}

// path returns an object and what contains it, the nearest first.
func (m *model) path(o *object) (out []*object) {
	for ; o != nil; o = m.above(o) {
		out = append(out, o)
	}
	return out
}

// caller is a person, or a program that acts for itself.
type caller struct {
	name    string
	program bool
	max     access.Level
}

func (c caller) owner() string {
	if c.program {
		return "ApiKey:" + c.name
	}
	return access.User(c.name)
}

// asked returns the caller as the packages of content see it.
func (m *model) asked(c caller) access.Caller {
	by := access.Caller{Principal: "ApiKey:" + c.name, Owner: c.owner(), Access: access.Subject{All: c.program, Max: c.max, Owner: c.owner()}}
	for _, group := range slices.Sorted(maps.Keys(m.members[c.name])) {
		by.Access.Groups = append(by.Access.Groups, access.Group(group))
	}
	return by
}

// own returns the level that a person has on an object itself.
func (m *model) own(c caller, o *object) access.Level {
	if o.owner == c.owner() {
		return access.Manage
	}
	level := max(o.grants[c.owner()], o.grants[access.Everyone])
	for group := range m.members[c.name] {
		level = max(level, o.grants[access.Group(group)])
	}
	return level
}

// level returns the level that a caller has on an object.
func (m *model) level(c caller, o *object) access.Level {
	if c.program {
		return c.max
	}
	for _, at := range m.path(o) {
		if own := m.own(c, at); own > access.None {
			return min(own, c.max)
		}
	}
	return access.None
}

// shown reports whether a caller sees an object: a folder also if there is something below it on which the caller has a level.
func (m *model) shown(c caller, o *object) bool {
	if m.level(c, o) > access.None {
		return true
	}
	if o.Kind != access.Folder {
		return false
	}
	for _, other := range m.objects {
		if m.own(c, other) > access.None && slices.Contains(m.path(other), o) {
			return true
		}
	}
	return false
}

// text returns everything, in order. Versions have their reports, and not who has published them.
func (m *model) text() string {
	var lines []string
	for _, kind := range []access.Kind{access.Folder, access.Workbook, access.Report} {
		for _, o := range m.all(kind) {
			line := fmt.Sprintf("%s %d %q in %d %d, slug %q, id %q, sql %q, of %s, granted", kind, o.ID, o.name, o.folder, o.workbook, o.slug, o.publicID, o.sql, o.owner)
			for _, subject := range slices.Sorted(maps.Keys(o.grants)) {
				line += fmt.Sprintf(" %s %s", subject, o.grants[subject])
			}
			for _, v := range o.versions {
				line += fmt.Sprintf("; version %d %q", v.number, v.reports)
			}
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}

// check returns an error if the content breaks a rule that no order of changes may break.
func (m *model) check() error {
	names, slugs := map[string]bool{}, map[string]bool{}
	for _, o := range m.objects {
		depth := 0
		for at := o; at.folder != 0 || at.workbook != 0; at = m.above(at) {
			if m.above(at) == nil {
				return fmt.Errorf("%s %d is below %s %d, which is in nothing that exists", o.Kind, o.ID, at.Kind, at.ID)
			}
			if depth++; depth > folder.MaxDepth+1 {
				return fmt.Errorf("%s %d is in a cycle, or too deep", o.Kind, o.ID)
			}
		}
		name := fmt.Sprint(o.folder, " ", strings.ToLower(o.name))
		switch {
		case o.folder != 0 && o.workbook != 0:
			return fmt.Errorf("report %d is in a folder and in a workbook", o.ID)
		case o.Kind == access.Folder && depth >= folder.MaxDepth:
			return fmt.Errorf("folder %d is too deep", o.ID)
		case o.Kind == access.Folder && names[name]:
			return fmt.Errorf("two folders have the name %q in %d", o.name, o.folder)
		case o.slug != "" && slugs[o.slug]:
			return fmt.Errorf("two workbooks have the slug %q", o.slug)
		}
		if o.Kind == access.Folder {
			names[name] = true
		}
		slugs[o.slug] = true
	}
	return nil
}
