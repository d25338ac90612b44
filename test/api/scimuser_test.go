package api_test

import (
	"slices"

	"github.com/quoin-dev/quoin/internal/displayname"
)

var _ = declare(table{
	kind:       "ScimUser",
	headings:   "Name User Active Ready Reason [Message] [External] Age",
	selectable: map[string]string{"spec.userName": "ada@example.com", "spec.externalId": "00u1"},
	whole: []string{
		`
userName: ada@example.com
externalId: 00u1
name:
  formatted: Ms. Ada King Lovelace I
  familyName: Lovelace
  givenName: Ada
  middleName: King
  honorificPrefix: Ms.
  honorificSuffix: I
displayName: Ada
nickName: Ada
profileUrl: https://example.com/ada
title: Countess
userType: Employee
preferredLanguage: en-GB
locale: en-GB
timezone: Europe/London
active: true
admin: true
accountRoles: [analyst]
settings:
  alternatingRowColors: true
  defaultDeploymentId: 1
  locale: en-GB
  sheets:
    autoRunQueryOnChange: true
    openExplorationFromSheet: true
    revealSheetOnOpen: true
    showAppliedFilters: true
    suppressDuplicateValues: true
  theme: dark
  timezone: Europe/London
deprovisionTime: "2026-01-02T03:04:05Z"
emails: &values
- value: ada@example.com
  display: Ada
  type: work
  primary: true
phoneNumbers: *values
ims: *values
photos: *values
addresses:
- formatted: 12 St James's Square, London
  streetAddress: 12 St James's Square
  locality: London
  region: London
  postalCode: SW1Y 4LB
  country: GB
  type: home
  primary: true
entitlements: *values
roles: *values
x509Certificates: *values
enterprise:
  employeeNumber: "1815"
  costCenter: "1843"
  organization: Engines
  division: Notes
  department: G
  manager:
    value: charles
    displayName: Charles
attributes:
- {name: region, string: EU}
- {name: quota, number: "-2.5"}
- {name: internal, boolean: false}
- {name: stores, stringArray: [a, b]}
- {name: levels, numberArray: ["1", "2.5"]}
extensions:
- schema: urn:example:extension:User
  attributes:
    badge: 7
`,
	},
	spec: `{userName: ada@example.com}`,
	cases: append([]validationCase{
		{name: "a userName is enough"},
		{name: "a whole user", with: `
externalId: 00u1
name: {givenName: Ada, familyName: Lovelace, formatted: Ada Lovelace}
displayName: Ada
active: true
emails: [{value: ada@example.com, type: work, primary: true}, {value: ada@home.example, type: home, primary: false}, {value: a@example.com}]
phoneNumbers: [{value: "+1 555 0100", type: work}]
addresses: [{type: work, country: GB, primary: true}]
enterprise: {employeeNumber: "701984", department: Engines, manager: {value: grace}}
extensions:
- schema: urn:ietf:params:scim:schemas:extension:acme:2.0:User
  attributes: {badge: 7, tags: [a, b], nested: {deep: true}}
`},
		{name: "no userName", with: `{userName: null}`, field: "spec.userName", message: "Required value"},
		{name: "userName: may change", then: `{userName: ada.lovelace@example.com}`},
		{name: "active: text", with: `{active: "True"}`, field: "spec.active", message: `must be of type boolean: "string"`},
		{name: "deprovisionTime: text", with: `{deprovisionTime: yesterday}`, field: "spec.deprovisionTime", message: "must be of type date-time"},
		{name: "accountRoles: built-in ones and objects", with: `{accountRoles: [Viewer, Explorer, Developer, sales.eu-1]}`},
		{name: "accountRoles: Admin", with: `{accountRoles: [Admin]}`, field: "spec.accountRoles[0]", message: "Admin is not assigned as a role"},
		{name: "accountRoles: the same twice", with: `{accountRoles: [a, a]}`, field: "spec.accountRoles[1]", message: "Duplicate value"},
		{name: "attributes: empty lists", with: `{attributes: [{name: a, stringArray: []}, {name: b, numberArray: []}]}`},
		{name: "attributes: two fields", with: `{attributes: [{name: a, string: x, number: "1"}]}`, field: "spec.attributes[0]", message: "exactly one of string, number"},
		{name: "attributes: no value", with: `{attributes: [{name: a}]}`, field: "spec.attributes[0]", message: "exactly one of string, number"},
		{name: "attributes: a number as number", with: `{attributes: [{name: a, number: 5}]}`, field: "spec.attributes[0].number", message: "must be of type string"},
		{name: "attributes: a number that is none", with: `{attributes: [{name: a, number: "5e3"}]}`, field: "spec.attributes[0].number", message: "should match"},
		{name: "attributes: a hyphen in the name", with: `{attributes: [{name: a-b, string: x}]}`, field: "spec.attributes[0].name", message: "should match"},
		{name: "attributes: the same twice", with: `{attributes: [{name: a, string: b}, {name: a, string: c}]}`, field: "spec.attributes[1]", message: "Duplicate value"},
		{name: "emails: right-to-left override", with: `{emails: [{value: ada@example.com}, {value: "ada\u202E@example.com"}]}`, field: "spec.emails", message: displayname.Rule},
		{name: "extensions: not a URN", with: `{extensions: [{schema: "acme:User", attributes: {}}]}`, field: "spec.extensions[0].schema", message: "should match '^[uU][rR][nN]:"},
		{name: "extensions: the same twice", with: `{extensions: [{schema: "urn:a:b", attributes: {}}, {schema: "urn:a:b", attributes: {}}]}`,
			field: "spec.extensions[1]", message: "Duplicate value"},
		{name: "extensions: no attributes", with: `{extensions: [{schema: "urn:a:b"}]}`, field: "spec.extensions[0].attributes", message: "Required value"},
	}, slices.Concat(twoPrimaryCases(), displayNameCases("spec.displayName", "spec.nickName", "spec.title",
		"spec.name.formatted", "spec.name.familyName", "spec.name.givenName", "spec.name.middleName", "spec.enterprise.manager.displayName"))...),
})

// twoPrimaryCases: "The primary attribute value true MUST appear no more than once" (RFC 7643 section 2.4).
func twoPrimaryCases() []validationCase {
	var cases []validationCase
	for _, attribute := range []string{"emails", "phoneNumbers", "ims", "photos", "addresses", "entitlements", "roles", "x509Certificates"} {
		cases = append(cases, validationCase{name: attribute + ": two primary",
			with:  `{` + attribute + `: [{type: work, primary: true}, {type: home, primary: true}]}`,
			field: "spec." + attribute, message: "at most one of " + attribute + " can be primary"})
	}
	return cases
}
