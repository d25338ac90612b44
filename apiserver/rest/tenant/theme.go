package tenant

import (
	"cmp"
	"context"
	"net/http"

	"k8s.io/utils/ptr"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/rest"
)

func (a *api) themeFamily() rest.Family {
	return rest.Family{Tag: "App Theme", Description: "The look and the features of clients, as the Account sets them.", Routes: []rest.Route{
		rest.Handle(http.MethodGet, "/api/v1/app-config", "getAppConfig", rest.NoPermission, "Get the configuration of clients", getAppConfig),
		rest.Handle(http.MethodGet, "/api/v1/users/embed-theme", "getEmbedTheme", rest.NoPermission, "Get the theme of embedded content for the caller, which is that of the account", getAppTheme),
		rest.Handle(http.MethodGet, "/api/v1/app-theme", "getAppTheme", rest.NoPermission, "Get the theme, with defaults where the account sets none", getAppTheme),
	}}
}

// AppConfig is the configuration of clients.
type AppConfig struct {
	AppTheme               *AppTheme         `json:"appTheme,omitempty" doc:"Absent if the account has no theme."`
	ApplyThemeGlobally     bool              `json:"applyThemeGlobally"`
	RestrictDataDownload   bool              `json:"restrictDataDownload"`
	SheetsAgentChatEnabled bool              `json:"sheetsAgentChatEnabled"`
	TimezoneSettings       *TimezoneSettings `json:"timezoneSettings,omitempty"`
}

// TimezoneSettings is the time zone in which clients show times.
type TimezoneSettings struct {
	Enabled           bool   `json:"enabled"`
	Timezone          string `json:"timezone"`
	AllowUserOverride bool   `json:"allowUserOverride"`
}

// AppTheme is the look of clients. Light and Dark are deprecated in favour of Palette.
type AppTheme struct {
	LogoURL    string           `json:"logoUrl" doc:"Empty without a logo."`
	Light      ThemeScheme      `json:"light" deprecated:"true"`
	Dark       ThemeScheme      `json:"dark" deprecated:"true"`
	Palette    ThemePalette     `json:"palette"`
	Typography *ThemeTypography `json:"typography,omitempty"`
}

// ThemeScheme is the colors of one color scheme.
type ThemeScheme struct {
	AccentColor     string `json:"accentColor"`
	BackgroundColor string `json:"backgroundColor"`
	ForegroundColor string `json:"foregroundColor"`
	Contrast        int32  `json:"contrast" minimum:"0" maximum:"100"`
	LogoURL         string `json:"logoUrl"`
}

// ThemePalette is the seeds from which clients derive colors.
type ThemePalette struct {
	Accent        *ThemeSeed         `json:"accent,omitempty"`
	Base          *ThemeSeed         `json:"base,omitempty"`
	ContrastLevel *int32             `json:"contrastLevel,omitempty" nullable:"true" minimum:"0" maximum:"100"`
	Pastel        *bool              `json:"pastel,omitempty" nullable:"true"`
	SurfaceMode   *string            `json:"surfaceMode,omitempty" nullable:"true" enum:"neutral,tinted"`
	Themes        *ThemePaletteParts `json:"themes,omitempty"`
}

// ThemePaletteParts is the seeds of parts with colors of their own.
type ThemePaletteParts struct {
	Code    *ThemeCode `json:"code,omitempty"`
	Danger  *ThemeSeed `json:"danger,omitempty"`
	Note    *ThemeSeed `json:"note,omitempty"`
	Success *ThemeSeed `json:"success,omitempty"`
	Warning *ThemeSeed `json:"warning,omitempty"`
}

// ThemeCode is the coloring of source code.
type ThemeCode struct {
	Saturation *int32 `json:"saturation,omitempty" nullable:"true" minimum:"0" maximum:"100"`
}

// ThemeSeed is a color, or hue and saturation.
type ThemeSeed struct {
	Color      *string `json:"color,omitempty" nullable:"true"`
	Hue        *int32  `json:"hue,omitempty" nullable:"true" minimum:"0" maximum:"360"`
	Saturation *int32  `json:"saturation,omitempty" nullable:"true" minimum:"0" maximum:"100"`
}

// ThemeTypography is the fonts.
type ThemeTypography struct {
	Body    ThemeFontReference `json:"body"`
	Heading ThemeFontReference `json:"heading"`
	Fonts   []ThemeFont        `json:"fonts"`
}

// ThemeFontReference is one of the fonts and its weight.
type ThemeFontReference struct {
	FontRef    string `json:"fontRef"`
	FontWeight int32  `json:"fontWeight"`
}

// ThemeFont is a font that clients load.
type ThemeFont struct {
	ID     string  `json:"id"`
	URL    string  `json:"url"`
	Format string  `json:"format" enum:"woff2,woff,ttf,otf"`
	Family *string `json:"family,omitempty" nullable:"true"`
	Name   *string `json:"name,omitempty" nullable:"true"`
}

// AppConfigOutput is the response.
type AppConfigOutput struct{ Body AppConfig }

// AppThemeOutput is the response.
type AppThemeOutput struct{ Body AppTheme }

func getAppConfig(ctx context.Context, _ *struct{}) (*AppConfigOutput, error) {
	spec := &rest.ScopeFrom(ctx).Account.Spec
	settings := ptr.Deref(spec.Settings, v1alpha1.AccountSettings{})
	out := AppConfig{
		RestrictDataDownload:   ptr.Deref(settings.RestrictDataDownload, false),
		SheetsAgentChatEnabled: ptr.Deref(settings.SheetsAgentChat, false),
	}
	if zone := settings.Timezone; zone != nil {
		out.TimezoneSettings = &TimezoneSettings{
			Enabled: ptr.Deref(zone.Enabled, false), Timezone: cmp.Or(zone.Name, "UTC"), AllowUserOverride: ptr.Deref(zone.AllowUserOverride, false),
		}
	}
	if spec.Theme != nil {
		theme := themeOf(spec.Theme)
		out.AppTheme, out.ApplyThemeGlobally = &theme, ptr.Deref(spec.Theme.ApplyGlobally, false)
	}
	return &AppConfigOutput{out}, nil
}

func getAppTheme(ctx context.Context, _ *struct{}) (*AppThemeOutput, error) {
	theme := ptr.Deref(rest.ScopeFrom(ctx).Account.Spec.Theme, v1alpha1.AccountTheme{})
	return &AppThemeOutput{themeOf(&theme)}, nil
}

// Defaults of a theme.
const (
	defaultContrast   = 50
	defaultFontWeight = 400
)

// themeOf returns a theme with the defaults of its required parts.
func themeOf(t *v1alpha1.AccountTheme) AppTheme {
	palette := ptr.Deref(t.Palette, v1alpha1.ThemePalette{})
	out := AppTheme{
		LogoURL: t.LogoURL,
		Light:   ThemeScheme{AccentColor: "#3B5BDB", BackgroundColor: "#FFFFFF", ForegroundColor: "#1F2430"},
		Dark:    ThemeScheme{AccentColor: "#91A7FF", BackgroundColor: "#14161C", ForegroundColor: "#E8EAF0"},
		Palette: paletteOf(&palette),
	}
	for _, scheme := range []*ThemeScheme{&out.Light, &out.Dark} {
		scheme.LogoURL, scheme.Contrast = t.LogoURL, ptr.Deref(palette.ContrastLevel, defaultContrast)
		if palette.Accent != nil {
			scheme.AccentColor = cmp.Or(palette.Accent.Color, scheme.AccentColor)
		}
	}
	if t.Typography != nil {
		out.Typography = typographyOf(t.Typography)
	}
	return out
}

func paletteOf(p *v1alpha1.ThemePalette) ThemePalette {
	out := ThemePalette{
		Accent: seedOf(p.Accent), Base: seedOf(p.Base), ContrastLevel: p.ContrastLevel, Pastel: p.Pastel,
		SurfaceMode: rest.NilIfEmpty(string(p.SurfaceMode)),
	}
	parts := ThemePaletteParts{Danger: seedOf(p.Danger), Note: seedOf(p.Note), Success: seedOf(p.Success), Warning: seedOf(p.Warning)}
	if p.CodeSaturation != nil {
		parts.Code = &ThemeCode{p.CodeSaturation}
	}
	if parts != (ThemePaletteParts{}) {
		out.Themes = &parts
	}
	return out
}

func seedOf(c *v1alpha1.ThemeColor) *ThemeSeed {
	if c == nil {
		return nil
	}
	return &ThemeSeed{Color: rest.NilIfEmpty(c.Color), Hue: c.Hue, Saturation: c.Saturation}
}

func typographyOf(t *v1alpha1.ThemeTypography) *ThemeTypography {
	reference := func(f v1alpha1.ThemeFontReference) ThemeFontReference {
		return ThemeFontReference{FontRef: f.Font, FontWeight: ptr.Deref(f.Weight, defaultFontWeight)}
	}
	out := &ThemeTypography{Body: reference(t.Body), Heading: reference(t.Heading), Fonts: make([]ThemeFont, len(t.Fonts))}
	for i, f := range t.Fonts {
		out.Fonts[i] = ThemeFont{ID: f.ID, URL: f.URL, Format: f.Format, Family: rest.NilIfEmpty(f.Family), Name: rest.NilIfEmpty(f.Name)}
	}
	return out
}
