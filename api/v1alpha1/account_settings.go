package v1alpha1

// Weekday is a day of the week.
// +kubebuilder:validation:Enum=Monday;Tuesday;Wednesday;Thursday;Friday;Saturday;Sunday
type Weekday string

// MaintenanceWindow is the hour of each week in which new versions are rolled out.
type MaintenanceWindow struct {
	// enabled makes rollouts of new versions of the release channel wait for the window, unless a user
	// pins the version or changes the channel; false when absent.
	// +optional
	Enabled *bool `json:"enabled,omitempty"`

	// day of the week on which the window begins; Sunday when absent.
	// +optional
	Day Weekday `json:"day,omitempty"`

	// time in UTC at which the window begins, as HH:MM; 02:00 when absent.
	// +kubebuilder:validation:MinLength=5
	// +kubebuilder:validation:MaxLength=5
	// +kubebuilder:validation:Pattern=`^([01][0-9]|2[0-3]):[0-5][0-9]$`
	// +optional
	Time string `json:"time,omitempty"`
}

// TimezoneSettings is the time zone in which clients show times.
type TimezoneSettings struct {
	// enabled makes clients use the time zone; false when absent.
	// +optional
	Enabled *bool `json:"enabled,omitempty"`

	// name of the time zone in the IANA database, such as Europe/Berlin; UTC when absent.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*$`
	// +optional
	Name string `json:"name,omitempty"`

	// allowUserOverride lets each user choose another time zone; false when absent.
	// +optional
	AllowUserOverride *bool `json:"allowUserOverride,omitempty"`
}

// AccountSettings are the settings of an account that administrators change over REST
// (/api/v1/tenant/settings) or here. Clients read them; of the settings only oidc and maintenanceWindow
// change what Quoin does.
type AccountSettings struct {
	// oidc accepts access tokens of oidcIssuers; true when absent.
	// +optional
	OIDC *bool `json:"oidc,omitempty"`

	// supportAccess permits the operators of the platform to access the account; false when absent.
	// +optional
	SupportAccess *bool `json:"supportAccess,omitempty"`

	// aibiUserInterface selects the user interface for AI and BI; false when absent.
	// +optional
	AIBIUserInterface *bool `json:"aibiUserInterface,omitempty"`

	// restrictDataDownload hides the download of data in clients; false when absent.
	// +optional
	RestrictDataDownload *bool `json:"restrictDataDownload,omitempty"`

	// sheetsAgentChat enables the chat in the spreadsheet add-in; false when absent.
	// +optional
	SheetsAgentChat *bool `json:"sheetsAgentChat,omitempty"`

	// maintenanceWindow is the hour of each week in which new versions are rolled out.
	// +optional
	MaintenanceWindow *MaintenanceWindow `json:"maintenanceWindow,omitempty"`

	// timezone is the time zone in which clients show times.
	// +optional
	Timezone *TimezoneSettings `json:"timezone,omitempty"`
}

// ThemeColor is a color of a theme: as a hexadecimal color, or as hue and saturation.
//
// +kubebuilder:validation:XValidation:rule="!has(self.color) || !(has(self.hue) || has(self.saturation))",message="color and hue or saturation exclude each other"
type ThemeColor struct {
	// color as #RRGGBB.
	// +kubebuilder:validation:MinLength=7
	// +kubebuilder:validation:MaxLength=7
	// +kubebuilder:validation:Pattern=`^#[0-9A-Fa-f]{6}$`
	// +optional
	Color string `json:"color,omitempty"`

	// hue in degrees.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=360
	// +optional
	Hue *int32 `json:"hue,omitempty"`

	// saturation in percent.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	Saturation *int32 `json:"saturation,omitempty"`
}

// ThemeSurfaceMode is the coloring of surfaces.
// +kubebuilder:validation:Enum=neutral;tinted
type ThemeSurfaceMode string

// ThemePalette is the colors of a theme.
type ThemePalette struct {
	// accent is the color of controls and links.
	// +optional
	Accent *ThemeColor `json:"accent,omitempty"`

	// base is the color from which surfaces and text are derived.
	// +optional
	Base *ThemeColor `json:"base,omitempty"`

	// danger is the color of errors.
	// +optional
	Danger *ThemeColor `json:"danger,omitempty"`

	// note is the color of remarks.
	// +optional
	Note *ThemeColor `json:"note,omitempty"`

	// success is the color of success.
	// +optional
	Success *ThemeColor `json:"success,omitempty"`

	// warning is the color of warnings.
	// +optional
	Warning *ThemeColor `json:"warning,omitempty"`

	// codeSaturation is the saturation of source code in percent.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	CodeSaturation *int32 `json:"codeSaturation,omitempty"`

	// contrastLevel in percent; 50 when absent.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	ContrastLevel *int32 `json:"contrastLevel,omitempty"`

	// pastel colors are lighter; false when absent.
	// +optional
	Pastel *bool `json:"pastel,omitempty"`

	// surfaceMode is the coloring of surfaces; neutral when absent.
	// +optional
	SurfaceMode ThemeSurfaceMode `json:"surfaceMode,omitempty"`
}

// ThemeFont is a font that clients load.
type ThemeFont struct {
	// id of the font in the theme.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +required
	ID string `json:"id"`

	// url of the font file. Quoin does not fetch it.
	// +kubebuilder:validation:MinLength=9
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="isURL(self) && url(self).getScheme() == 'https'",message="must be an https:// URL"
	// +required
	URL string `json:"url"`

	// format of the font file.
	// +kubebuilder:validation:Enum=woff2;woff;ttf;otf
	// +required
	Format string `json:"format"`

	// family is the name of the font family.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +optional
	Family string `json:"family,omitempty"`

	// name shown to users.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +optional
	Name string `json:"name,omitempty"`
}

// ThemeFontReference is a font of the theme and its weight.
type ThemeFontReference struct {
	// font is the id of one of fonts.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +required
	Font string `json:"font"`

	// weight of the font; 400 when absent.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	// +optional
	Weight *int32 `json:"weight,omitempty"`
}

// ThemeTypography is the fonts of a theme.
//
// +kubebuilder:validation:XValidation:rule="self.fonts.exists(f, f.id == self.body.font)",message="body.font must be the id of one of fonts",fieldPath=".body"
// +kubebuilder:validation:XValidation:rule="self.fonts.exists(f, f.id == self.heading.font)",message="heading.font must be the id of one of fonts",fieldPath=".heading"
type ThemeTypography struct {
	// fonts that clients load.
	// +listType=map
	// +listMapKey=id
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +required
	Fonts []ThemeFont `json:"fonts"`

	// body is the font of text.
	// +required
	Body ThemeFontReference `json:"body"`

	// heading is the font of headings.
	// +required
	Heading ThemeFontReference `json:"heading"`
}

// AccountTheme is the look of clients for the users of an account. Clients read it from
// /api/v1/app-config and /api/v1/app-theme.
type AccountTheme struct {
	// applyGlobally makes all clients use the theme, not only embedded content; false when absent.
	// +optional
	ApplyGlobally *bool `json:"applyGlobally,omitempty"`

	// logoURL is the address of the logo. Quoin does not fetch it.
	// +kubebuilder:validation:MinLength=9
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="isURL(self) && url(self).getScheme() == 'https'",message="must be an https:// URL"
	// +optional
	LogoURL string `json:"logoURL,omitempty"`

	// palette is the colors.
	// +optional
	Palette *ThemePalette `json:"palette,omitempty"`

	// typography is the fonts.
	// +optional
	Typography *ThemeTypography `json:"typography,omitempty"`
}
