package tenant

import (
	"cmp"
	"context"
	"fmt"
	"net/http"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/edit"
	"github.com/quoin-dev/quoin/apiserver/recording"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/internal/maintenance"
)

const settingsPath = "/api/v1/tenant/settings"

func (a *api) settingsFamily() rest.Family {
	return rest.Family{Tag: "Tenant Settings", Description: "Settings of the account.", Routes: []rest.Route{
		rest.Handle(http.MethodGet, settingsPath, "getTenantSettings", rest.NoPermission, "Get the settings of the account", a.getSettings),
		rest.Handle(http.MethodPut, settingsPath, "updateTenantSettings", v1alpha1.PermissionAdmin, "Update settings of the account", a.updateSettings),
	}}
}

// TenantSettings are the documented settings of an account.
type TenantSettings struct { //nolint:revive // the name of the schema in the documented API
	AuditLogEnabled          bool   `json:"auditLogEnabled" doc:"Whether the account asks for an audit log."`
	AuditLogEnabledCurrent   bool   `json:"auditLogEnabledCurrent" doc:"Whether changes are recorded now: the plan must be Enterprise."`
	AuditLogEnabledTimestamp int64  `json:"auditLogEnabledTimestamp" minimum:"0" doc:"When auditLogEnabled was last set, in milliseconds since 1970; 0 if it was never set."`
	HasSupportAccess         bool   `json:"hasSupportAccess" doc:"Whether operators of the platform may access the account."`
	UseAIBIUserInterface     bool   `json:"useAIBIUserInterface"`
	MaintenanceWindowEnabled bool   `json:"maintenanceWindowEnabled" doc:"Whether new versions of release channels wait for the window."`
	MaintenanceWindowDay     string `json:"maintenanceWindowDay" enum:"Monday,Tuesday,Wednesday,Thursday,Friday,Saturday,Sunday"`
	MaintenanceWindowTime    string `json:"maintenanceWindowTime" doc:"When the window of one hour begins, as HH:MM in UTC."`
	OIDCEnabled              bool   `json:"oidcEnabled" doc:"Whether access tokens of the account's issuers are accepted."`
}

// SettingsOutput is the response.
type SettingsOutput struct{ Body TenantSettings }

// UpdateSettingsInput has the settings to change. Those that are absent or null keep their value.
type UpdateSettingsInput struct {
	Body *struct {
		AuditLogEnabled          *bool   `json:"auditLogEnabled,omitempty" nullable:"true" doc:"true needs the plan Enterprise."`
		HasSupportAccess         *bool   `json:"hasSupportAccess,omitempty" nullable:"true"`
		UseAIBIUserInterface     *bool   `json:"useAIBIUserInterface,omitempty" nullable:"true"`
		MaintenanceWindowEnabled *bool   `json:"maintenanceWindowEnabled,omitempty" nullable:"true"`
		MaintenanceWindowDay     *string `json:"maintenanceWindowDay,omitempty" nullable:"true" enum:"Monday,Tuesday,Wednesday,Thursday,Friday,Saturday,Sunday"`
		MaintenanceWindowTime    *string `json:"maintenanceWindowTime,omitempty" nullable:"true" pattern:"^([01][0-9]|2[0-3]):[0-5][0-9]$" patternDescription:"HH:MM"`
		OIDCEnabled              *bool   `json:"oidcEnabled,omitempty" nullable:"true"`
	}
}

func (a *api) getSettings(ctx context.Context, _ *struct{}) (*SettingsOutput, error) {
	account := &v1alpha1.Account{}
	if err := a.Kube.Live().Get(ctx, client.ObjectKeyFromObject(rest.ScopeFrom(ctx).Account), account); err != nil {
		return nil, err
	}
	return settingsOf(account)
}

func settingsOf(account *v1alpha1.Account) (*SettingsOutput, error) {
	spec := &account.Spec
	s := ptr.Deref(spec.Settings, v1alpha1.AccountSettings{})
	window := ptr.Deref(s.MaintenanceWindow, v1alpha1.MaintenanceWindow{})
	changed, err := auditLogChanged(account)
	return &SettingsOutput{TenantSettings{
		AuditLogEnabled:          spec.AuditLog != nil && ptr.Deref(spec.AuditLog.Enabled, false),
		AuditLogEnabledCurrent:   recording.IsOn(account),
		AuditLogEnabledTimestamp: changed,
		HasSupportAccess:         ptr.Deref(s.SupportAccess, false),
		UseAIBIUserInterface:     ptr.Deref(s.AIBIUserInterface, false),
		MaintenanceWindowEnabled: ptr.Deref(window.Enabled, false),
		MaintenanceWindowDay:     string(cmp.Or(window.Day, maintenance.DefaultDay)),
		MaintenanceWindowTime:    cmp.Or(window.Time, maintenance.DefaultTime),
		OIDCEnabled:              ptr.Deref(s.OIDC, true),
	}}, err
}

// auditLogChanged returns when the owner of spec.auditLog.enabled last wrote its fields, in
// milliseconds since 1970; 0 if no manager owns the field.
func auditLogChanged(account *v1alpha1.Account) (int64, error) {
	var latest int64
	for _, entry := range account.ManagedFields {
		if entry.Subresource != "" || entry.FieldsV1 == nil || entry.Time == nil {
			continue
		}
		owned := fieldpath.NewSet()
		if err := owned.FromJSON(entry.FieldsV1.GetRawReader()); err != nil {
			return 0, fmt.Errorf("read managed fields: %w", err)
		}
		if owned.Has(fieldpath.MakePathOrDie("spec", "auditLog", "enabled")) {
			latest = max(latest, entry.Time.UnixMilli())
		}
	}
	return latest, nil
}

// +kubebuilder:rbac:groups=platform.quoin.dev,resources=accounts,verbs=get;patch

func (a *api) updateSettings(ctx context.Context, in *UpdateSettingsInput) (*SettingsOutput, error) {
	if in.Body == nil {
		return a.getSettings(ctx, nil)
	}
	account, err := edit.Change(ctx, a.Kube, rest.ScopeFrom(ctx).Account, in.apply)
	if err != nil {
		return nil, err
	}
	return settingsOf(account)
}

// apply changes the spec of an account. A value that is in effect already is not written.
func (in *UpdateSettingsInput) apply(account *v1alpha1.Account) error {
	spec, body := &account.Spec, in.Body
	s := ptr.Deref(spec.Settings, v1alpha1.AccountSettings{})
	window := ptr.Deref(s.MaintenanceWindow, v1alpha1.MaintenanceWindow{})
	log := ptr.Deref(spec.AuditLog, v1alpha1.AuditLog{})
	if ptr.Deref(body.AuditLogEnabled, false) && spec.Plan != v1alpha1.PlanEnterprise {
		return rest.BadRequest("auditLogEnabled: true needs the plan %s; the account has the plan %s; allowed: false",
			v1alpha1.PlanEnterprise, cmp.Or(spec.Plan, v1alpha1.PlanStandard))
	}
	if set(&log.Enabled, body.AuditLogEnabled, false) {
		spec.AuditLog = &log
	}
	inWindow := set(&window.Enabled, body.MaintenanceWindowEnabled, false)
	if day := v1alpha1.Weekday(ptr.Deref(body.MaintenanceWindowDay, "")); day != "" && day != cmp.Or(window.Day, maintenance.DefaultDay) {
		window.Day, inWindow = day, true
	}
	if time := ptr.Deref(body.MaintenanceWindowTime, ""); time != "" && time != cmp.Or(window.Time, maintenance.DefaultTime) {
		window.Time, inWindow = time, true
	}
	if inWindow {
		s.MaintenanceWindow = &window
	}
	changed := set(&s.SupportAccess, body.HasSupportAccess, false)
	changed = set(&s.AIBIUserInterface, body.UseAIBIUserInterface, false) || changed
	changed = set(&s.OIDC, body.OIDCEnabled, true) || changed
	if changed || inWindow {
		spec.Settings = &s
	}
	return nil
}

// set sets a field to a requested value and reports whether that changes the value in effect.
func set(field **bool, requested *bool, absent bool) bool {
	if requested == nil || *requested == ptr.Deref(*field, absent) {
		return false
	}
	*field = requested
	return true
}
