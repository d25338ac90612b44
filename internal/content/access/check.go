package access

import (
	"context"
	"fmt"
	"strings"

	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/store"
)

// The statements that read an object with what contains it, the nearest first. $1 is the UID of the account, $2 that of the
// deployment, $3 the id of the object.
const (
	folderHead   = `SELECT 0, 'Folder', id, owner, parent_id, name FROM folder WHERE account_uid = $1 AND deployment_uid = $2 AND id = $3`
	workbookHead = `SELECT 0, 'Workbook', id, owner, folder_id, name FROM workbook WHERE account_uid = $1 AND deployment_uid = $2 AND id = $3`
	reportHead   = `SELECT 0, 'Report', id, owner, folder_id, name FROM report WHERE account_uid = $1 AND deployment_uid = $2 AND id = $3
		UNION ALL SELECT 1, 'Workbook', workbook.id, workbook.owner, workbook.folder_id, workbook.name FROM report
		JOIN workbook ON workbook.account_uid = $1 AND workbook.deployment_uid = $2 AND workbook.id = report.workbook_id
		WHERE report.account_uid = $1 AND report.deployment_uid = $2 AND report.id = $3`
	pathOf = `WITH RECURSIVE head (depth, kind, id, owner, above, name) AS (%[1]s), path (depth, kind, id, owner, above, name) AS (
		SELECT depth, kind, id, owner, above, name FROM head
		UNION ALL
		SELECT path.depth + 1, 'Folder', folder.id, folder.owner, folder.parent_id, folder.name FROM path
		JOIN folder ON folder.account_uid = $1 AND folder.deployment_uid = $2 AND folder.id = path.above WHERE path.depth < %[2]d
	) `
)

// heads are the statements by kind.
var heads = map[Kind]string{Folder: folderHead, Workbook: workbookHead, Report: reportHead}

// pathStatement returns the common table expression "path" for an object: depth, kind, id, owner, above, name.
func pathStatement(o Object) string { return fmt.Sprintf(pathOf, heads[o.Kind], maxDepth+1) }

// Of returns the level of a subject on an object; None if it does not exist.
func Of(ctx context.Context, q store.Querier, s content.Scope, who Subject, o Object) (Level, error) {
	if who.All {
		return who.Limited(Manage), nil
	}
	st := Statement{Args: []any{s.Account.UID, s.Deployment.UID, o.ID}}
	query := pathStatement(o) + `SELECT path.depth, path.owner, COALESCE(access_grant.subject, ''), COALESCE(access_grant.level, 0) FROM path
		LEFT JOIN access_grant ON access_grant.account_uid = $1 AND access_grant.object_kind = path.kind AND access_grant.object_id = path.id
		AND access_grant.subject IN (` + st.parameters(who.subjects()) + ") AND access_grant.group_uid IN (" + st.parameters(who.groupUIDs()) + ") ORDER BY path.depth"
	rows, err := q.QueryContext(ctx, query, st.Args...)
	if err != nil {
		return None, fmt.Errorf("read the access to %s %d: %w", o.Kind, o.ID, err)
	}
	defer func() { _ = rows.Close() }()
	var path []Step
	last := -1
	for rows.Next() {
		var depth int
		var owner, subject string
		var level Level
		if err := rows.Scan(&depth, &owner, &subject, &level); err != nil {
			return None, fmt.Errorf("read the access to %s %d: %w", o.Kind, o.ID, err)
		}
		if depth != last {
			path, last = append(path, Step{Owner: owner, Grants: map[string]Level{}}), depth
		}
		path[len(path)-1].Grants[subject] = level
	}
	if err := rows.Err(); err != nil {
		return None, fmt.Errorf("read the access to %s %d: %w", o.Kind, o.ID, err)
	}
	return Decide(who, path), nil
}

// Shows reports whether a subject sees a folder on which it has no level, because there is something below that it reaches.
func Shows(ctx context.Context, q store.Querier, s content.Scope, who Subject, folder int64) (shown bool, err error) {
	st := Within(s, who, None)
	if st.all || st.none {
		return st.all, nil
	}
	query := fmt.Sprintf("%sSELECT EXISTS (SELECT 1 FROM access_way WHERE access_way_id = $%d)", st.With, len(st.Args)+1)
	if err := q.QueryRowContext(ctx, query, append(st.Args, folder)...).Scan(&shown); err != nil {
		return false, fmt.Errorf("read the access to folder %d: %w", folder, err)
	}
	return shown, nil
}

// Require returns an error if a subject has less than a level on an object: NotFound, as for one that does not exist, if it
// does not see it, else Forbidden. It does not check that an object exists for a subject that is All.
func Require(ctx context.Context, q store.Querier, s content.Scope, who Subject, o Object, needed Level) error {
	level, err := Of(ctx, q, s, who, o)
	if err != nil || level >= needed {
		return err
	}
	if level == None {
		shown := false
		if o.Kind == Folder {
			if shown, err = Shows(ctx, q, s, who, o.ID); err != nil {
				return err
			}
		}
		if !shown {
			return NotFound(o)
		}
	}
	return TooLow(who, o, needed, level)
}

// RequireFolder is Require for a folder that a request names in a field, such as a destination. Nothing is required at the root, 0.
func RequireFolder(ctx context.Context, q store.Querier, s content.Scope, who Subject, field string, folder int64, needed Level) error {
	if folder == 0 {
		return nil
	}
	return content.Prefixed(field, Require(ctx, q, s, who, Object{Folder, folder}, needed))
}

// OfVisible returns the level of a subject on a folder, and NotFound for one that it does not see; one that is only shown as
// navigation is visible, with the level None, as is the root, 0. It does not check that a folder exists for a subject that is All.
func OfVisible(ctx context.Context, q store.Querier, s content.Scope, who Subject, folder int64) (Level, error) {
	if folder == 0 {
		return None, nil
	}
	level, err := Of(ctx, q, s, who, Object{Folder, folder})
	if err != nil || level != None {
		return level, err
	}
	shown, err := Shows(ctx, q, s, who, folder)
	if err == nil && !shown {
		err = NotFound(Object{Folder, folder})
	}
	return None, err
}

// TooLow returns the error for a level of a subject that does not suffice. It names the permission that limits the level.
func TooLow(who Subject, o Object, needed, has Level) error {
	because := ""
	if has == who.Max {
		permission := Edit // with which people manage
		if who.All {
			permission = needed
		}
		because = fmt.Sprintf(", because it does not hold the permission %s%s", o.Kind, permissionNames[permission])
	}
	return content.Errorf(content.Forbidden, "%s %d: the level %s is needed; the caller has %s%s", noun(o.Kind), o.ID, needed, has, because)
}

// permissionNames end the names of permissions.
var permissionNames = map[Level]string{View: "Read", Edit: "Edit", Manage: "Manage"}

// NotFound returns the error for an object that does not exist.
func NotFound(o Object) error {
	return content.Errorf(content.NotFound, "%s %d does not exist", noun(o.Kind), o.ID)
}

// noun returns the name of a kind in messages.
func noun(k Kind) string { return strings.ToLower(string(k)) }
