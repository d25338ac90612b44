package content

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"k8s.io/utils/ptr"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/directory/number"
	"github.com/quoin-dev/quoin/apiserver/edit"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/internal/content/access"
	"github.com/quoin-dev/quoin/internal/content/subject"
)

const policiesPath = "/api/v1/resource-policies"

// People finds the users and the groups of accounts; *directory.Directory implements it.
type People interface {
	// FindUser returns a ScimUser by its number; edit.ErrDeleted if there is none.
	FindUser(ctx context.Context, namespace, id string) (*v1alpha1.ScimUser, error)
	// FindGroup returns a ScimGroup by its number; edit.ErrDeleted if there is none.
	FindGroup(namespace string, n int64) (*v1alpha1.ScimGroup, error)
	// NameOfGroup returns the UID and the display name of a group by the name of the ScimGroup; empty if there is none.
	NameOfGroup(namespace, group string) (uid, name string)
	// GroupIsGone reports whether the group with a name and a UID was deleted; with an empty UID, whether there is no group of the name.
	GroupIsGone(ctx context.Context, namespace, group, uid string) (bool, error)
}

func (a *api) policiesFamily() rest.Family {
	return rest.Family{Tag: "Resource policies", Description: "Who may do what with a folder, a workbook or a report.", Routes: []rest.Route{
		rest.Handle(http.MethodGet, policiesPath, "getResourcePolicies", rest.NoPermission, "List who has access to a folder, a workbook or a report", a.getPolicies),
		rest.Handle(http.MethodPut, policiesPath+"/user", "setUserResourcePolicy", rest.NoPermission,
			"Set what a user, or the whole organization, may do; the same request again changes nothing", a.setUserPolicy),
		rest.Handle(http.MethodPut, policiesPath+"/group", "setGroupResourcePolicy", rest.NoPermission,
			"Set what the users of a group may do; the same request again changes nothing", a.setGroupPolicy),
	}}
}

// ResourcePolicies are who has access to a folder, a workbook or a report.
type ResourcePolicies struct {
	ResourceType string           `json:"resourceType" enum:"Report,Workbook,Folder"`
	ResourceID   int64            `json:"resourceId" minimum:"1"`
	DeploymentID int64            `json:"deploymentId" minimum:"1"`
	Items        []ResourcePolicy `json:"items" doc:"The owner, what was granted on the resource, and what it inherits: the nearest of each other user or group."`
}

// ResourcePolicy is what a user, a group or the whole organization may do.
type ResourcePolicy struct {
	Action        string         `json:"action" enum:"ReportRead,ReportEdit,ReportManage,WorkbookRead,WorkbookEdit,WorkbookManage,FolderRead,FolderEdit,FolderManage"`
	IsOwner       bool           `json:"isOwner" doc:"Whether it is that of the owner."`
	Organization  bool           `json:"organization" doc:"Whether it is that of everyone in the account."`
	UserID        *int64         `json:"userId,omitempty" nullable:"true" doc:"Absent for groups and the organization."`
	User          *ResourceOwner `json:"user,omitempty"`
	GroupID       *int64         `json:"groupId,omitempty" nullable:"true"`
	Group         *PolicyGroup   `json:"group,omitempty"`
	InheritedFrom *PolicySource  `json:"inheritedFrom,omitempty" doc:"The folder or the workbook that gives it; absent for what was granted on the resource itself."`
	CreatedAt     *time.Time     `json:"createdAt,omitempty" nullable:"true" doc:"Absent for owners."`
}

// PolicyGroup is a group.
type PolicyGroup struct {
	ID   int64  `json:"id" minimum:"1" maximum:"9007199254740991"`
	Name string `json:"name"`
}

// PolicySource is what a resource inherits from.
type PolicySource struct {
	ResourceType string `json:"resourceType" enum:"Workbook,Folder"`
	ResourceID   int64  `json:"resourceId" minimum:"1"`
	Name         string `json:"name"`
}

// PoliciesOutput is who has access.
type PoliciesOutput struct{ Body ResourcePolicies }

// actions end the names of actions.
var actions = map[access.Level]string{access.View: "Read", access.Edit: "Edit", access.Manage: "Manage"}

// levelOf returns the level of an action on a kind of resource; None for no action.
func levelOf(kind access.Kind, action *string) (access.Level, error) {
	if ptr.Deref(action, "") == "" {
		return access.None, nil
	}
	for _, level := range []access.Level{access.View, access.Edit, access.Manage} {
		if *action == string(kind)+actions[level] {
			return level, nil
		}
	}
	return access.None, rest.BadRequest("action: %q is not an action with resourceType %s; allowed: %sRead, %sEdit, %sManage", rest.Clip(*action), kind, kind, kind, kind)
}

// resource finds a resource in the deployments that the principal reaches, and makes its deployment that of the request.
func (a *api) resource(ctx context.Context, resourceType string, id int64) (access.Object, error) {
	s, o := rest.ScopeFrom(ctx), access.Object{Kind: access.Kind(resourceType), ID: id}
	needed := permissionsOf[o.Kind].read
	if !s.Principal.May(needed) {
		return o, rest.Forbidden("%s %q does not hold the permission %s", s.Principal.Kind, s.Principal.Name, needed)
	}
	uid, err := a.sharing.DeploymentUID(ctx, s.StoreAccount(), o)
	if err != nil {
		return o, err
	}
	if a.deployments == nil {
		return o, access.NotFound(o)
	}
	reached, err := a.deployments(s.Namespace(), s.Principal, needed)
	if err != nil {
		return o, err
	}
	for _, d := range reached {
		if string(d.UID) == uid {
			s.Deployment = d
			return o, nil
		}
	}
	return o, access.NotFound(o)
}

// GetPoliciesInput are the parameters of the list.
type GetPoliciesInput struct {
	ResourceType string `query:"resourceType" required:"true" enum:"Report,Workbook,Folder"`
	ResourceID   int64  `query:"resourceId" required:"true" minimum:"1" maximum:"9007199254740991" doc:"id of the report, the workbook or the folder."`
}

func (a *api) getPolicies(ctx context.Context, in *GetPoliciesInput) (*PoliciesOutput, error) {
	o, err := a.resource(ctx, in.ResourceType, in.ResourceID)
	if err != nil {
		return nil, err
	}
	all, err := a.sharing.Grants(ctx, rest.ScopeFrom(ctx).Content(), a.callerOf(ctx, o.Kind), o)
	return a.policiesOutput(ctx, o, all, err)
}

// Resource is the resource that a body names.
type Resource struct {
	ResourceType string `json:"resourceType" enum:"Report,Workbook,Folder"`
	ResourceID   int64  `json:"resourceId" minimum:"1" maximum:"9007199254740991" doc:"id of the report, the workbook or the folder."`
}

// SetUserPolicyInput is the body of a change.
type SetUserPolicyInput struct {
	Body struct {
		Resource
		UserID *int64  `json:"userId,omitempty" nullable:"true" minimum:"1" maximum:"9007199254740991" doc:"A user of the account; the whole organization when absent or null."`
		Action *string `json:"action,omitempty" nullable:"true" maxLength:"32" example:"WorkbookEdit" doc:"The resource type with Read, Edit or Manage. What was granted is removed when absent, null or empty."`
	}
}

func (a *api) setUserPolicy(ctx context.Context, in *SetUserPolicyInput) (*PoliciesOutput, error) {
	b := &in.Body
	return a.setPolicy(ctx, b.Resource, b.Action, func() (access.To, error) {
		if b.UserID == nil {
			return access.To{Subject: access.Everyone}, nil
		}
		if a.people == nil {
			return access.To{}, rest.NotFound("userId: user %d does not exist", *b.UserID)
		}
		u, err := a.people.FindUser(ctx, rest.ScopeFrom(ctx).Namespace(), strconv.FormatInt(*b.UserID, 10))
		if errors.Is(err, edit.ErrDeleted) {
			return access.To{}, rest.NotFound("userId: user %d does not exist", *b.UserID)
		}
		if err != nil {
			return access.To{}, err
		}
		return access.To{Subject: access.User(u.Name), User: &subject.User{Name: u.Name, UID: string(u.UID)}}, nil
	})
}

// SetGroupPolicyInput is the body of a change.
type SetGroupPolicyInput struct {
	Body struct {
		Resource
		GroupID int64   `json:"groupId" minimum:"1" maximum:"9007199254740991" doc:"A group of the account."`
		Action  *string `json:"action,omitempty" nullable:"true" maxLength:"32" example:"WorkbookEdit" doc:"The resource type with Read, Edit or Manage. What was granted is removed when absent, null or empty."`
	}
}

func (a *api) setGroupPolicy(ctx context.Context, in *SetGroupPolicyInput) (*PoliciesOutput, error) {
	b := &in.Body
	return a.setPolicy(ctx, b.Resource, b.Action, func() (access.To, error) {
		if a.people == nil {
			return access.To{}, rest.NotFound("groupId: group %d does not exist", b.GroupID)
		}
		g, err := a.people.FindGroup(rest.ScopeFrom(ctx).Namespace(), b.GroupID)
		if errors.Is(err, edit.ErrDeleted) {
			return access.To{}, rest.NotFound("groupId: group %d does not exist", b.GroupID)
		}
		if err != nil {
			return access.To{}, err
		}
		return access.To{Subject: access.Group(g.Name), GroupUID: string(g.UID)}, nil
	})
}

// setPolicy grants the level of an action to whom a function returns, which is called for callers who may do that.
func (a *api) setPolicy(ctx context.Context, of Resource, action *string, find func() (access.To, error)) (*PoliciesOutput, error) {
	o, err := a.resource(ctx, of.ResourceType, of.ResourceID)
	if err != nil {
		return nil, err
	}
	s, by := rest.ScopeFrom(ctx).Content(), a.callerOf(ctx, o.Kind)
	if _, err := a.sharing.Grants(ctx, s, by, o); err != nil {
		return nil, err
	}
	level, err := levelOf(o.Kind, action)
	if err != nil {
		return nil, err
	}
	to, err := find()
	if err != nil {
		return nil, err
	}
	all, err := a.sharing.Set(ctx, s, by, o, to, level)
	return a.policiesOutput(ctx, o, all, err)
}

func (a *api) policiesOutput(ctx context.Context, o access.Object, all []access.Grant, err error) (*PoliciesOutput, error) {
	if err != nil {
		return nil, err
	}
	out := &PoliciesOutput{ResourcePolicies{
		ResourceType: string(o.Kind), ResourceID: o.ID, DeploymentID: deploymentID(ctx), Items: []ResourcePolicy{},
	}}
	for i := range all {
		if shown := a.shownPolicy(ctx, o, &all[i]); shown != nil {
			out.Body.Items = append(out.Body.Items, *shown)
		}
	}
	return out, nil
}

// shownPolicy returns a grant as documented; nil for one to a group that was deleted.
func (a *api) shownPolicy(ctx context.Context, o access.Object, g *access.Grant) *ResourcePolicy {
	out := &ResourcePolicy{Action: string(o.Kind) + actions[g.Level], IsOwner: g.IsOwner, Organization: g.Subject == access.Everyone}
	if g.Object != o {
		out.InheritedFrom = &PolicySource{string(g.Kind), g.ID, g.Name}
	}
	if !g.IsOwner {
		out.CreatedAt = &g.CreatedAt
	}
	if group, isGroup := strings.CutPrefix(g.Subject, access.Group("")); isGroup {
		shown := &PolicyGroup{ID: number.Of("Group", group)}
		if a.people != nil {
			var uid string
			if uid, shown.Name = a.people.NameOfGroup(rest.ScopeFrom(ctx).Namespace(), group); g.GroupUID != "" && g.GroupUID != uid {
				return nil
			}
		}
		out.GroupID, out.Group = &shown.ID, shown
	} else if !out.Organization {
		owner := a.shownOwner(ctx, g.Subject)
		out.UserID, out.User = &owner.ID, &owner
	}
	return out
}
