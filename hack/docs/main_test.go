package main

import (
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

func TestTablesAreCurrent(t *testing.T) {
	if err := run("../..", true); err != nil {
		t.Error(err)
	}
}

func TestSplit(t *testing.T) {
	for _, test := range []struct{ description, meaning, absent string }{
		{"size of it; 3 when absent.", "size of it.", "3"},
		{"size of\nit; 0 when absent: nothing is made. More.", "size of it. More.", "0: nothing is made"},
		{"size of it. Unlimited when absent.", "size of it.", "Unlimited"},
		{"size; the oldest go first. Unlimited when absent.", "size; the oldest go first.", "Unlimited"},
		{"url of it. It is known when absent: https://api.example.com/v1, or another. More.", "url of it. More.", "It is known: https://api.example.com/v1, or another"},
		{"size of it; 3 or less, as needed, when absent; 0 is none.", "size of it.", "3 or less, as needed; 0 is none"},
		{"size; its host is data.<host>; x.<host> when absent.", "size; its host is data.<host>.", "x.<host>"},
		{"size of it. When absent, it is guessed.", "size of it. When absent, it is guessed.", ""},
		{"size of it. It is kept; when absent, it is guessed.", "size of it. It is kept; when absent, it is guessed.", ""},
	} {
		if meaning, absent := split(test.description); meaning != test.meaning || absent != test.absent {
			t.Errorf("split(%q) is %q, %q, want %q, %q", test.description, meaning, absent, test.meaning, test.absent)
		}
	}
}

func TestWithTables(t *testing.T) {
	least, most := 1.0, 9.0
	length := int64(12)
	all := schemas{"Thing": {Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": {
		Required: []string{"name"},
		XValidations: apiextensionsv1.ValidationRules{
			{Message: "size needs a name", FieldPath: ".size"},
			{Message: "one of two is needed"},
		},
		Properties: map[string]apiextensionsv1.JSONSchemaProps{
			"name": {Type: "string", Description: "name of\nit.", MaxLength: &length, Pattern: "^a|b$"},
			"size": {Type: "integer", Description: "size of it; 3 when absent.", Minimum: &least, Maximum: &most},
		},
	}}}}
	page := "# Thing\n<!-- fields: Thing.spec -->\nold\n<!-- /fields -->\nend\n"
	want := "# Thing\n<!-- fields: Thing.spec -->\n" +
		"| Field | Type | Meaning | Default | Allowed |\n|---|---|---|---|---|\n" +
		"| `name` | string | name of it. | **required** | at most 12 characters; `^a\\|b$` |\n" +
		"| `size` | integer | size of it. | 3 | 1–9; size needs a name |\n" +
		"\nValidation: one of two is needed.\n" +
		"<!-- /fields -->\nend\n"
	got, err := withTables([]byte(page), all)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	again, err := withTables(got, all)
	if err != nil || string(again) != string(got) {
		t.Errorf("a second run changes the page: %v\n%s", err, again)
	}
	if _, err := withTables([]byte(strings.ReplaceAll(page, "Thing", "Other")), all); err == nil {
		t.Error("a kind that does not exist is not reported")
	}
}
