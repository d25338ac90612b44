// Package access has who may do what with folders, workbooks and reports.
//
//	access.go      levels, who asks, and the rules as a function
//	statement.go   the rules as a part of statements that read many objects
//	check.go       the level on one object, and errors for a level that is too low
//	grants.go      reading and changing grants
//	sharing.go     who may show and change grants, and their events
//	gone.go        removing grants to deleted groups
//	migrations/    the table of grants
//
// The level of a subject on an object is the first of these:
//
//   - manage, if the subject is All or owns the object;
//   - the highest level that is granted on the object to the user, to the groups of the user, or to everyone;
//   - for a report in a workbook, the level on the workbook; else the level on the folder that contains the object;
//   - none, at the root.
//
// So a grant replaces what is inherited, also if it is lower. Subject.Max limits every level. Folders above what a subject
// reaches are visible with the level none: lists show them, so that people find the way to it.
//
// Statements read the tables folder, workbook and report.
package access

import (
	"embed"
	"fmt"

	"github.com/quoin-dev/quoin/internal/content/subject"
	"github.com/quoin-dev/quoin/internal/store"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Owner has the table of grants.
var Owner = store.Owner{
	Name: "access", Migrations: migrations, Tables: []string{"access_grant"},
	Purge: store.PurgeTable("access_grant", "account_uid, object_kind, object_id, subject"),
}

// OfUsers is what names users: see subject.Users. What was granted to a user is not granted to the administrators.
var OfUsers = []subject.Part{subject.Removed("grants", "access_grant", "account_uid, object_kind, object_id, subject", "subject")}

// Level is what a subject may do with an object. Each includes those before.
type Level int

// The levels.
const (
	None Level = iota
	View
	Edit
	Manage
)

// String returns the name of a level.
func (l Level) String() string {
	switch l {
	case None:
		return "none"
	case View:
		return "view"
	case Edit:
		return "edit"
	case Manage:
		return "manage"
	}
	return fmt.Sprintf("Level(%d)", int(l))
}

// Kind is a kind of object.
type Kind string

// The kinds of objects.
const (
	Folder   Kind = "Folder"
	Workbook Kind = "Workbook"
	Report   Kind = "Report"
)

// Object is a folder, a workbook or a report of a deployment.
type Object struct {
	Kind Kind
	ID   int64
}

// Everyone is the subject of grants to the whole organization.
const Everyone = "Organization:"

// User returns the user with the name of a ScimUser as a subject of grants, and as an owner.
func User(name string) string { return "ScimUser:" + name }

// Group returns the group with the name of a ScimGroup as a subject of grants.
func Group(name string) string { return "ScimGroup:" + name }

// Subject is who asks. The zero value sees nothing.
type Subject struct {
	// All is set for administrators, and for programs that act for no person: they have the level Max on everything.
	All bool
	// Max limits all levels.
	Max Level
	// Owner is the owner of what the subject owns, as it is stored with objects: User(name) for a user.
	Owner string
	// Groups are those of the user, direct and indirect, as Group(name).
	Groups []string
	// GroupUIDs are the UIDs of the groups: what was granted to a deleted group is not granted to a later one of the same name.
	GroupUIDs []string
}

// Caller is who reads or changes content.
type Caller struct {
	// Principal is the principal of the request, as <kind>:<id>.
	Principal string
	// Owner is the owner of objects that the caller creates, as <kind>:<id>: the user of the principal,
	// or the principal itself if it has no user.
	Owner string
	// Access is what the caller reaches.
	Access Subject
	// ManagesReports is whether the caller holds the permission ReportManage, with which reports are deleted and moved that the
	// caller may edit. Others need the level Manage for it.
	ManagesReports bool
}

// ToManageReports returns the level with which the caller deletes or moves a report.
func (c *Caller) ToManageReports() Level {
	if c.ManagesReports {
		return Edit
	}
	return Manage
}

// Everything is a subject that may do everything, such as a controller.
var Everything = Subject{All: true, Max: Manage}

// Limited returns a level within that of the subject.
func (s Subject) Limited(l Level) Level { return min(l, s.Max) }

// subjects returns the subjects of the grants that concern s.
func (s Subject) subjects() []string { return append([]string{s.Owner, Everyone}, s.Groups...) }

// groupUIDs returns the UIDs that grants which concern s have.
func (s Subject) groupUIDs() []string { return append([]string{""}, s.GroupUIDs...) }

// Step is an object with its grants by subject.
type Step struct {
	Owner  string
	Grants map[string]Level
}

// own returns the level that a subject has on an object itself; None if it inherits one.
func (o *Step) own(s Subject) Level {
	if o.Owner == s.Owner && s.Owner != "" {
		return Manage
	}
	level := None
	for _, subject := range s.subjects() {
		level = max(level, o.Grants[subject])
	}
	return level
}

// Decide returns the level of a subject on an object. path begins with the object, continues with the workbook of a report,
// and ends with the folders that contain it, the nearest one first.
func Decide(s Subject, path []Step) Level {
	if s.All {
		return s.Limited(Manage)
	}
	for i := range path {
		if own := path[i].own(s); own != None {
			return s.Limited(own)
		}
	}
	return None
}
