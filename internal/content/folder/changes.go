package folder

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/access"
	"github.com/quoin-dev/quoin/internal/content/managed"
	"github.com/quoin-dev/quoin/internal/store"
)

// New is a folder to create.
type New struct {
	Name     string
	ParentID int64
	// Position is after all siblings if nil.
	Position *int64
}

// Update has the fields to change; those that are nil stay.
type Update struct {
	Name     *string
	Position *int64
}

// Create creates a folder, which belongs to the caller, who needs the level edit on the parent. It returns the path to it, as Ancestors.
func (f *Folders) Create(ctx context.Context, s content.Scope, by access.Caller, in New) (path []Folder, err error) {
	err = f.change(ctx, s, func(tx *store.Tx) error {
		path, err = f.create(ctx, tx, s, by, in)
		return err
	})
	return path, err
}

func (f *Folders) create(ctx context.Context, tx *store.Tx, s content.Scope, by access.Caller, in New) (path []Folder, err error) {
	now := f.now()
	created := &Folder{
		ParentID: in.ParentID, Name: in.Name, Owner: by.Owner, CreatedAt: now, UpdatedAt: now, CreatedBy: by.Principal, UpdatedBy: by.Principal,
	}
	above, err := parentPath(ctx, tx, s, in.ParentID)
	if err != nil {
		return nil, err
	}
	if err := access.RequireFolder(ctx, tx, s, by.Access, "parentId", in.ParentID, access.Edit); err != nil {
		return nil, err
	}
	if err := checkFields(&in.Name, in.Position); err != nil {
		return nil, err
	}
	if err := checkDepth(len(above)+1, in.ParentID); err != nil {
		return nil, err
	}
	if err := checkPlace(ctx, tx, s, created); err != nil {
		return nil, err
	}
	if created.Position, err = positionIn(ctx, tx, s, in); err != nil {
		return nil, err
	}
	if created.ID, err = tx.NextID(ctx, s.Account.UID, "folder"); err != nil {
		return nil, err
	}
	if err := insert(ctx, tx, s, created); err != nil {
		return nil, err
	}
	return append(above, *created), f.record(ctx, tx, createdFolder, nil, created)
}

// checkFields returns an error for values of a request that are not allowed.
func checkFields(name *string, position *int64) error {
	if name != nil {
		if err := content.CheckName("name", *name); err != nil {
			return err
		}
	}
	if position != nil {
		return checkPosition(*position)
	}
	return nil
}

// Update changes a folder, on which the caller needs the level edit. It returns the path to it, as Ancestors. An
// update that changes nothing has no event.
func (f *Folders) Update(ctx context.Context, s content.Scope, by access.Caller, id int64, in Update) ([]Folder, error) {
	return f.replace(ctx, s, by, id, access.Edit, func(_ *store.Tx, after *Folder) error {
		if err := checkFields(in.Name, in.Position); err != nil {
			return err
		}
		if in.Name != nil {
			after.Name = *in.Name
		}
		if in.Position != nil {
			after.Position = *in.Position
		}
		return nil
	})
}

// Move moves a folder, with everything in it, into another folder or to the root. It becomes the
// last one there. The caller needs the level manage on it, and edit on the other folder. It returns the path to it, as Ancestors.
func (f *Folders) Move(ctx context.Context, s content.Scope, by access.Caller, id, parent int64) ([]Folder, error) {
	path, err := f.replace(ctx, s, by, id, access.Manage, func(tx *store.Tx, after *Folder) error {
		if _, err := parentPath(ctx, tx, s, parent); err != nil {
			return err
		}
		if err := access.RequireFolder(ctx, tx, s, by.Access, destinationField, parent, access.Edit); err != nil {
			return err
		}
		return moveTo(ctx, tx, s, after, parent)
	})
	return path, asDestination(err)
}

// The names of the parent of a folder in requests: of one that is created, and of one that is moved.
const (
	parentField      = "parentId"
	destinationField = "folderId"
)

// asDestination returns a rejection that names the folder into which another one is moved as requests to move do.
func asDestination(err error) error {
	var rejected *content.Error
	if !errors.As(err, &rejected) {
		return err
	}
	if rest, found := strings.CutPrefix(rejected.Message, parentField+":"); found {
		return content.Errorf(rejected.Reason, "%s:%s", destinationField, rest)
	}
	return err
}

// moveTo makes a folder the last one in another folder, unless it is there already.
func moveTo(ctx context.Context, tx *store.Tx, s content.Scope, after *Folder, parent int64) error {
	if after.ParentID == parent {
		return nil
	}
	above, err := parentPath(ctx, tx, s, parent)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(above, func(f Folder) bool { return f.ID == after.ID }) {
		return content.Errorf(content.Invalid, "folderId: folder %d is in folder %d, which is to be moved; allowed: a folder outside it", parent, after.ID)
	}
	levels, err := height(ctx, tx, s, after.ID)
	if err != nil {
		return err
	}
	if err := checkDepth(len(above)+levels, parent); err != nil {
		return err
	}
	after.ParentID = parent
	after.Position, err = positionIn(ctx, tx, s, New{ParentID: parent})
	return err
}

// Delete deletes a folder that contains no other, with the grants on it. The caller needs the level manage.
func (f *Folders) Delete(ctx context.Context, s content.Scope, by access.Caller, id int64) error {
	return f.change(ctx, s, func(tx *store.Tx) error {
		if _, err := get(ctx, tx, s, id); err != nil {
			return err
		}
		if err := access.Require(ctx, tx, s, by.Access, access.Object{Kind: access.Folder, ID: id}, access.Manage); err != nil {
			return err
		}
		return f.delete(ctx, tx, s, id)
	})
}

func (f *Folders) delete(ctx context.Context, tx *store.Tx, s content.Scope, id int64) error {
	before, err := get(ctx, tx, s, id)
	if err != nil {
		return err
	}
	if err := managed.Check(ctx, tx, s, managed.Folder, id); err != nil {
		return err
	}
	children, err := countChildren(ctx, tx, s, id, 0)
	if err != nil {
		return err
	}
	if children > 0 {
		return content.Errorf(content.Invalid, "folderId: folder %d contains %d folders; allowed: a folder without sub-folders", id, children)
	}
	if _, err := tx.ExecContext(ctx, "DELETE FROM folder WHERE account_uid = $1 AND deployment_uid = $2 AND id = $3", s.Account.UID, s.Deployment.UID, id); err != nil {
		return fmt.Errorf("delete folder %d: %w", id, err)
	}
	if err := managed.Deleted(ctx, tx, s, managed.Folder, id); err != nil {
		return err
	}
	if err := access.Deleted(ctx, tx, s, access.Object{Kind: access.Folder, ID: id}); err != nil {
		return err
	}
	if f.Deleted != nil {
		if err := f.Deleted(ctx, tx, s, id); err != nil {
			return err
		}
	}
	return f.record(ctx, tx, deletedFolder, before, nil)
}

// change runs work in a transaction that excludes other changes of the account.
func (f *Folders) change(ctx context.Context, s content.Scope, work func(tx *store.Tx) error) error {
	return f.DB.Tx(ctx, func(tx *store.Tx) error {
		if err := tx.LockDeployment(ctx, s.Account, s.Deployment); err != nil {
			return err
		}
		return work(tx)
	})
}

// replace changes a folder with edit, and returns the path to it. The caller needs a level on it.
func (f *Folders) replace(
	ctx context.Context, s content.Scope, by access.Caller, id int64, needed access.Level, edit func(tx *store.Tx, after *Folder) error,
) (path []Folder, err error) {
	err = f.change(ctx, s, func(tx *store.Tx) error {
		if _, err := get(ctx, tx, s, id); err != nil {
			return err
		}
		if err := access.Require(ctx, tx, s, by.Access, access.Object{Kind: access.Folder, ID: id}, needed); err != nil {
			return err
		}
		path, err = f.replaceTx(ctx, tx, s, by, id, edit)
		return err
	})
	return path, err
}

func (f *Folders) replaceTx(ctx context.Context, tx *store.Tx, s content.Scope, by access.Caller, id int64, edit func(tx *store.Tx, after *Folder) error) ([]Folder, error) {
	path, err := ancestors(ctx, tx, s, id)
	if err != nil {
		return nil, err
	}
	if err := managed.Check(ctx, tx, s, managed.Folder, id); err != nil {
		return nil, err
	}
	before := path[len(path)-1]
	after := &path[len(path)-1]
	if err := edit(tx, after); err != nil || *after == before {
		return path, err
	}
	after.UpdatedAt, after.UpdatedBy = f.now(), by.Principal
	if after.ParentID != before.ParentID || after.Name != before.Name {
		if err := checkPlace(ctx, tx, s, after); err != nil {
			return nil, err
		}
	}
	if err := update(ctx, tx, s, after); err != nil {
		return nil, err
	}
	if err := f.record(ctx, tx, updatedFolder, &before, after); err != nil || after.ParentID == before.ParentID {
		return path, err
	}
	return ancestors(ctx, tx, s, id)
}

// parentPath returns the path to a parent that a request names; it is empty for the root.
func parentPath(ctx context.Context, q store.Querier, s content.Scope, parent int64) ([]Folder, error) {
	if parent == Root {
		return nil, nil
	}
	path, err := ancestors(ctx, q, s, parent)
	var rejected *content.Error
	if errors.As(err, &rejected) && rejected.Reason == content.NotFound {
		return nil, content.Errorf(content.NotFound, "parentId: %s", rejected.Message)
	}
	return path, err
}

// checkPlace returns an error if a folder cannot be in its parent because of its siblings.
func checkPlace(ctx context.Context, tx *store.Tx, s content.Scope, f *Folder) error {
	const query = "SELECT name FROM folder WHERE deployment_uid = $1 AND account_uid = $2 AND parent_id = $3 AND name_key = $4 AND id <> $5"
	var name string
	err := tx.QueryRowContext(ctx, query, s.Deployment.UID, s.Account.UID, f.ParentID, nameKey(f.Name), f.ID).Scan(&name)
	if err == nil {
		return content.Errorf(content.Conflict, "name: %q is the name of another folder in the same folder (case-insensitive)", f.Name)
	}
	if !errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("check the name of a folder: %w", err)
	}
	siblings, err := countChildren(ctx, tx, s, f.ParentID, f.ID)
	if err == nil && siblings >= MaxChildren {
		return content.Errorf(content.Conflict, "parentId: there are %d folders already; allowed: %d", siblings, MaxChildren)
	}
	return err
}

// positionIn returns the position of a new folder: the requested one, or after all siblings.
func positionIn(ctx context.Context, tx *store.Tx, s content.Scope, in New) (position int64, err error) {
	if in.Position != nil {
		return *in.Position, nil
	}
	const query = "SELECT COALESCE(MAX(position) + 1, 0) FROM folder WHERE deployment_uid = $1 AND account_uid = $2 AND parent_id = $3"
	if err := tx.QueryRowContext(ctx, query, s.Deployment.UID, s.Account.UID, in.ParentID).Scan(&position); err != nil {
		return 0, fmt.Errorf("read the last position: %w", err)
	}
	return min(position, MaxPosition), nil
}

func insert(ctx context.Context, tx *store.Tx, s content.Scope, f *Folder) error {
	const statement = "INSERT INTO folder (account_uid, deployment_uid, name_key, " + columns + ") VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)"
	_, err := tx.ExecContext(ctx, statement, s.Account.UID, s.Deployment.UID, nameKey(f.Name),
		f.ID, f.ParentID, f.Name, f.Position, f.Owner, f.CreatedAt.UnixMicro(), f.CreatedBy, f.UpdatedAt.UnixMicro(), f.UpdatedBy)
	if err != nil {
		return fmt.Errorf("insert a folder: %w", err)
	}
	return nil
}

func update(ctx context.Context, tx *store.Tx, s content.Scope, f *Folder) error {
	const statement = `UPDATE folder SET parent_id = $4, name = $5, name_key = $6, position = $7, updated_at = $8, updated_by = $9
		WHERE account_uid = $1 AND deployment_uid = $2 AND id = $3`
	_, err := tx.ExecContext(ctx, statement, s.Account.UID, s.Deployment.UID, f.ID, f.ParentID, f.Name, nameKey(f.Name), f.Position, f.UpdatedAt.UnixMicro(), f.UpdatedBy)
	if err != nil {
		return fmt.Errorf("update folder %d: %w", f.ID, err)
	}
	return nil
}
