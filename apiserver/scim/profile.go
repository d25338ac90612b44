package scim

import (
	"net/http"
	"strings"

	"github.com/quoin-dev/quoin/apiserver/scim/patch"
	"github.com/quoin-dev/quoin/apiserver/scim/schema"
)

// Profile is the deviations of a provisioning client from the RFCs that the server supports. The
// table in profiles has one row for each deviation.
type Profile struct {
	// Name is RFC, Okta or EntraID.
	Name string
	// Quirks are the accepted deviations in requests.
	Quirks patch.Quirks
	// SilentGroupPatch responds to a PATCH of a group with 204, without reading its members.
	SilentGroupPatch bool
}

// Profile names, as in the spec of an ApiKey.
const (
	ProfileRFC     = "RFC"
	ProfileOkta    = "Okta"
	ProfileEntraID = "EntraID"
)

// profiles is the table of deviations: the deviation, its source, and the profiles that need it.
// "EntraID flag" is Entra ID with the aadOptscim062020 flag, which is closer to the RFC. Each row
// has a test of its name in test/contract/scim/clients.
var profiles = []struct {
	quirk  string
	source string
	in     []string
	set    func(*Profile)
}{
	{"PATCH of a group answers 204", "Microsoft's tutorial on SCIM endpoints, \"update group\"; Okta takes 200 and 204",
		[]string{ProfileOkta, ProfileEntraID}, func(p *Profile) { p.SilentGroupPatch = true }},
	{"booleans in quotes", "Entra ID without the flag: active \"False\"; roles[primary eq \"True\"]",
		[]string{ProfileEntraID}, func(p *Profile) { p.Quirks.StringBooleans = true }},
	{"operations in capitals", "Entra ID without the flag: Add, Replace, Remove",
		[]string{ProfileEntraID}, func(p *Profile) { p.Quirks.CapitalOps = true }},
	{"Remove with the values to be removed", "Entra ID without the flag: group members",
		[]string{ProfileEntraID}, func(p *Profile) { p.Quirks.RemoveListed = true }},
	{"add or replace where the filter matches nothing", "Entra ID: emails[type eq \"work\"].value of a user without one",
		[]string{ProfileEntraID}, func(p *Profile) { p.Quirks.CreateUnmatched = true }},
	{"manager as a plain id", "Entra ID: the enterprise extension's manager",
		[]string{ProfileEntraID}, func(p *Profile) { p.Quirks.BareValues = true }},
	{"dotted and URN-qualified keys in a value", "Entra ID flag: {\"name.givenName\": …}",
		[]string{ProfileEntraID}, func(p *Profile) { p.Quirks.QualifiedKeys = true }},
	{"unknown schemas", "Entra ID: http://schemas.microsoft.com/2006/11/ResourceManagement/ADSCIM/2.0/Group",
		[]string{ProfileEntraID}, func(p *Profile) { p.Quirks.ForeignSchemas = true }},
	{"unknown members of the envelope", "Entra ID: name in an operation, id beside Operations, displayName in a member",
		[]string{ProfileEntraID}, func(p *Profile) { p.Quirks.ForeignMembers, p.Quirks.ForeignSubAttributes = true, true }},
	{"text without quotes in a filter", "Microsoft's tutorial on SCIM endpoints and its Postman collection: externalId eq jyoung",
		[]string{ProfileEntraID}, func(p *Profile) { p.Quirks.Filters.Unquoted = true }},
	{"\"\" removes a value", "Entra ID gallery test SCIM_Null_Update; Okta sends \"\" for empty profile attributes",
		[]string{ProfileOkta, ProfileEntraID}, func(p *Profile) { p.Quirks.EmptyUnassigns = true }},
}

// profileOf returns the profile of a name; an unknown name has no deviations.
func profileOf(name string) *Profile {
	p := &Profile{Name: name}
	for _, row := range profiles {
		for _, in := range row.in {
			if in == name {
				row.set(p)
			}
		}
	}
	return p
}

var (
	profileRFC     = profileOf(ProfileRFC)
	profileOkta    = profileOf(ProfileOkta)
	profileEntraID = profileOf(ProfileEntraID)
)

// entraSchemas is the prefix of schema URNs that only Entra ID sends.
const entraSchemas = "http://schemas.microsoft.com/"

// chooseProfile returns the profile configured for the credential. Without one it detects the
// client: Okta by its User-Agent; Entra ID by the query parameter of its flag, by its schemas and
// by capitalized operations, which no other client sends. All others have the RFC profile.
func chooseProfile(configured string, r *http.Request, body map[string]any) *Profile {
	switch configured {
	case ProfileRFC:
		return profileRFC
	case ProfileOkta:
		return profileOkta
	case ProfileEntraID:
		return profileEntraID
	}
	switch {
	case strings.Contains(strings.ToLower(r.UserAgent()), "okta"):
		return profileOkta
	case r.URL.Query().Has("aadOptscim062020"), isFromEntra(body):
		return profileEntraID
	}
	return profileRFC
}

func isFromEntra(body map[string]any) bool {
	urns, _ := body["schemas"].([]any)
	for _, item := range urns {
		if urn, _ := item.(string); strings.HasPrefix(urn, entraSchemas) {
			return true
		}
	}
	operations, _ := body["Operations"].([]any)
	for _, item := range operations {
		operation, _ := item.(map[string]any)
		switch operation["op"] {
		case "Add", "Replace", "Remove":
			return true
		}
	}
	return false
}

// returnsPatched reports whether the response to a PATCH contains the resource. A large group is
// returned only if the request selects attributes (hasProjection): the cost of changing one member
// must not depend on the size of the group.
func (p *Profile) returnsPatched(r *schema.Resource, hasProjection bool) bool {
	if hasProjection {
		return true
	}
	for _, value := range r.Document {
		if set, ok := value.(schema.Set); ok {
			return !p.SilentGroupPatch && set.Len() <= maxReturnedMembers
		}
	}
	return !p.SilentGroupPatch || r.Type.Name != schema.Group.Name
}

// maxReturnedMembers is the number of members up to which the response to a PATCH contains the group.
const maxReturnedMembers = 1000
