package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// row is one field of a table.
type row struct {
	path     string
	kind     string
	meaning  string
	absent   string // the default
	bounds   []string
	required bool
}

// fieldTable returns the Markdown table of the fields of spec or status.
func fieldTable(root *apiextensionsv1.JSONSchemaProps, part string) (string, error) {
	schema, ok := root.Properties[part]
	if !ok {
		return "", fmt.Errorf("has no %s", part)
	}
	var rows []row
	collect(&rows, "", &schema)
	var b strings.Builder
	if part == "status" {
		b.WriteString("| Field | Type | Meaning |\n|---|---|---|\n")
		for _, r := range rows {
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", r.path, r.kind, cell(r.meaning))
		}
		return b.String(), nil
	}
	b.WriteString("| Field | Type | Meaning | Default | Allowed |\n|---|---|---|---|---|\n")
	for _, r := range rows {
		absent := r.absent
		if r.required {
			absent = "**required**"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", r.path, r.kind, cell(r.meaning), cell(absent), cell(strings.Join(r.bounds, "; ")))
	}
	for _, message := range append(rules(root, ""), rules(&schema, "")...) {
		fmt.Fprintf(&b, "\nValidation: %s.\n", message)
	}
	return b.String(), nil
}

// collect appends a row for every field of a schema, in alphabetical order.
func collect(rows *[]row, path string, s *apiextensionsv1.JSONSchemaProps) {
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		property := s.Properties[name]
		below := path + name
		meaning, absent := split(property.Description)
		*rows = append(*rows, row{
			path: below, kind: typeOf(&property), meaning: meaning, absent: absent,
			bounds:   append(bounds(&property), rules(s, "."+name)...),
			required: slices.Contains(s.Required, name),
		})
		if name == "conditions" {
			continue // metav1.Condition; the pages describe the types
		}
		collect(rows, below+".", &property)
		if property.Items != nil {
			collect(rows, below+"[].", property.Items.Schema)
		}
	}
}

// split separates the default from a description: for "size of it; Shared when absent." it returns
// "size of it." and "Shared".
func split(description string) (string, string) {
	description = strings.Join(strings.Fields(description), " ")
	before, after, found := strings.Cut(description, " when absent")
	start := max(strings.LastIndex(before, "; "), strings.LastIndex(before, ". "))
	if !found || strings.HasSuffix(before, ";") || start < 0 {
		return description, ""
	}
	// The rest of the sentence explains the default: "0 when absent: none".
	explained, rest := strings.TrimSuffix(after, "."), ""
	if end := strings.Index(after, ". "); end >= 0 {
		explained, rest = after[:end], after[end+1:]
	}
	return before[:start] + "." + rest, strings.TrimSuffix(before[start+len("; "):], ",") + explained
}

func typeOf(s *apiextensionsv1.JSONSchemaProps) string {
	switch {
	case s.XIntOrString:
		return "quantity"
	case s.Format == "date-time":
		return "time"
	case s.Type == "array":
		return "list of " + typeOf(s.Items.Schema) + "s"
	case s.AdditionalProperties != nil:
		return "map of " + typeOf(s.AdditionalProperties.Schema)
	case s.Type == "":
		return "any"
	}
	return s.Type
}

// bounds returns descriptions of the values that the schema allows.
func bounds(s *apiextensionsv1.JSONSchemaProps) []string {
	var words []string
	if len(s.Enum) > 0 {
		values := make([]string, 0, len(s.Enum))
		for _, v := range s.Enum {
			values = append(values, "`"+strings.Trim(string(v.Raw), `"`)+"`")
		}
		words = append(words, strings.Join(values, ", "))
	}
	words = appendRange(words, s.MinLength, s.MaxLength, " characters")
	words = appendRange(words, whole(s.Minimum), whole(s.Maximum), "")
	words = appendRange(words, s.MinItems, s.MaxItems, " items")
	words = appendRange(words, s.MinProperties, s.MaxProperties, " entries")
	if s.Pattern != "" {
		words = append(words, "`"+s.Pattern+"`")
	}
	if len(s.XListMapKeys) > 0 {
		words = append(words, fmt.Sprintf("each `%s` once", s.XListMapKeys[0]))
	}
	if s.XListType != nil && *s.XListType == "set" {
		words = append(words, "each once")
	}
	words = append(words, rules(s, "")...)
	if s.Items != nil {
		for _, of := range bounds(s.Items.Schema) {
			words = append(words, "each: "+of)
		}
	}
	return words
}

// rules returns the messages of the CEL rules of a schema with a field path; empty for rules that
// report the schema itself.
func rules(s *apiextensionsv1.JSONSchemaProps, fieldPath string) []string {
	var messages []string
	for _, v := range s.XValidations {
		if v.FieldPath == fieldPath {
			messages = append(messages, v.Message)
		}
	}
	return messages
}

func appendRange(words []string, least, most *int64, unit string) []string {
	switch {
	case least != nil && most != nil:
		return append(words, fmt.Sprintf("%d–%d%s", *least, *most, unit))
	case most != nil:
		return append(words, fmt.Sprintf("at most %d%s", *most, unit))
	case least != nil:
		return append(words, fmt.Sprintf("at least %d%s", *least, unit))
	}
	return words
}

func whole(f *float64) *int64 {
	if f == nil {
		return nil
	}
	i := int64(*f)
	return &i
}

// cell escapes a text for a cell of a table.
func cell(text string) string {
	inCode := false
	var b strings.Builder
	for _, c := range text {
		switch {
		case c == '`':
			inCode = !inCode
		case c == '|':
			b.WriteByte('\\')
		case c == '<' && !inCode:
			b.WriteString("&lt;")
			continue
		case c == '*' && !inCode && text != "**required**":
			b.WriteByte('\\')
		}
		b.WriteRune(c)
	}
	return b.String()
}
