package access

import (
	"context"
	"fmt"
	"strings"

	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/store"
)

// maxRemoved is the maximum number of grants that one call of removeGone removes: each group that the cache does not have is
// confirmed by the Kubernetes API server.
const maxRemoved = 100

// removeGone removes grants on an object to groups that were deleted. They concern no one, so there is no event. It reports whether
// there were such grants.
func (g *Sharing) removeGone(ctx context.Context, s content.Scope, o Object) (removed bool, err error) {
	if g.GroupIsGone == nil {
		return false, nil
	}
	all, err := g.ofGroups(ctx, s, o)
	if err != nil {
		return false, err
	}
	var gone []Grant
	for _, grant := range all {
		isGone, err := g.GroupIsGone(ctx, strings.TrimPrefix(grant.Subject, Group("")), grant.GroupUID)
		if err != nil {
			return false, fmt.Errorf("look up the groups with grants on %s %d: %w", noun(o.Kind), o.ID, err)
		}
		if !isGone {
			continue
		}
		if gone = append(gone, grant); len(gone) == maxRemoved {
			break
		}
	}
	if len(gone) == 0 {
		return false, nil
	}
	err = g.DB.Tx(ctx, func(tx *store.Tx) error {
		if err := tx.LockDeployment(ctx, s.Account, s.Deployment); err != nil {
			return err
		}
		for i := range gone {
			// The same subject may have a grant to a new group by now.
			if _, err := tx.ExecContext(ctx, "DELETE FROM access_grant"+stored+" AND group_uid = $6", append(grantKey(s, &gone[i]), gone[i].GroupUID)...); err != nil {
				return fmt.Errorf("remove a grant on %s %d: %w", noun(o.Kind), o.ID, err)
			}
		}
		return nil
	})
	return err == nil, err
}

// ofGroups returns the grants on an object itself that are to groups: Object, Subject and GroupUID only.
func (g *Sharing) ofGroups(ctx context.Context, s content.Scope, o Object) (all []Grant, err error) {
	const query = `SELECT subject, group_uid FROM access_grant WHERE account_uid = $1 AND deployment_uid = $2 AND object_kind = $3 AND object_id = $4
		AND subject LIKE 'ScimGroup:%' ORDER BY subject`
	err = g.DB.Read(ctx, func(q store.Querier) error {
		all = nil
		rows, err := q.QueryContext(ctx, query, s.Account.UID, s.Deployment.UID, string(o.Kind), o.ID)
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }()
		for rows.Next() {
			grant := Grant{Object: o}
			if err := rows.Scan(&grant.Subject, &grant.GroupUID); err != nil {
				return err
			}
			all = append(all, grant)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("read the groups with grants on %s %d: %w", noun(o.Kind), o.ID, err)
	}
	return all, nil
}
