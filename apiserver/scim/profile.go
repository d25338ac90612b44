package scim

import (
	"net/http"
	"strings"

	"github.com/quoin-dev/quoin/apiserver/scim/patch"
	"github.com/quoin-dev/quoin/apiserver/scim/schema"
)

// Profile is what a provisioning client does besides what the RFCs say, and how it wants to be
// answered. The table in profiles has one row for each difference.
type Profile struct {
	// Name is RFC, Okta or EntraID.
	Name string
	// Quirks are what is taken.
	Quirks patch.Quirks
	// SilentGroupPatch answers a PATCH of a group with 204: its members are not read back.
	SilentGroupPatch bool
}

// The names of the profiles, as ApiKeys have them.
const (
	ProfileRFC     = "RFC"
	ProfileOkta    = "Okta"
	ProfileEntraID = "EntraID"
)

// profiles is the table: what differs, whose need it is, and where that is known from. "EntraID
// flag" is Entra ID with the aadOptscim062020 flag, which comes nearer to the RFC. Each row has a
// test of its name in test/contract/scim.
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
	{"schemas that are not known", "Entra ID: http://schemas.microsoft.com/2006/11/ResourceManagement/ADSCIM/2.0/Group",
		[]string{ProfileEntraID}, func(p *Profile) { p.Quirks.ForeignSchemas = true }},
	{"\"\" takes a value away", "Entra ID gallery test SCIM_Null_Update; Okta sends \"\" for what is empty in its profile",
		[]string{ProfileOkta, ProfileEntraID}, func(p *Profile) { p.Quirks.EmptyUnassigns = true }},
}

// profileOf builds a profile from the table; an unknown name is RFC.
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

// entraSchemas begins the URNs that only Entra ID sends.
const entraSchemas = "http://schemas.microsoft.com/"

// chooseProfile takes the one that the credential is for, or tells the client by its own marks:
// Okta by its User-Agent; Entra ID by the query of its flag, by its schemas, and by operations in
// capitals, which no other client sends. Without a mark the RFCs count.
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
	case r.URL.Query().Has("aadOptscim062020"), hasEntraMarks(body):
		return profileEntraID
	}
	return profileRFC
}

func hasEntraMarks(body map[string]any) bool {
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

// answersPatch tells whether a PATCH of a resource answers with the resource. A group of many
// members is not shown to a client that has not asked for attributes: what it costs to write one
// member must not depend on how many there are.
func (p *Profile) answersPatch(r *schema.Resource, asked bool) bool {
	if asked {
		return true
	}
	for _, value := range r.Document {
		if set, ok := value.(schema.Set); ok {
			return !p.SilentGroupPatch && set.Len() <= largestShown
		}
	}
	return !p.SilentGroupPatch || r.Type.Name != schema.Group.Name
}

// largestShown is how many members a group may have for a PATCH to answer with it.
const largestShown = 1000
