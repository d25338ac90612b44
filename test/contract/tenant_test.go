package contract_test

import (
	"context"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/test/internal/apiclient"
)

const tenantSettings = "/api/v1/tenant/settings"

// accountObject reads the Account of a tenant.
func accountObject(t *testing.T, a *account) *v1alpha1.Account {
	t.Helper()
	o := &v1alpha1.Account{}
	if err := k8s.Get(t.Context(), client.ObjectKey{Name: a.name}, o); err != nil {
		t.Fatal(err)
	}
	return o
}

// patchAccount changes the Account of a tenant.
func patchAccount(t *testing.T, a *account, kind types.PatchType, patch, manager string) {
	t.Helper()
	if err := k8s.Patch(t.Context(), accountObject(t, a), client.RawPatch(kind, []byte(patch)), client.FieldOwner(manager)); err != nil {
		t.Fatal(err)
	}
}

// resetAccount removes settings and theme before and after a test.
func resetAccount(t *testing.T, a *account) {
	t.Helper()
	reset := func() {
		o := &v1alpha1.Account{ObjectMeta: metav1.ObjectMeta{Name: a.name}}
		patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"settings":null,"theme":null}}`))
		if err := k8s.Patch(context.WithoutCancel(t.Context()), o, patch); err != nil {
			t.Error(err)
		}
	}
	reset()
	t.Cleanup(reset)
}

func TestTenantSettingsAreFieldsOfTheAccount(t *testing.T) {
	resetAccount(t, globex)
	admin := globex.as(globex.admin)
	t.Run("defaults", func(t *testing.T) {
		a := admin.call(t, "GET", tenantSettings, nil).is(200).want("auditLogEnabled", true).want("auditLogEnabledCurrent", true).
			want("hasSupportAccess", false).want("useAIBIUserInterface", false).want("oidcEnabled", true).
			want("maintenanceWindowEnabled", false).want("maintenanceWindowDay", "Sunday").want("maintenanceWindowTime", "02:00")
		if at, _ := a.at("auditLogEnabledTimestamp").(float64); int64(at) < accountObject(t, globex).CreationTimestamp.UnixMilli() {
			t.Errorf("auditLogEnabledTimestamp is %v", a.at("auditLogEnabledTimestamp"))
		}
	})
	t.Run("a change is stored in the Account and visible immediately", func(t *testing.T) {
		change := map[string]any{"hasSupportAccess": true, "maintenanceWindowEnabled": true, "maintenanceWindowDay": "Friday", "maintenanceWindowTime": "23:30", "useAIBIUserInterface": nil}
		for _, method := range []string{"PUT", "GET"} {
			body := any(nil)
			if method == "PUT" {
				body = change
			}
			admin.call(t, method, tenantSettings, body).is(200).want("hasSupportAccess", true).want("useAIBIUserInterface", false).
				want("maintenanceWindowEnabled", true).want("maintenanceWindowDay", "Friday").want("maintenanceWindowTime", "23:30")
		}
		s := accountObject(t, globex).Spec.Settings
		if s == nil || s.SupportAccess == nil || !*s.SupportAccess || s.MaintenanceWindow == nil || s.MaintenanceWindow.Day != "Friday" || s.OIDC != nil {
			t.Errorf("the Account has the settings %+v", s)
		}
	})
	t.Run("settings that are absent keep their values", func(t *testing.T) {
		admin.call(t, "PUT", tenantSettings, map[string]any{"maintenanceWindowDay": "Monday"}).is(200).
			want("hasSupportAccess", true).want("maintenanceWindowDay", "Monday").want("maintenanceWindowTime", "23:30")
	})
	t.Run("a request without a change writes nothing", func(t *testing.T) {
		before := accountObject(t, globex).Generation
		admin.call(t, "PUT", tenantSettings, nil).is(200).want("hasSupportAccess", true)
		admin.call(t, "PUT", tenantSettings, map[string]any{}).is(200)
		admin.call(t, "PUT", tenantSettings, map[string]any{"hasSupportAccess": true, "oidcEnabled": true, "auditLogEnabled": true}).is(200)
		if after := accountObject(t, globex).Generation; after != before {
			t.Errorf("generation %d, was %d", after, before)
		}
	})
	t.Run("other tenants keep theirs", func(t *testing.T) {
		acme.as(acme.admin).call(t, "GET", tenantSettings, nil).is(200).want("hasSupportAccess", false)
	})
}

func TestInvalidTenantSettingsAreRejected(t *testing.T) {
	resetAccount(t, globex)
	admin := globex.as(globex.admin)
	before := accountObject(t, globex).Generation
	for field, c := range map[string]struct {
		value any
		words []string
	}{
		"maintenanceWindowDay":     {"Caturday", []string{"Caturday", "Monday, Tuesday"}},
		"maintenanceWindowTime":    {"24:00", []string{"24:00", "HH:MM"}},
		"hasSupportAccess":         {"yes", []string{"yes", "boolean"}},
		"auditLogEnabledTimestamp": {7, []string{"unexpected property"}},
		"unknown":                  {true, []string{"unexpected property"}},
	} {
		admin.call(t, "PUT", tenantSettings, map[string]any{field: c.value}).rejected(400, append(c.words, field)...)
	}
	if after := accountObject(t, globex).Generation; after != before {
		t.Errorf("generation %d, was %d", after, before)
	}
}

func TestTenantSettingsOfGitOpsToolsAreNotChanged(t *testing.T) {
	resetAccount(t, globex)
	admin := globex.as(globex.admin)
	patchAccount(t, globex, types.ApplyPatchType, fmt.Sprintf(`{"apiVersion":%q,"kind":"Account","metadata":{"name":%q},
		"spec":{"host":%q,"namespace":%q,"settings":{"supportAccess":false}}}`, v1alpha1.GroupVersion.String(), globex.name, globex.host, globex.name), "argocd-controller")
	admin.call(t, "PUT", tenantSettings, map[string]any{"hasSupportAccess": true}).
		rejected(409, "spec.settings.supportAccess", "argocd-controller", "Git")
	admin.call(t, "PUT", tenantSettings, map[string]any{"hasSupportAccess": true, "useAIBIUserInterface": true}).rejected(409, "argocd-controller")
	admin.call(t, "PUT", tenantSettings, map[string]any{"hasSupportAccess": false}).is(200) // its value already
	admin.call(t, "PUT", tenantSettings, map[string]any{"useAIBIUserInterface": true}).is(200).want("useAIBIUserInterface", true)
}

func TestTenantSettingsNeedAdmin(t *testing.T) {
	resetAccount(t, globex)
	for name, c := range map[string]struct {
		key  map[string]any
		want string
	}{
		"reader":  {map[string]any{"name": "Reads settings", "permissions": []string{"DeploymentRead"}}, "does not hold the permission Admin"},
		"limited": {map[string]any{"name": "Limited", "deploymentIds": []string{globex.id}}, "limited to certain deployments"},
	} {
		t.Run(name, func(t *testing.T) {
			created := globex.as(globex.admin).call(t, "POST", "/api/v1/api-keys", c.key).is(200)
			caller := globex.as(fmt.Sprint(created.at("token")))
			caller.call(t, "PUT", tenantSettings, map[string]any{"hasSupportAccess": true}).rejected(403, c.want)
			for _, path := range []string{tenantSettings, "/api/v1/app-config", "/api/v1/app-theme", "/api/v1/users/embed-theme"} {
				caller.call(t, "GET", path, nil).is(200)
			}
		})
	}
	caller{globex.host, ""}.call(t, "GET", tenantSettings, nil).rejected(401)
}

func TestOIDCCanBeSwitchedOff(t *testing.T) {
	resetAccount(t, acme)
	user := acme.as(idp.token(t, nil, "platform"))
	user.call(t, "GET", "/api/v1/users/me", nil).is(200)
	acme.as(acme.admin).call(t, "PUT", tenantSettings, map[string]any{"oidcEnabled": false}).is(200).want("oidcEnabled", false)
	user.call(t, "GET", "/api/v1/users/me", nil).rejected(401)
	acme.as(acme.admin).call(t, "PUT", tenantSettings, map[string]any{"oidcEnabled": true}).is(200)
	user.call(t, "GET", "/api/v1/users/me", nil).is(200)
}

func TestThemeOfTheAccount(t *testing.T) {
	resetAccount(t, globex)
	admin := globex.as(globex.admin)
	t.Run("defaults", func(t *testing.T) {
		admin.call(t, "GET", "/api/v1/app-config", nil).is(200).want("appTheme", nil).want("applyThemeGlobally", false).
			want("restrictDataDownload", false).want("sheetsAgentChatEnabled", false).want("timezoneSettings", nil)
		admin.call(t, "GET", "/api/v1/app-theme", nil).is(200).want("logoUrl", "").want("light.backgroundColor", "#FFFFFF").want("dark.contrast", 50.0)
	})
	patchAccount(t, globex, types.MergePatchType, `{"spec":{
		"settings":{"restrictDataDownload":true,"timezone":{"enabled":true,"name":"Europe/Berlin"}},
		"theme":{"applyGlobally":true,"logoURL":"https://cdn.example.com/logo.svg",
			"palette":{"accent":{"color":"#FF0000"},"danger":{"hue":10,"saturation":90},"contrastLevel":70},
			"typography":{"fonts":[{"id":"inter","url":"https://cdn.example.com/inter.woff2","format":"woff2"}],"body":{"font":"inter"},"heading":{"font":"inter","weight":700}}}}}`, "kubectl-patch")
	config := func() *response { return admin.call(t, "GET", "/api/v1/app-config", nil).is(200) }
	apiclient.Soon(t, func() error {
		if config().at("applyThemeGlobally") != true {
			return fmt.Errorf("not applied yet: %s", config().raw)
		}
		return nil
	})
	config().want("restrictDataDownload", true).want("timezoneSettings.timezone", "Europe/Berlin").want("timezoneSettings.allowUserOverride", false).
		want("appTheme.palette.accent.color", "#FF0000").want("appTheme.palette.themes.danger.hue", 10.0).want("appTheme.palette.themes.note", nil)
	admin.call(t, "GET", "/api/v1/app-theme", nil).is(200).want("logoUrl", "https://cdn.example.com/logo.svg").
		want("dark.accentColor", "#FF0000").want("light.contrast", 70.0).want("light.logoUrl", "https://cdn.example.com/logo.svg").
		want("typography.body.fontWeight", 400.0).want("typography.heading.fontWeight", 700.0).want("typography.fonts.0.format", "woff2")
}
