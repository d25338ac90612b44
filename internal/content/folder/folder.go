// Package folder has the folders of deployments: a tree of bounded depth, in which the names of
// siblings are unique and siblings are ordered by position.
//
//	folder.go      the model and its rules
//	changes.go     creating, updating, moving and deleting
//	apply.go       folders that objects in Kubernetes manage
//	queries.go     reading
//	migrations/    the table
package folder

import (
	"cmp"
	"context"
	"embed"
	"strconv"
	"time"

	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/subject"
	"github.com/quoin-dev/quoin/internal/fold"
	"github.com/quoin-dev/quoin/internal/store"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Owner has the table of folders.
var Owner = store.Owner{Name: "folder", Migrations: migrations, Tables: []string{"folder"}, Purge: store.PurgeTable("folder", "account_uid, id")}

// OfUsers is what names users: see subject.Users.
var OfUsers = []subject.Part{subject.Reassigned("folders", "folder", "account_uid, id", "owner")}

// Names of events.
var (
	createdFolder = audit.Declare("Created folder")
	updatedFolder = audit.Declare("Updated folder")
	deletedFolder = audit.Declare("Deleted folder")
)

// Limits of folders.
const (
	// MaxDepth is the maximum number of folders on a path from the root.
	MaxDepth = 10
	// MaxName is the maximum number of characters of a name.
	MaxName = content.MaxName
	// MaxPosition is the maximum position.
	MaxPosition = 1<<31 - 1
	// MaxChildren is the maximum number of folders in a folder, and at the root.
	MaxChildren = 10_000
)

// Root is the parent of the topmost folders.
const Root int64 = 0

// Folder is a folder of a deployment.
type Folder struct {
	// ID is unique in the account.
	ID       int64
	ParentID int64
	Name     string
	// Position orders siblings; those with the same are ordered by ID.
	Position int64
	// Owner is who the folder belongs to, as <kind>:<id>.
	Owner     string
	CreatedAt time.Time
	UpdatedAt time.Time
	// CreatedBy and UpdatedBy are principals: <kind>:<id>.
	CreatedBy string
	UpdatedBy string
}

// Folders are the folders of all deployments.
type Folders struct {
	DB     content.Database
	Record content.Record
	// Deleted is called in the transaction in which a folder is deleted, for the content in it; nothing
	// is called if it is nil.
	Deleted func(ctx context.Context, tx *store.Tx, s content.Scope, id int64) error
	// Now is the clock; time.Now if nil.
	Now func() time.Time
}

// now returns the time with the precision of the database.
func (f *Folders) now() time.Time {
	now := time.Now
	if f.Now != nil {
		now = f.Now
	}
	return now().UTC().Truncate(time.Microsecond)
}

func checkPosition(position int64) error {
	if position < 0 || position > MaxPosition {
		return content.Errorf(content.Invalid, "position: %d is out of range; allowed: 0 to %d", position, MaxPosition)
	}
	return nil
}

// checkDepth returns an error if a folder would be at a level beyond MaxDepth.
func checkDepth(level int, parent int64) error {
	if level > MaxDepth {
		return content.Errorf(content.Invalid, "parentId: in folder %d the path would have %d folders; allowed: %d", parent, level, MaxDepth)
	}
	return nil
}

// nameKey returns the form in which names of siblings are compared.
func nameKey(name string) string { return fold.Case(name) }

func notFound(id int64) error {
	return content.Errorf(content.NotFound, "folder %d does not exist", id)
}

// fields returns the fields of a folder that events show.
func (f *Folder) fields() map[string]any {
	if f == nil {
		return nil
	}
	return map[string]any{"name": f.Name, "parentId": f.ParentID, "position": f.Position}
}

// record stores the event of a change of a folder; before is nil for a new one, after for a
// deleted one.
func (f *Folders) record(ctx context.Context, tx *store.Tx, name string, before, after *Folder) error {
	shown := cmp.Or(after, before)
	object := audit.Object{Kind: "Folder", Name: shown.Name, ID: strconv.FormatInt(shown.ID, 10)}
	return f.Record.Change(ctx, tx, name, object, before.fields(), after.fields())
}
