package attributes

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/directory/number"
	"github.com/quoin-dev/quoin/apiserver/edit"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/internal/userattribute"
)

const valuesPath = "/api/v1/user-attribute-values"

func (a *api) valuesFamily() rest.Family {
	return rest.Family{Tag: "User Attribute Values", Description: "The values that user attributes have for users.", Routes: []rest.Route{
		rest.Handle(http.MethodPost, valuesPath, "upsertUserAttributeValue", v1alpha1.PermissionAdmin, "Set or remove the value of an attribute for a user", a.setValue),
		rest.Handle(http.MethodGet, valuesPath+"/{userId}", "getUserAttributeValues", v1alpha1.PermissionAdmin, "List the values of all attributes for a user", a.listValues),
	}}
}

// Value is the value of an attribute for a user, as documented.
type Value struct {
	UserID          int64   `json:"userId" minimum:"1"`
	UserAttributeID int64   `json:"userAttributeId" minimum:"1"`
	Name            string  `json:"name"`
	Type            string  `json:"type" enum:"string,number,boolean,string_array,number_array"`
	DisplayName     *string `json:"displayName,omitempty" nullable:"true"`
	Description     *string `json:"description,omitempty" nullable:"true"`
	Value           any     `json:"value" doc:"Of the type of the attribute. The default if the user has no value; null without a default."`
	FormattedValue  *string `json:"formattedValue" nullable:"true" doc:"The value as text."`
}

// valueOf returns the value of an attribute that tokens of a user have.
func valueOf(u *v1alpha1.ScimUser, a *v1alpha1.UserAttribute) Value {
	out := Value{
		UserID: number.Of("User", u.Name), UserAttributeID: idOf(a), Name: string(a.Spec.Name), Type: string(a.Spec.Type),
		DisplayName: rest.NilIfEmpty(a.Spec.DisplayName), Description: rest.NilIfEmpty(a.Spec.Description),
	}
	effective := a.Spec.DefaultValue
	if i := indexOf(u, a); i >= 0 && userattribute.Check(a, &u.Spec.Attributes[i].UserAttributeContent) == nil {
		effective = &u.Spec.Attributes[i].UserAttributeContent
	}
	if effective != nil {
		out.Value, out.FormattedValue = userattribute.JSON(effective), new(userattribute.Text(effective))
	}
	return out
}

// indexOf returns the index of the value that a user has for an attribute, -1 if there is none.
func indexOf(u *v1alpha1.ScimUser, a *v1alpha1.UserAttribute) int {
	return slices.IndexFunc(u.Spec.Attributes, func(v v1alpha1.UserAttributeValue) bool { return v.Name == a.Spec.Name })
}

// user returns a user by its number or its SCIM id.
func (a *api) user(ctx context.Context, id string) (*v1alpha1.ScimUser, error) {
	u, err := a.Directory.FindUser(ctx, rest.ScopeFrom(ctx).Namespace(), id)
	if errors.Is(err, edit.ErrDeleted) {
		return nil, rest.NotFound("userId: user %q does not exist", rest.Clip(id))
	}
	return u, err
}

// ListValuesInput has the path parameter.
type ListValuesInput struct {
	UserID string `path:"userId" minLength:"1" maxLength:"253" doc:"Number of the user, or its SCIM id."`
}

// ValuesOutput is the values of a user.
type ValuesOutput struct{ Body []Value }

func (a *api) listValues(ctx context.Context, in *ListValuesInput) (*ValuesOutput, error) {
	u, err := a.user(ctx, in.UserID)
	if err != nil {
		return nil, err
	}
	all, err := a.all(ctx)
	if err != nil {
		return nil, err
	}
	out := &ValuesOutput{Body: make([]Value, len(all))}
	for i, attribute := range all {
		out.Body[i] = valueOf(u, attribute)
	}
	return out, nil
}

// SetValueInput is the body of a change.
type SetValueInput struct {
	Body struct {
		UserID          string     `json:"userId" minLength:"1" maxLength:"253" doc:"Number of the user, or its SCIM id."`
		UserAttributeID string     `json:"userAttributeId" pattern:"^[0-9]{1,16}$" doc:"Number of the user attribute."`
		Value           rest.Exact `json:"value,omitempty" doc:"Of the type of the attribute. When null or absent, the value is removed and the default applies."`
	}
}

// ValueOutput is the value after the change.
type ValueOutput struct{ Body Value }

func (a *api) setValue(ctx context.Context, in *SetValueInput) (*ValueOutput, error) {
	attribute, err := a.find(ctx, "userAttributeId", in.Body.UserAttributeID)
	if err != nil {
		return nil, err
	}
	var content v1alpha1.UserAttributeContent
	if in.Body.Value.Value != nil {
		if content, err = userattribute.Parse(attribute.Spec.Type, in.Body.Value.Value); err != nil {
			return nil, rest.BadRequest("value: user attribute %q: %s", attribute.Spec.Name, err)
		}
	}
	u, err := a.user(ctx, in.Body.UserID)
	if err != nil {
		return nil, err
	}
	u, err = a.Directory.ChangeUser(ctx, u.Namespace, u.Name, func(edited *v1alpha1.ScimUser) error {
		i := indexOf(edited, attribute)
		switch {
		case in.Body.Value.Value == nil && i >= 0:
			edited.Spec.Attributes = slices.Delete(edited.Spec.Attributes, i, i+1)
		case in.Body.Value.Value == nil:
		case i >= 0:
			edited.Spec.Attributes[i].UserAttributeContent = content
		default:
			edited.Spec.Attributes = append(edited.Spec.Attributes, v1alpha1.UserAttributeValue{Name: attribute.Spec.Name, UserAttributeContent: content})
		}
		if err := userattribute.CheckSize(edited.Spec.Attributes); err != nil {
			return rest.BadRequest("value: %s", err)
		}
		return nil
	})
	if errors.Is(err, edit.ErrDeleted) {
		return nil, rest.NotFound("userId: user %q does not exist", rest.Clip(in.Body.UserID))
	}
	if err != nil {
		return nil, err
	}
	return &ValueOutput{valueOf(u, attribute)}, nil
}
