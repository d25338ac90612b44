package folder

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/access"
	"github.com/quoin-dev/quoin/internal/content/managed"
	"github.com/quoin-dev/quoin/internal/store"
)

// Definition is a folder that an object manages.
type Definition struct {
	Name     string
	ParentID int64
	// Position is that of the stored folder if nil; a new folder is the last one.
	Position *int64
}

// Applied is the result of Apply.
type Applied struct {
	Folder Folder
	// Corrected reports whether the folder was not what the object had made of it.
	Corrected bool
}

// Apply makes the folder of an object what it defines. What is so already is not written.
func (f *Folders) Apply(ctx context.Context, s content.Scope, by access.Caller, of managed.Options, in Definition) (out *Applied, err error) {
	ctx = managed.As(ctx, of.Object)
	if err := content.CheckName("name", in.Name); err != nil {
		return nil, err
	}
	row := managed.Record{Object: of.Object}
	if row.Definition, err = managed.Hash(in); err != nil {
		return nil, err
	}
	err = f.DB.Read(ctx, func(q store.Querier) error {
		before, stored, err := f.found(ctx, q, s, of, in)
		row.ContentID = idOf(before)
		if err == nil && stored != nil && *stored == row && in.matches(before) {
			out = &Applied{Folder: *before}
		}
		return err
	})
	if err != nil || out != nil {
		return out, err
	}
	err = f.change(ctx, s, func(tx *store.Tx) error {
		before, stored, err := f.found(ctx, tx, s, of, in)
		if err != nil {
			return err
		}
		out = &Applied{Corrected: stored != nil && stored.Definition == row.Definition && !in.matches(before)}
		own := func(id int64) error {
			if row.ContentID = id; stored != nil && *stored == row {
				return nil
			}
			return managed.Set(ctx, tx, s, row)
		}
		if before == nil {
			path, err := f.create(ctx, tx, s, by, New(in))
			if err != nil {
				return err
			}
			out.Folder = path[len(path)-1]
			return own(out.Folder.ID)
		}
		if err := own(before.ID); err != nil { // before it is changed: it may be that of another object
			return err
		}
		out.Folder, err = f.become(ctx, tx, s, by, before.ID, in)
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// matches reports whether a folder is what is defined.
func (d Definition) matches(f *Folder) bool {
	return f != nil && f.Name == d.Name && f.ParentID == d.ParentID && (d.Position == nil || *d.Position == f.Position)
}

func idOf(f *Folder) int64 {
	if f == nil {
		return 0
	}
	return f.ID
}

// found returns the folder of an object and its row: the one that it has, or one with the name that it may take over; nil if it
// has to be created.
func (f *Folders) found(ctx context.Context, q store.Querier, s content.Scope, of managed.Options, in Definition) (*Folder, *managed.Record, error) {
	stored, err := managed.Find(ctx, q, s, of.Object)
	if err != nil {
		return nil, nil, err
	}
	if stored != nil {
		before, err := get(ctx, q, s, stored.ContentID)
		var rejected *content.Error
		if err == nil || !errors.As(err, &rejected) {
			return before, stored, err
		}
	}
	const query = "SELECT " + columns + " FROM folder WHERE deployment_uid = $1 AND account_uid = $2 AND parent_id = $3 AND name_key = $4"
	named := &Folder{}
	err = scan(q.QueryRowContext(ctx, query, s.Deployment.UID, s.Account.UID, in.ParentID, nameKey(in.Name)), named)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, stored, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read the folder %q: %w", in.Name, err)
	}
	return named, stored, managed.Claim(ctx, q, s, of, named.ID, fmt.Sprintf("name: %q is the name of folder %d", in.Name, named.ID))
}

// become moves and changes a folder.
func (f *Folders) become(ctx context.Context, tx *store.Tx, s content.Scope, by access.Caller, id int64, in Definition) (Folder, error) {
	path, err := f.replaceTx(ctx, tx, s, by, id, func(tx *store.Tx, after *Folder) error {
		after.Name = in.Name
		if err := moveTo(ctx, tx, s, after, in.ParentID); err != nil {
			return err
		}
		if in.Position != nil {
			after.Position = *in.Position
		}
		return nil
	})
	if err != nil {
		return Folder{}, err
	}
	return path[len(path)-1], nil
}

// Release deletes the folder of an object, or keeps it without owner. It does nothing if the object has none.
func (f *Folders) Release(ctx context.Context, s content.Scope, o managed.Object, keep bool) error {
	ctx = managed.As(ctx, o)
	var stored *managed.Record
	err := f.DB.Read(ctx, func(q store.Querier) (err error) {
		stored, err = managed.Find(ctx, q, s, o)
		return err
	})
	if err != nil || stored == nil {
		return err
	}
	return f.change(ctx, s, func(tx *store.Tx) error {
		if stored, err = managed.Find(ctx, tx, s, o); err != nil || stored == nil {
			return err
		}
		if keep {
			return managed.Release(ctx, tx, s, o)
		}
		err := f.delete(ctx, tx, s, stored.ContentID)
		var rejected *content.Error
		if errors.As(err, &rejected) && rejected.Reason == content.NotFound {
			return managed.Release(ctx, tx, s, o)
		}
		return err
	})
}
