package identity

import (
	"bytes"
	"context"
	"encoding/json"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/auth"
	"github.com/quoin-dev/quoin/apiserver/directory"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/apiserver/scim/schema"
)

// maxSettingsBytes bounds a merge patch of settings, which have a few hundred bytes.
const maxSettingsBytes = 16 << 10

// UserSettings are a user's settings of clients.
type UserSettings struct {
	AlternatingRowColors *bool          `json:"alternatingRowColors,omitempty" nullable:"true"`
	DefaultDeploymentID  *int64         `json:"defaultDeploymentId,omitempty" nullable:"true"`
	Locale               *string        `json:"locale,omitempty" nullable:"true"`
	Sheets               *SheetSettings `json:"sheets,omitempty"`
	Theme                *string        `json:"theme,omitempty" nullable:"true"`
	Timezone             *string        `json:"timezone,omitempty" nullable:"true"`
}

// SheetSettings are a user's settings of spreadsheet add-ons.
type SheetSettings struct {
	AutoRunQueryOnChange     *bool `json:"autoRunQueryOnChange,omitempty" nullable:"true"`
	OpenExplorationFromSheet *bool `json:"openExplorationFromSheet,omitempty" nullable:"true"`
	RevealSheetOnOpen        *bool `json:"revealSheetOnOpen,omitempty" nullable:"true"`
	ShowAppliedFilters       *bool `json:"showAppliedFilters,omitempty" nullable:"true"`
	SuppressDuplicateValues  *bool `json:"suppressDuplicateValues,omitempty" nullable:"true"`
}

func shownSettings(s *v1alpha1.UserSettings) *UserSettings {
	if s == nil {
		return nil
	}
	return &UserSettings{
		AlternatingRowColors: s.AlternatingRowColors, DefaultDeploymentID: s.DefaultDeploymentID, Sheets: (*SheetSettings)(s.Sheets),
		Locale: rest.NilIfEmpty(s.Locale), Theme: rest.NilIfEmpty(s.Theme), Timezone: rest.NilIfEmpty(s.Timezone),
	}
}

// Member is a member of a merge patch (RFC 7396): absent, null, which removes the value, or a value.
type Member[T any] struct {
	// IsSent is true for null and for a value.
	IsSent bool
	// Value is nil for null.
	Value *T
}

// UnmarshalJSON implements json.Unmarshaler. It is not called for an absent member.
func (m *Member[T]) UnmarshalJSON(data []byte) error {
	m.IsSent, m.Value = true, nil
	if bytes.Equal(data, []byte("null")) {
		return nil
	}
	m.Value = new(T)
	return json.Unmarshal(data, m.Value)
}

// Schema implements huma.SchemaProvider.
func (m Member[T]) Schema(r huma.Registry) *huma.Schema {
	s := huma.SchemaFromType(r, reflect.TypeFor[T]())
	s.Nullable = true
	return s
}

// apply applies the member to a field that is a pointer.
func (m Member[T]) apply(field **T) {
	if m.IsSent {
		*field = m.Value
	}
}

// applyText applies the member to a text.
func applyText(m Member[SettingText], field *string) {
	switch {
	case m.Value != nil:
		*field = string(*m.Value)
	case m.IsSent:
		*field = ""
	}
}

// SettingText is a text in settings, by the rule of v1alpha1.UserSettings.
type SettingText string

// Schema implements huma.SchemaProvider.
func (SettingText) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{
		Type: huma.TypeString, Pattern: `^[A-Za-z0-9][A-Za-z0-9_.+/:@ -]{0,63}$`,
		PatternDescription: "at most 64 letters, digits, spaces and _ . + / : @ -, a letter or digit first",
	}
}

// SettingsPatch is a merge patch of settings.
type SettingsPatch struct {
	AlternatingRowColors Member[bool]        `json:"alternatingRowColors,omitzero"`
	DefaultDeploymentID  Member[int64]       `json:"defaultDeploymentId,omitzero" minimum:"1" maximum:"9007199254740991" doc:"It need not exist."`
	LastSeenChangelogID  Member[int64]       `json:"lastSeenChangelogId,omitzero" deprecated:"true" doc:"It is ignored."`
	Locale               Member[SettingText] `json:"locale,omitzero"`
	Sheets               Member[SheetsPatch] `json:"sheets,omitzero" doc:"Merged member by member; null removes all."`
	Theme                Member[SettingText] `json:"theme,omitzero"`
	Timezone             Member[SettingText] `json:"timezone,omitzero"`
}

// SheetsPatch is a merge patch of settings of spreadsheet add-ons.
type SheetsPatch struct {
	AutoRunQueryOnChange     Member[bool] `json:"autoRunQueryOnChange,omitzero"`
	OpenExplorationFromSheet Member[bool] `json:"openExplorationFromSheet,omitzero"`
	RevealSheetOnOpen        Member[bool] `json:"revealSheetOnOpen,omitzero"`
	ShowAppliedFilters       Member[bool] `json:"showAppliedFilters,omitzero"`
	SuppressDuplicateValues  Member[bool] `json:"suppressDuplicateValues,omitzero"`
}

// apply returns the settings after the patch. It does not modify those before it.
func (p *SettingsPatch) apply(before *v1alpha1.UserSettings) *v1alpha1.UserSettings {
	s := &v1alpha1.UserSettings{}
	if before != nil {
		s = before.DeepCopy()
	}
	p.AlternatingRowColors.apply(&s.AlternatingRowColors)
	p.DefaultDeploymentID.apply(&s.DefaultDeploymentID)
	applyText(p.Locale, &s.Locale)
	applyText(p.Theme, &s.Theme)
	applyText(p.Timezone, &s.Timezone)
	switch {
	case p.Sheets.Value != nil:
		s.Sheets = p.Sheets.Value.apply(s.Sheets)
	case p.Sheets.IsSent:
		s.Sheets = nil
	}
	return s
}

func (p *SheetsPatch) apply(before *v1alpha1.SheetsSettings) *v1alpha1.SheetsSettings {
	s := &v1alpha1.SheetsSettings{}
	if before != nil {
		s = before.DeepCopy()
	}
	p.AutoRunQueryOnChange.apply(&s.AutoRunQueryOnChange)
	p.OpenExplorationFromSheet.apply(&s.OpenExplorationFromSheet)
	p.RevealSheetOnOpen.apply(&s.RevealSheetOnOpen)
	p.ShowAppliedFilters.apply(&s.ShowAppliedFilters)
	p.SuppressDuplicateValues.apply(&s.SuppressDuplicateValues)
	if *s == (v1alpha1.SheetsSettings{}) {
		return nil
	}
	return s
}

// UpdateMySettingsInput is the body of a change of the caller's settings.
type UpdateMySettingsInput struct{ Body *SettingsPatch }

func (a *api) updateMySettings(ctx context.Context, in *UpdateMySettingsInput) (*UserOutput, error) {
	s := rest.ScopeFrom(ctx)
	switch {
	case s.Principal.Kind != auth.KindUser && s.Principal.Kind != auth.KindAPIKey || s.Principal.User == "":
		return nil, rest.Forbidden("%s %q does not belong to a user of the account; settings are those of a user", s.Principal.Kind, s.Principal.Name)
	case s.Principal.IsLimited():
		return nil, rest.Forbidden("%s %q is limited to certain deployments; settings concern the whole account", s.Principal.Kind, s.Principal.Name)
	}
	users := a.users(ctx)
	r, err := users.ReplaceResource(ctx, users.kind, s.Principal.User, func(r *schema.Resource) (schema.Document, error) {
		if in.Body != nil {
			r.Document[directory.AttributeSettings] = in.Body.apply(settingsOf(r.Document))
		}
		return r.Document, nil
	})
	if err != nil {
		return nil, users.problem(err, 0)
	}
	return a.me(ctx, r)
}
