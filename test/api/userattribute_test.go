package api_test

const (
	nameOfAttribute    = "metadata.name must be spec.name in lower case, with - for _"
	typeOfDefault      = "defaultValue must have the field of the type"
	exactlyOneOfValues = "exactly one of string, number, boolean, stringArray and numberArray must be set"
)

var _ = declare(table{
	kind:       "UserAttribute",
	objectName: "region-code",
	headings:   "Name Attribute Type ID Ready Reason [Message] Age",
	selectable: map[string]string{"spec.name": "Region_Code"},
	whole: []string{
		`
name: Region_Code
type: string
displayName: Region
description: Where the user sells.
defaultValue: {string: EU}
`,
		`{name: Region_Code, type: number, defaultValue: {number: "-2.5"}}`,
		`{name: Region_Code, type: boolean, defaultValue: {boolean: false}}`,
		`{name: Region_Code, type: string_array, defaultValue: {stringArray: [EU, US]}}`,
		`{name: Region_Code, type: number_array, defaultValue: {numberArray: ["1", "2.5"]}}`,
	},
	spec: `{name: Region_Code, type: string}`,
	cases: append(displayNameCases("spec.displayName"), []validationCase{
		{name: "a name and a type"},
		{name: "name: another than that of the object", with: `{name: region}`, field: "<nil>", message: nameOfAttribute},
		{name: "name: of another object", metadataName: "region", field: "<nil>", message: nameOfAttribute},
		{name: "name: in another case", with: `{name: REGION_code}`},
		{name: "name: a digit first", metadataName: "1a", with: `{name: 1a}`, field: "spec.name", message: "should match"},
		{name: "name: is immutable", then: `{name: region_code}`, field: "spec.name", message: "name is immutable"},
		{name: "type: unknown", with: `{type: date}`, field: "spec.type", message: `supported values: "string", "number", "boolean", "string_array", "number_array"`},
		{name: "type: is immutable", then: `{type: number}`, field: "spec.type", message: "type is immutable"},
		{name: "defaultValue: may change", with: `{defaultValue: {string: EU}}`, then: `{defaultValue: {string: US}}`},
		{name: "defaultValue: may be removed", with: `{defaultValue: {string: EU}}`, then: `{defaultValue: null}`},
		{name: "defaultValue: empty text", with: `{defaultValue: {string: ""}}`},
		{name: "defaultValue: an empty list", with: `{type: string_array, defaultValue: {stringArray: []}}`},
		{name: "defaultValue: of another type", with: `{defaultValue: {number: "5"}}`, field: "spec.defaultValue", message: typeOfDefault},
		{name: "defaultValue: text for a number", with: `{type: number, defaultValue: {string: "5"}}`, field: "spec.defaultValue", message: typeOfDefault},
		{name: "defaultValue: text for a boolean", with: `{type: boolean, defaultValue: {string: "true"}}`, field: "spec.defaultValue", message: typeOfDefault},
		{name: "defaultValue: text for a list", with: `{type: string_array, defaultValue: {string: a}}`, field: "spec.defaultValue", message: typeOfDefault},
		{name: "defaultValue: texts for numbers", with: `{type: number_array, defaultValue: {stringArray: [a]}}`, field: "spec.defaultValue", message: typeOfDefault},
		{name: "defaultValue: two fields", with: `{defaultValue: {string: a, number: "5"}}`, field: "spec.defaultValue", message: exactlyOneOfValues},
		{name: "defaultValue: no field", with: `{defaultValue: {}}`, field: "spec.defaultValue", message: exactlyOneOfValues},
	}...),
})
