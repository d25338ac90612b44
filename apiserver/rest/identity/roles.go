package identity

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/edit"
	"github.com/quoin-dev/quoin/apiserver/recording"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/internal/accountrole"
	"github.com/quoin-dev/quoin/internal/fieldowner"
	"github.com/quoin-dev/quoin/internal/ids"
	"github.com/quoin-dev/quoin/internal/permission"
)

const (
	rolesPath    = "/api/v1/roles"
	rolePath     = rolesPath + "/{roleId}"
	roleUserPath = rolePath + "/users/{userId}"
)

func (a *api) rolesFamily() rest.Family {
	return rest.Family{Tag: "Roles", Description: "The custom roles of the account, and which users have them.", Routes: []rest.Route{
		rest.Handle(http.MethodGet, rolesPath, "getRoles", v1alpha1.PermissionAdmin, "List the custom roles of the account, the newest first", a.listRoles),
		rest.Handle(http.MethodPost, rolesPath, "createRole", v1alpha1.PermissionAdmin, "Create a role", a.createRole).WithMaxBody(maxRoleBytes),
		rest.Handle(http.MethodGet, rolePath, "getRole", v1alpha1.PermissionAdmin, "Get a custom role", a.getRole),
		rest.Handle(http.MethodPut, rolePath, "updateRole", v1alpha1.PermissionAdmin, "Change a custom role; properties that are absent keep their value, and policies are replaced as a whole", a.updateRole).WithMaxBody(maxRoleBytes),
		rest.Handle(http.MethodDelete, rolePath, "deleteRole", v1alpha1.PermissionAdmin, "Delete a custom role: users and groups no longer have it", a.deleteRole).WithStatus(http.StatusNoContent),
		rest.Handle(http.MethodPut, roleUserPath, "assignRoleToUser", v1alpha1.PermissionAdmin, "Assign a role to a user, also a built-in one except Admin", a.assignRole).WithStatus(http.StatusNoContent),
		rest.Handle(http.MethodDelete, roleUserPath, "removeRoleFromUser", v1alpha1.PermissionAdmin, "Remove a role from a user", a.removeRole).WithStatus(http.StatusNoContent),
	}}
}

// maxRoleBytes bounds a role: 200 policies with as many resources as one may have do not fit into an object.
const maxRoleBytes = 1 << 20

// Role is a custom role.
type Role struct {
	ID          int64    `json:"id" minimum:"1" maximum:"9007199254740991"`
	Name        string   `json:"name"`
	Description *string  `json:"description,omitempty" nullable:"true"`
	Policies    []Policy `json:"policies"`
}

// RoleResource is the type of the resources of a policy, as documented.
type RoleResource string

// Schema implements huma.SchemaProvider.
func (RoleResource) Schema(huma.Registry) *huma.Schema {
	s := &huma.Schema{Type: huma.TypeString, Description: "Global, Deployment or Folder; others are not used here."}
	for _, name := range permission.Resources {
		s.Enum = append(s.Enum, string(name))
	}
	return s
}

// RoleAction is an action of a policy, as documented.
type RoleAction string

// Schema implements huma.SchemaProvider.
func (RoleAction) Schema(huma.Registry) *huma.Schema {
	s := &huma.Schema{Type: huma.TypeString, Description: "One that nothing here needs is a 400."}
	for _, action := range permission.Actions {
		s.Enum = append(s.Enum, string(action.Name))
	}
	return s
}

// RolePolicy is a policy of a request.
type RolePolicy struct {
	ResourceType RoleResource `json:"resourceType"`
	Actions      []RoleAction `json:"actions" minItems:"1" maxItems:"64"`
	Resources    []string     `json:"resources" minItems:"1" maxItems:"256" pattern:"^(All|[1-9][0-9]{0,15})$" patternDescription:"All or the number of a deployment" doc:"All, or for resourceType Deployment the ids of deployments, which need not exist." example:"[\"1\"]"`
}

// policyOf returns a policy as it is stored. field names it in errors.
func (p *RolePolicy) policyOf(field string) (v1alpha1.AccountRolePolicy, error) {
	policy := v1alpha1.AccountRolePolicy{ResourceType: v1alpha1.AccountRoleResourceType(p.ResourceType)}
	for _, action := range p.Actions {
		if err := permission.CheckPolicy(permission.Resource(p.ResourceType), permission.Name(action)); err != nil {
			return policy, rest.BadRequest("%s.%s", field, err)
		}
		if stored := v1alpha1.AccountRoleAction(action); !slices.Contains(policy.Actions, stored) {
			policy.Actions = append(policy.Actions, stored)
		}
	}
	for _, resource := range p.Resources {
		if !slices.Contains(policy.Resources, resource) {
			policy.Resources = append(policy.Resources, resource)
		}
	}
	switch hasAll := slices.Contains(policy.Resources, v1alpha1.AccountRoleAll); {
	case hasAll && len(policy.Resources) > 1:
		return policy, rest.BadRequest("%s.resources: All stands for all; allowed: All alone, or ids of deployments", field)
	case !hasAll && policy.ResourceType != v1alpha1.AccountRoleDeployment:
		return policy, rest.BadRequest("%s.resources: must be All with resourceType %s", field, p.ResourceType)
	}
	return policy, nil
}

func policiesFrom(sent []RolePolicy) ([]v1alpha1.AccountRolePolicy, error) {
	var policies []v1alpha1.AccountRolePolicy
	for i := range sent {
		policy, err := sent[i].policyOf("policies[" + strconv.Itoa(i) + "]")
		if err != nil {
			return nil, err
		}
		policies = append(policies, policy)
	}
	return policies, nil
}

// roleOf returns a role as documented. Deployments that policies name by their object name are shown by their number.
func (a *api) roleOf(ctx context.Context, r *v1alpha1.AccountRole) (Role, error) {
	out := Role{ID: roleNumber(r), Name: r.Spec.Name, Description: rest.NilIfEmpty(r.Spec.Description), Policies: []Policy{}}
	s := rest.ScopeFrom(ctx)
	deployments, err := a.Catalog.Deployments(s.Namespace(), s.Principal, v1alpha1.PermissionAdmin)
	if err != nil {
		return out, err
	}
	for i := range r.Spec.Policies {
		p := &r.Spec.Policies[i]
		policy := Policy{ResourceType: string(p.ResourceType), Actions: []string{}, Resources: []string{}}
		for _, action := range p.Actions {
			policy.Actions = append(policy.Actions, string(action))
		}
		for _, resource := range p.Resources {
			j := slices.IndexFunc(deployments, func(d *v1alpha1.Deployment) bool { return d.Name == resource })
			switch _, isNumber := ids.Parse(resource); {
			case isNumber, resource == v1alpha1.AccountRoleAll:
				policy.Resources = append(policy.Resources, resource)
			case j >= 0:
				policy.Resources = append(policy.Resources, deployments[j].Labels[v1alpha1.LabelID])
			}
		}
		out.Policies = append(out.Policies, policy)
	}
	return out, nil
}

// roleNumber returns the number of a role, 0 if it has none yet.
func roleNumber(r *v1alpha1.AccountRole) int64 {
	id, _ := ids.Parse(r.Labels[v1alpha1.LabelID])
	return id
}

// roles returns the custom roles of the account that are in effect and have a number, from the cache.
func (a *api) roles(ctx context.Context) ([]*v1alpha1.AccountRole, error) {
	all, err := accountrole.List(ctx, a.Kube, rest.ScopeFrom(ctx).Namespace())
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(accountrole.InEffect(all), func(r *v1alpha1.AccountRole) bool { return roleNumber(r) == 0 }), nil
}

// InRole has the path parameter of routes below a role.
type InRole struct {
	ID string `path:"roleId" pattern:"^[0-9]{1,16}$" doc:"Number of the role."`
}

// role returns the custom role of the path.
func (a *api) role(ctx context.Context, id string) (*v1alpha1.AccountRole, error) {
	all, err := a.roles(ctx)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(all, func(r *v1alpha1.AccountRole) bool { return r.Labels[v1alpha1.LabelID] == id })
	if i < 0 {
		return nil, rest.NotFound("role %s does not exist", id)
	}
	return all[i], nil
}

// ListRolesInput has the parameters of the list.
type ListRolesInput struct{ rest.CursorPage }

func (a *api) listRoles(ctx context.Context, in *ListRolesInput) (*rest.List[Role], error) {
	all, err := a.roles(ctx)
	if err != nil {
		return nil, err
	}
	newestFirst := func(r *v1alpha1.AccountRole) int64 { return -roleNumber(r) }
	slices.SortFunc(all, func(x, y *v1alpha1.AccountRole) int { return cmp.Compare(newestFirst(x), newestFirst(y)) })
	page, err := rest.PaginateByCursor(ctx, in.CursorPage, all, newestFirst)
	if err != nil {
		return nil, err
	}
	out := &rest.List[Role]{}
	out.Body.Items, out.Body.PageInfo = make([]Role, len(page.Body.Items)), page.Body.PageInfo
	for i, r := range page.Body.Items {
		if out.Body.Items[i], err = a.roleOf(ctx, r); err != nil {
			return nil, err
		}
	}
	out.Body.Data = out.Body.Items
	return out, nil
}

// RoleOutput is a role.
type RoleOutput struct{ Body Role }

// shownRole is the response with a role.
func (a *api) shownRole(ctx context.Context, r *v1alpha1.AccountRole) (*RoleOutput, error) {
	out, err := a.roleOf(ctx, r)
	return &RoleOutput{out}, err
}

func (a *api) getRole(ctx context.Context, in *InRole) (*RoleOutput, error) {
	r, err := a.role(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	return a.shownRole(ctx, r)
}

// CreateRoleInput is the body of a creation.
type CreateRoleInput struct {
	Body struct {
		Name        rest.DisplayName `json:"name" minLength:"1" maxLength:"255" doc:"Unique in the account, ignoring case."`
		Description *string          `json:"description,omitempty" nullable:"true" maxLength:"255"`
		Policies    []RolePolicy     `json:"policies" maxItems:"200" doc:"The role grants what one of them grants."`
	}
}

func (a *api) createRole(ctx context.Context, in *CreateRoleInput) (*RoleOutput, error) {
	// The name of the object is not used again: assignments of a deleted role are not those of another one.
	created := &v1alpha1.AccountRole{Spec: v1alpha1.AccountRoleSpec{Name: string(in.Body.Name), Description: ptr.Deref(in.Body.Description, "")}}
	created.Namespace, created.Name = rest.ScopeFrom(ctx).Namespace(), "role-"+utilrand.String(10)
	var err error
	if created.Spec.Policies, err = policiesFrom(in.Body.Policies); err != nil {
		return nil, err
	}
	all, err := accountrole.List(ctx, a.Kube, created.Namespace)
	if err != nil {
		return nil, err
	}
	inEffect := accountrole.InEffect(all)
	if err := checkRoleName(created.Spec.Name, "", inEffect); err != nil {
		return nil, err
	}
	if len(inEffect) >= accountrole.MaxPerAccount {
		return nil, rest.Conflict("the account has %d roles; allowed: at most %d", len(inEffect), accountrole.MaxPerAccount)
	}
	current, err := a.createAndNumber(ctx, created)
	if err != nil {
		return nil, err
	}
	return a.shownRole(ctx, current)
}

// createAndNumber creates a role and waits until it has a number. Of several roles that are created with one name at the same
// time, on several replicas, the first number holds the name, and the others are deleted.
func (a *api) createAndNumber(ctx context.Context, created *v1alpha1.AccountRole) (*v1alpha1.AccountRole, error) {
	w := a.Kube.Expect(created)
	defer w.Stop()
	if err := a.Kube.Create(ctx, created); err != nil {
		return nil, err
	}
	var current *v1alpha1.AccountRole
	err := w.Until(ctx, edit.Timeout, func(o metav1.Object, _ bool) bool {
		current, _ = o.(*v1alpha1.AccountRole)
		return current != nil && current.UID == created.UID && roleNumber(current) > 0
	})
	if err != nil {
		return nil, err
	}
	all, err := accountrole.List(ctx, a.Kube.Live(), created.Namespace)
	if err != nil {
		return nil, err
	}
	if holder := accountrole.Holder(accountrole.InEffect(all), created.Spec.Name); holder != nil && holder.UID != created.UID {
		if err := edit.Delete(ctx, a.Kube, current); err != nil {
			return nil, err
		}
		return nil, nameTaken(created.Spec.Name)
	}
	recording.Identified(ctx, current)
	return current, nil
}

func nameTaken(name string) error {
	return rest.Conflict("name: %q is the name of another role of the account", rest.Clip(name))
}

// checkRoleName returns an error if a role, by its object name, cannot have a name.
func checkRoleName(name, object string, inEffect []*v1alpha1.AccountRole) error {
	switch holder := accountrole.Holder(inEffect, name); {
	case permission.IsReserved(name):
		return rest.BadRequest("name: %q is the name of a built-in role, or reserved", rest.Clip(name))
	case strings.TrimSpace(name) != name:
		return rest.BadRequest("name: %q begins or ends with a space", rest.Clip(name))
	case holder != nil && holder.Name != object:
		return nameTaken(name)
	}
	return nil
}

// notNull is a property that may be absent, but not null.
type notNull[T any] struct {
	given, isNull bool
	value         T
}

// UnmarshalJSON implements json.Unmarshaler. It is not called for an absent property.
func (n *notNull[T]) UnmarshalJSON(data []byte) error {
	n.given, n.isNull = true, bytes.Equal(data, []byte("null"))
	return json.Unmarshal(data, &n.value)
}

// Schema implements huma.SchemaProvider.
func (notNull[T]) Schema(r huma.Registry) *huma.Schema {
	s := *huma.SchemaFromType(r, reflect.TypeFor[T]())
	s.Nullable = false
	return &s
}

// UpdateRoleInput has the properties to change.
type UpdateRoleInput struct {
	InRole
	Body *struct {
		Name        notNull[rest.DisplayName] `json:"name,omitzero" minLength:"1" maxLength:"255" doc:"Unique in the account, ignoring case."`
		Description Member[string]            `json:"description,omitzero" maxLength:"255" doc:"null removes it."`
		Policies    notNull[[]RolePolicy]     `json:"policies,omitzero" maxItems:"200" doc:"They replace all policies."`
	}
}

func (a *api) updateRole(ctx context.Context, in *UpdateRoleInput) (*RoleOutput, error) {
	found, err := a.role(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	switch {
	case in.Body == nil:
		return a.shownRole(ctx, found)
	case in.Body.Name.isNull:
		return nil, rest.BadRequest("name: null is no name; leave it out to keep the name")
	case in.Body.Policies.isNull:
		return nil, rest.BadRequest("policies: null is no list; leave it out to keep the policies, or send an empty list to remove them")
	}
	policies, err := policiesFrom(in.Body.Policies.value)
	if err != nil {
		return nil, err
	}
	if in.Body.Name.given {
		all, err := accountrole.List(ctx, a.Kube, found.Namespace)
		if err != nil {
			return nil, err
		}
		if err := checkRoleName(string(in.Body.Name.value), found.Name, accountrole.InEffect(all)); err != nil {
			return nil, err
		}
	}
	changed, err := edit.Change(ctx, a.Kube, found, func(edited *v1alpha1.AccountRole) error {
		if in.Body.Name.given {
			edited.Spec.Name = string(in.Body.Name.value)
		}
		if in.Body.Description.IsSent {
			edited.Spec.Description = ptr.Deref(in.Body.Description.Value, "")
		}
		if in.Body.Policies.given {
			edited.Spec.Policies = policies
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return a.shownRole(ctx, changed)
}

func (a *api) deleteRole(ctx context.Context, in *InRole) (*struct{}, error) {
	found, err := a.role(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	live := &v1alpha1.AccountRole{} // the cache has no managed fields
	if err := a.Kube.Live().Get(ctx, client.ObjectKeyFromObject(found), live); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, edit.ErrDeleted
		}
		return nil, err
	}
	if owner := fieldowner.OfSpec(live); owner != "" {
		return nil, rest.Conflict("role %s is applied by %q, which would create it again: delete it at its source, such as Git", in.ID, owner)
	}
	return nil, edit.Delete(ctx, a.Kube, live)
}
