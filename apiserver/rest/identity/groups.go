package identity

import (
	"context"
	"net/http"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/directory"
	"github.com/quoin-dev/quoin/apiserver/directory/number"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/apiserver/scim/schema"
)

func (a *api) groupsFamily() rest.Family {
	return rest.Family{Tag: "User Groups", Description: "The groups of the account: the ScimGroups that SCIM and kubectl show.", Routes: []rest.Route{
		rest.Handle(http.MethodGet, "/api/v1/user-groups", "getUserGroups", v1alpha1.PermissionAdmin, "List the groups of the account, the oldest first", a.listGroups),
		rest.Handle(http.MethodDelete, "/api/v1/groups/{groupId}", "deleteUserGroup", v1alpha1.PermissionAdmin, "Delete a group", a.deleteGroup),
	}}
}

// Group is a group of users. Its members are shown over SCIM.
type Group struct {
	ID        int64  `json:"id" minimum:"1" maximum:"9007199254740991" doc:"Derived from the SCIM id."`
	Name      string `json:"name" doc:"displayName of SCIM."`
	UserCount int    `json:"userCount" minimum:"0" doc:"How many members the group refers to: users and groups, also those that do not exist yet."`
}

func groupOf(r *schema.Resource) Group {
	size, _ := r.Document[directory.AttributeSize].(int)
	return Group{ID: number.Of(schema.Group.Name, r.ID), Name: textOf(r.Document, "displayName"), UserCount: size}
}

// ListGroupsInput has the parameters of the list.
type ListGroupsInput struct{ rest.CursorPage }

func (a *api) listGroups(ctx context.Context, in *ListGroupsInput) (*rest.List[Group], error) {
	page, err := a.people(ctx, schema.Group.Name).list(ctx, in.CursorPage, "members")
	if err != nil {
		return nil, err
	}
	return shown(page, groupOf), nil
}

// InGroup has the path parameter of routes below a group.
type InGroup struct {
	ID int64 `path:"groupId" minimum:"1" maximum:"9007199254740991" doc:"id of the group."`
}

func (a *api) deleteGroup(ctx context.Context, in *InGroup) (*rest.SuccessOutput, error) {
	groups := a.people(ctx, schema.Group.Name)
	id, err := groups.id(in.ID)
	if err != nil {
		return nil, err
	}
	err = groups.DeleteResource(ctx, groups.kind, id, func(*schema.Resource) error { return nil })
	if err != nil {
		return nil, groups.problem(err, in.ID)
	}
	return rest.Success(), nil
}
