package attributes

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/edit"
	"github.com/quoin-dev/quoin/apiserver/recording"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/internal/fieldowner"
	"github.com/quoin-dev/quoin/internal/ids"
	"github.com/quoin-dev/quoin/internal/userattribute"
)

const (
	attributesPath = "/api/v1/user-attributes"
	attributePath  = attributesPath + "/{userAttributeId}"
)

func (a *api) attributesFamily() rest.Family {
	return rest.Family{Tag: "User Attributes", Description: "Attributes of users, which access policies of data models read.", Routes: []rest.Route{
		rest.Handle(http.MethodGet, attributesPath, "getUserAttributes", v1alpha1.PermissionAdmin, "List the user attributes of the account, the newest first", a.list),
		rest.Handle(http.MethodPost, attributesPath, "createUserAttribute", v1alpha1.PermissionAdmin, "Create a user attribute", a.create),
		rest.Handle(http.MethodPut, attributePath, "updateUserAttribute", v1alpha1.PermissionAdmin, "Change a user attribute, except its name and type", a.update),
		rest.Handle(http.MethodDelete, attributePath, "deleteUserAttribute", v1alpha1.PermissionAdmin, "Delete a user attribute: tokens no longer have it", a.delete),
	}}
}

// Attribute is a user attribute, as documented.
type Attribute struct {
	ID           int64   `json:"id" minimum:"1"`
	Name         string  `json:"name" doc:"Its name in data models and SCIM."`
	Type         string  `json:"type" enum:"string,number,boolean,string_array,number_array"`
	DisplayName  *string `json:"displayName,omitempty" nullable:"true"`
	Description  *string `json:"description,omitempty" nullable:"true"`
	DefaultValue *string `json:"defaultValue,omitempty" nullable:"true" doc:"The value of users without one: text, or JSON for the other types."`
}

func shown(a *v1alpha1.UserAttribute) Attribute {
	out := Attribute{
		ID: idOf(a), Name: string(a.Spec.Name), Type: string(a.Spec.Type),
		DisplayName: rest.NilIfEmpty(a.Spec.DisplayName), Description: rest.NilIfEmpty(a.Spec.Description),
	}
	if a.Spec.DefaultValue != nil {
		out.DefaultValue = new(userattribute.Text(a.Spec.DefaultValue))
	}
	return out
}

// idOf returns the number of an attribute, 0 if it has none yet.
func idOf(a *v1alpha1.UserAttribute) int64 {
	id, _ := ids.Parse(a.Labels[v1alpha1.LabelID])
	return id
}

// all returns the attributes of the account that are in effect and have a number, from the cache.
func (a *api) all(ctx context.Context) ([]*v1alpha1.UserAttribute, error) {
	list := &v1alpha1.UserAttributeList{}
	if err := a.Kube.List(ctx, list, client.InNamespace(rest.ScopeFrom(ctx).Namespace())); err != nil {
		return nil, err
	}
	found := make([]*v1alpha1.UserAttribute, len(list.Items))
	for i := range list.Items {
		found[i] = &list.Items[i]
	}
	return slices.DeleteFunc(userattribute.InEffect(found), func(a *v1alpha1.UserAttribute) bool { return idOf(a) == 0 }), nil
}

// find returns the attribute with a number. field names the number in errors.
func (a *api) find(ctx context.Context, field, id string) (*v1alpha1.UserAttribute, error) {
	all, err := a.all(ctx)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(all, func(a *v1alpha1.UserAttribute) bool { return a.Labels[v1alpha1.LabelID] == id })
	if i < 0 {
		return nil, rest.NotFound("%s: user attribute %q does not exist", field, rest.Clip(id))
	}
	return all[i], nil
}

// ListInput has the parameters of the list.
type ListInput struct {
	rest.Page
	Name rest.Optional[string] `query:"name" maxLength:"128" doc:"Only the attribute with this name, ignoring case; all when empty."`
	Type rest.Optional[string] `query:"type" enum:"string,number,boolean,string_array,number_array" doc:"Only attributes of this type; all when empty."`
}

// ListOutput is a page of attributes, in both documented shapes.
type ListOutput struct {
	Body struct {
		Data     []Attribute   `json:"data"`
		Items    []Attribute   `json:"items"`
		Count    int           `json:"count" minimum:"0" doc:"Number of attributes on all pages."`
		PageInfo rest.PageInfo `json:"pageInfo"`
	}
}

func (a *api) list(ctx context.Context, in *ListInput) (*ListOutput, error) {
	all, err := a.all(ctx)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(a *v1alpha1.UserAttribute) bool {
		return in.Name.Value != "" && !strings.EqualFold(in.Name.Value, string(a.Spec.Name)) || in.Type.Value != "" && in.Type.Value != string(a.Spec.Type)
	})
	newestFirst := func(a *v1alpha1.UserAttribute) int64 { return -idOf(a) }
	slices.SortFunc(all, func(x, y *v1alpha1.UserAttribute) int { return int(newestFirst(x) - newestFirst(y)) })
	page, info, pagination, err := rest.Paginate(ctx, in.Page, all, newestFirst)
	if err != nil {
		return nil, err
	}
	out := &ListOutput{}
	out.Body.Items = make([]Attribute, len(page))
	for i, attribute := range page {
		out.Body.Items[i] = shown(attribute)
	}
	out.Body.Data, out.Body.Count, out.Body.PageInfo = out.Body.Items, pagination.Total, info
	return out, nil
}

// AttributeOutput is an attribute.
type AttributeOutput struct{ Body Attribute }

// CreateInput is the body of a creation.
type CreateInput struct {
	Body struct {
		Name         string            `json:"name" minLength:"1" maxLength:"63" pattern:"^[A-Za-z]([A-Za-z0-9_]*[A-Za-z0-9])?$" patternDescription:"letters, digits and _, from a letter to a letter or digit" doc:"Unique in the account, ignoring case. It cannot be changed."`
		Type         string            `json:"type" enum:"string,number,boolean,string_array,number_array" doc:"It cannot be changed."`
		DisplayName  *rest.DisplayName `json:"displayName,omitempty" nullable:"true" maxLength:"128"`
		Description  *string           `json:"description,omitempty" nullable:"true" maxLength:"1024"`
		DefaultValue *string           `json:"defaultValue,omitempty" nullable:"true" maxLength:"65536" doc:"Text, or JSON for other types than string."`
	}
}

func (a *api) create(ctx context.Context, in *CreateInput) (*AttributeOutput, error) {
	created := &v1alpha1.UserAttribute{Spec: v1alpha1.UserAttributeSpec{
		Name: v1alpha1.UserAttributeName(in.Body.Name), Type: v1alpha1.UserAttributeType(in.Body.Type),
	}}
	created.Namespace, created.Name = rest.ScopeFrom(ctx).Namespace(), userattribute.ObjectName(created.Spec.Name)
	if in.Body.DisplayName != nil {
		created.Spec.DisplayName = string(*in.Body.DisplayName)
	}
	if in.Body.Description != nil {
		created.Spec.Description = *in.Body.Description
	}
	if err := setDefault(created, in.Body.DefaultValue); err != nil {
		return nil, err
	}
	all, err := a.all(ctx)
	if err != nil {
		return nil, err
	}
	if len(all) >= userattribute.MaxPerAccount {
		return nil, rest.Conflict("the account has %d user attributes; allowed: at most %d", len(all), userattribute.MaxPerAccount)
	}
	w := a.Kube.Expect(created)
	defer w.Stop()
	if err := a.Kube.Create(ctx, created); err != nil {
		if apierrors.IsAlreadyExists(err) {
			return nil, rest.Conflict("name: %q is the name of another user attribute of the account", in.Body.Name)
		}
		return nil, err
	}
	var current *v1alpha1.UserAttribute
	err = w.Until(ctx, edit.Timeout, func(o metav1.Object, _ bool) bool {
		current, _ = o.(*v1alpha1.UserAttribute)
		return current != nil && current.UID == created.UID && idOf(current) > 0
	})
	if err != nil {
		return nil, err
	}
	recording.Identified(ctx, current)
	return &AttributeOutput{shown(current)}, nil
}

// setDefault sets the default of an attribute; none if text is nil.
func setDefault(a *v1alpha1.UserAttribute, text *string) error {
	a.Spec.DefaultValue = nil
	if text == nil {
		return nil
	}
	value, err := userattribute.ParseText(a.Spec.Type, *text)
	if err != nil {
		return rest.BadRequest("defaultValue: %s", err)
	}
	a.Spec.DefaultValue = &value
	return nil
}

// Text is a property that keeps its value when absent, and has none when null.
type Text struct {
	given bool
	value *string
}

// UnmarshalJSON implements json.Unmarshaler.
func (t *Text) UnmarshalJSON(data []byte) error {
	t.given = true
	return json.Unmarshal(data, &t.value)
}

// Schema implements huma.SchemaProvider.
func (Text) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Nullable: true}
}

// UpdateInput has the properties to change.
type UpdateInput struct {
	ID   string `path:"userAttributeId" pattern:"^[0-9]{1,16}$" doc:"Number of the user attribute."`
	Body *struct {
		DisplayName  *rest.DisplayName `json:"displayName,omitempty" nullable:"true" maxLength:"128" doc:"Removed when empty."`
		Description  *string           `json:"description,omitempty" nullable:"true" maxLength:"1024" doc:"Removed when empty."`
		DefaultValue Text              `json:"defaultValue,omitempty" doc:"Text, or JSON for other types than string. Removed when null."`
	}
}

func (a *api) update(ctx context.Context, in *UpdateInput) (*AttributeOutput, error) {
	found, err := a.find(ctx, "userAttributeId", in.ID)
	if err != nil {
		return nil, err
	}
	if in.Body == nil {
		return &AttributeOutput{shown(found)}, nil
	}
	changed, err := edit.Change(ctx, a.Kube, found, func(edited *v1alpha1.UserAttribute) error {
		if in.Body.DisplayName != nil {
			edited.Spec.DisplayName = string(*in.Body.DisplayName)
		}
		if in.Body.Description != nil {
			edited.Spec.Description = *in.Body.Description
		}
		if in.Body.DefaultValue.given {
			return setDefault(edited, in.Body.DefaultValue.value)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &AttributeOutput{shown(changed)}, nil
}

// inAttribute has the path parameter of routes below an attribute.
type inAttribute struct {
	ID string `path:"userAttributeId" pattern:"^[0-9]{1,16}$" doc:"Number of the user attribute."`
}

func (a *api) delete(ctx context.Context, in *inAttribute) (*rest.SuccessOutput, error) {
	found, err := a.find(ctx, "userAttributeId", in.ID)
	if err != nil {
		return nil, err
	}
	live := &v1alpha1.UserAttribute{} // the cache has no managed fields
	if err := a.Kube.Live().Get(ctx, client.ObjectKeyFromObject(found), live); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, edit.ErrDeleted
		}
		return nil, err
	}
	if owner := fieldowner.OfSpec(live); owner != "" {
		return nil, rest.Conflict("user attribute %q is applied by %q, which would create it again: delete it at its source, such as Git",
			strconv.FormatInt(idOf(live), 10), owner)
	}
	if err := edit.Delete(ctx, a.Kube, live); err != nil {
		return nil, err
	}
	return rest.Success(), nil
}
