package identity

import (
	"context"

	"k8s.io/utils/ptr"

	"github.com/quoin-dev/quoin/apiserver/directory"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/apiserver/scim/schema"
)

// CreateUserInput is the body of a creation.
type CreateUserInput struct {
	Body struct {
		Email      string                `json:"email" minLength:"3" maxLength:"320" pattern:"^[^@\\s]+@[^@\\s]+$" patternDescription:"an e-mail address"`
		Username   rest.DisplayName      `json:"username" minLength:"1" maxLength:"320" doc:"Unique in the account, ignoring case; the value of the claim of access tokens that names the user."`
		FirstName  *rest.DisplayName     `json:"firstName,omitempty" nullable:"true" maxLength:"256"`
		ExternalID *string               `json:"externalId,omitempty" nullable:"true" maxLength:"512"`
		Picture    *string               `json:"picture,omitempty" nullable:"true" maxLength:"2048" doc:"URL of a photo."`
		IsAdmin    *bool                 `json:"isAdmin,omitempty" nullable:"true" doc:"Whether access tokens of the user have the permission Admin; false when absent."`
		Settings   Member[SettingsPatch] `json:"settings,omitzero"`
	}
}

func (a *api) createUser(ctx context.Context, in *CreateUserInput) (*UserOutput, error) {
	users, body := a.users(ctx), &in.Body
	sent := map[string]any{
		"userName": string(body.Username),
		"emails":   []any{map[string]any{"value": body.Email, "type": "work", "primary": true}},
	}
	if body.FirstName != nil {
		sent["name"] = map[string]any{"givenName": string(*body.FirstName)}
	}
	if id := ptr.Deref(body.ExternalID, ""); id != "" {
		sent["externalId"] = id
	}
	if url := ptr.Deref(body.Picture, ""); url != "" {
		sent["photos"] = []any{photo(url)}
	}
	d, err := users.normalized(sent)
	if err != nil {
		return nil, users.problem(err, 0)
	}
	d[directory.AttributeAdmin] = ptr.Deref(body.IsAdmin, false)
	if patch := body.Settings.Value; patch != nil {
		d[directory.AttributeSettings] = patch.apply(nil)
	}
	r, err := users.CreateResource(ctx, users.kind, d)
	if err != nil {
		return nil, users.problem(err, 0)
	}
	return a.userOutput(ctx, r)
}

// normalized returns the document of attributes, by the rules for requests over SCIM.
func (p people) normalized(attributes map[string]any) (schema.Document, error) {
	d, err := p.kind.Normalize(attributes, schema.Leniency{})
	if err != nil {
		return nil, err
	}
	return d, p.kind.Validate(d)
}

func photo(url string) map[string]any {
	return map[string]any{"value": url, "type": "photo", "primary": true}
}

// UpdateUserInput is the body of a change.
type UpdateUserInput struct {
	InUser
	Body *struct {
		FirstName     *rest.DisplayName     `json:"firstName,omitempty" nullable:"true" maxLength:"256"`
		Title         *rest.DisplayName     `json:"title,omitempty" nullable:"true" maxLength:"256"`
		Picture       *string               `json:"picture,omitempty" nullable:"true" maxLength:"2048" doc:"URL of a photo; the empty string removes it."`
		IsAdmin       *bool                 `json:"isAdmin,omitempty" nullable:"true" doc:"Whether access tokens of the user have the permission Admin."`
		IsDeactivated *bool                 `json:"isDeactivated,omitempty" nullable:"true" doc:"true rejects the keys and tokens of the user."`
		Settings      Member[SettingsPatch] `json:"settings,omitzero" doc:"A merge patch (RFC 7396)."`
	}
}

func (a *api) updateUser(ctx context.Context, in *UpdateUserInput) (*UserOutput, error) {
	users := a.users(ctx)
	r, err := users.change(ctx, in.ID, func(id string, d schema.Document) error {
		after, err := in.apply(users, d)
		if err != nil {
			return err
		}
		return users.guard(ctx, id, d, after)
	})
	if err != nil {
		return nil, err
	}
	return a.userOutput(ctx, r)
}

// state is what decides about the access of a user.
type state struct{ active, admin bool }

func stateOf(d schema.Document) state { return state{isActive(d), isAdmin(d)} }

// apply changes the document of a user, except its state, which it returns.
func (in *UpdateUserInput) apply(users people, d schema.Document) (state, error) {
	after, body := stateOf(d), in.Body
	if body == nil {
		return after, nil
	}
	changed := map[string]any{}
	if body.FirstName != nil {
		name, _ := d.Clone()["name"].(map[string]any)
		if name == nil {
			name = map[string]any{}
		}
		name["givenName"] = string(*body.FirstName)
		changed["name"] = name
	}
	if body.Title != nil {
		changed["title"] = string(*body.Title)
	}
	if body.Picture != nil {
		changed["photos"] = replacePhoto(d, *body.Picture)
	}
	normalized, err := users.kind.Normalize(changed, schema.Leniency{})
	if err != nil {
		return after, err
	}
	for name := range changed {
		if value, given := normalized[name]; given {
			d[name] = value
		} else {
			delete(d, name)
		}
	}
	if patch := body.Settings.Value; patch != nil {
		d[directory.AttributeSettings] = patch.apply(settingsOf(d))
	}
	after.admin = ptr.Deref(body.IsAdmin, after.admin)
	if body.IsDeactivated != nil {
		after.active = !*body.IsDeactivated
	}
	return after, nil
}

// replacePhoto returns the photos of a user with another primary one, or without it if url is empty.
func replacePhoto(d schema.Document, url string) []any {
	var photos []any
	if url != "" {
		photos = append(photos, photo(url))
	}
	shown := primary(d, "photos")
	elements, _ := d.Clone()["photos"].([]any)
	for _, item := range elements {
		if element, _ := item.(map[string]any); textOf(element, "value") != shown && textOf(element, "value") != url {
			delete(element, "primary")
			photos = append(photos, element)
		}
	}
	return photos
}

// guard sets the state in the document of a user, unless the caller is the user and is deactivated, or the account would
// have no active administrator any more.
func (p people) guard(ctx context.Context, id string, d schema.Document, after state) error {
	before := stateOf(d)
	if before.active && !after.active && isCaller(ctx, id) {
		return rest.Forbidden("isDeactivated: you cannot deactivate yourself; ask another administrator")
	}
	if before.active && before.admin && (!after.active || !after.admin) {
		if err := p.keepAdmin(ctx, id); err != nil {
			return err
		}
	}
	if before.active != after.active {
		d["active"] = after.active
	}
	if before.admin != after.admin {
		d[directory.AttributeAdmin] = after.admin
	}
	return nil
}

// keepAdmin returns an error if the account has no other active administrator than one, who is about to be removed.
func (p people) keepAdmin(ctx context.Context, id string) error {
	others, err := p.ConfirmOtherAdmin(ctx, id)
	if err == nil && !others {
		return rest.Forbidden("the user is the last active administrator of the account: make another user an administrator first")
	}
	return err
}

// isCaller reports whether the credential belongs to a user.
func isCaller(ctx context.Context, id string) bool { return rest.ScopeFrom(ctx).Principal.User == id }

func (a *api) deleteUser(ctx context.Context, in *InUser) (*rest.SuccessOutput, error) {
	if err := a.users(ctx).deleteUser(ctx, in.ID); err != nil {
		return nil, err
	}
	return rest.Success(), nil
}

// deleteUser deletes the user with a number.
func (p people) deleteUser(ctx context.Context, number int64) error {
	id, err := p.id(number)
	if err != nil {
		return err
	}
	if isCaller(ctx, id) {
		return rest.BadRequest("user %d: you cannot delete yourself; ask another administrator", number)
	}
	return p.problem(p.DeleteResource(ctx, p.kind, id, func(r *schema.Resource) error {
		if state := stateOf(r.Document); state.active && state.admin {
			return p.keepAdmin(ctx, id)
		}
		return nil
	}), number)
}
