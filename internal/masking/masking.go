// Package masking replaces secrets in JSON and in text: values whose name is that of a secret,
// environment variables, and credentials that are recognised by their form. The audit log and the
// REST API have the same rules.
package masking

import (
	"bytes"
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strings"

	"github.com/quoin-dev/quoin/internal/apikey"
	"github.com/quoin-dev/quoin/internal/fold"
)

// Hidden replaces a secret, as in the documented product.
const Hidden = "[HIDDEN]"

// secretWords mark the name of a secret: the four documented ones, and other common ones.
var secretWords = []string{"pass", "secret", "token", "key", "pwd", "credential", "authorization", "cookie"}

// variableNames are names of fields that hold environment variables.
var variableNames = []string{"env", "envs", "envvar", "envvars", "envvariable", "envvariables", "environmentvariable", "environmentvariables", "variables"}

// namesOfNames are fields with the name of a value that is in another field of the same object, as
// in {"name": "DB_PASS", "value": "…"}.
var namesOfNames = []string{"name", "field", "path", "header", "variable", "attribute"}

// namesOfValues are the fields with such values.
var namesOfValues = []string{"value", "values", "before", "after", "old", "new", "default", "data", "content"}

// MaxDepth is the depth up to which JSON is searched; deeper values are hidden.
const MaxDepth = 32

// IsSecret reports whether the value of a field with this name is a secret.
func IsSecret(name string) bool {
	name = fold.Case(name)
	return slices.ContainsFunc(secretWords, func(word string) bool { return strings.Contains(name, word) })
}

var withoutMarks = strings.NewReplacer("_", "", "-", "")

// holdsVariables reports whether the values of a field with this name, or dotted path, are
// environment variables.
func holdsVariables(name string) bool {
	name = withoutMarks.Replace(fold.Case(name))
	for part := range strings.SplitSeq(name, ".") {
		if slices.Contains(variableNames, part) {
			return true
		}
	}
	return false
}

// Value returns a copy of a JSON value without its secrets.
func Value(value any) any { return maskValue(value, 0) }

// maskValue returns a copy of a JSON value, at a depth, without its secrets.
func maskValue(value any, depth int) any {
	if depth > MaxDepth {
		return Hidden
	}
	switch v := value.(type) {
	case map[string]any:
		return maskObject(v, depth)
	case []any:
		masked := make([]any, len(v))
		for i := range v {
			masked[i] = maskValue(v[i], depth+1)
		}
		return masked
	case string:
		return maskString(v, depth)
	}
	return value
}

func maskObject(object map[string]any, depth int) map[string]any {
	namesSecret := slices.ContainsFunc(namesOfNames, func(field string) bool {
		name, ok := object[field].(string)
		return ok && IsSecret(name)
	})
	masked := make(map[string]any, len(object))
	for name, value := range object {
		switch {
		case IsSecret(name), namesSecret && slices.Contains(namesOfValues, fold.Case(name)):
			value = Hidden
		case holdsVariables(name):
			value = maskVariables(value, depth+1)
		default:
			value = maskValue(value, depth+1)
		}
		masked[Text(name)] = value
	}
	return masked
}

// maskVariables hides the values of environment variables and keeps their names, in both forms:
// {"NAME": "value"} and [{"name": "NAME", "value": "value"}].
func maskVariables(value any, depth int) any {
	if depth > MaxDepth {
		return Hidden
	}
	switch v := value.(type) {
	case nil:
		return nil
	case map[string]any:
		masked := make(map[string]any, len(v))
		for name, inner := range v {
			masked[Text(name)] = maskVariables(inner, depth+1)
		}
		return masked
	case []any:
		masked := make([]any, len(v))
		for i := range v {
			masked[i] = maskVariables(v[i], depth+1)
			if entry, ok := masked[i].(map[string]any); ok {
				original, _ := v[i].(map[string]any)
				if name, ok := original["name"].(string); ok {
					entry["name"] = Text(name)
				}
			}
		}
		return masked
	}
	return Hidden
}

// maskString masks a string as JSON if it is JSON, otherwise as text.
func maskString(text string, depth int) string {
	trimmed := strings.TrimSpace(text)
	if strings.HasPrefix(trimmed, "{") || strings.HasPrefix(trimmed, "[") {
		if value, err := DecodeJSON([]byte(text)); err == nil {
			if encoded, err := EncodeJSON(maskValue(value, depth+1)); err == nil {
				return string(encoded)
			}
		}
	}
	return Text(text)
}

// pattern is a form of credentials in text.
type pattern struct {
	// hint is contained in every text that can match, in lower case. It is much faster to find.
	hint        string
	expression  *regexp.Regexp
	replacement string
}

// credentials are recognised by their own form.
var credentials = []pattern{
	{"-----begin", regexp.MustCompile(`(?is)-----BEGIN [A-Z0-9 ]*PRIVATE KEY.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|$)`), Hidden},
	{"eyj", regexp.MustCompile(`eyJ[\w-]+\.[\w-]*\.?[\w-]*`), Hidden},
	{"bearer", regexp.MustCompile(`(?i)\b(bearer)\s+[^\s"',;]+`), "${1} " + Hidden},
	{"authorization", regexp.MustCompile(`(?i)(authorization["']?\s*[:=]\s*["']?)(?:[a-z]+ +)?[^\s"',;]+`), "${1}" + Hidden},
	{"sk-", regexp.MustCompile(apikey.Prefix + `[0-9A-Za-z]+|\bsk-[\w-]{16,}`), Hidden},
	{"://", regexp.MustCompile(`(?i)([a-z][a-z0-9+.-]*://)[^\s/?#"'<>]*:[^\s"'<>]*@`), "${1}" + Hidden + "@"},
	{"gh", regexp.MustCompile(`\bgh[pousr]_\w{20,}|\bgithub_pat_\w{20,}`), Hidden},
	{"glpat-", regexp.MustCompile(`\bglpat-[\w-]{16,}`), Hidden},
	{"qat_", regexp.MustCompile(`\bqat_[A-Z2-7]{16,}`), Hidden},
	{"qrt_", regexp.MustCompile(`\bqrt_[A-Z2-7]{16,}`), Hidden},
	{"qct_", regexp.MustCompile(`\bqct_\d+_[\w+/=]{16,}`), Hidden},
	{"xox", regexp.MustCompile(`\bxox[a-z]-[\w-]{10,}`), Hidden},
	{"akia", regexp.MustCompile(`\bAKIA[0-9A-Z]{16}\b`), Hidden},
	{"asia", regexp.MustCompile(`\bASIA[0-9A-Z]{16}\b`), Hidden},
	{"aiza", regexp.MustCompile(`\bAIza[\w-]{30,}`), Hidden},
}

// assignments are names of secrets followed by a value, as in DSNs, queries and YAML.
var assignments = func() []pattern {
	name := `(?i)([\w.-]*(?:` + strings.Join(secretWords, "|") + `)[\w.-]*`
	// In quotation marks, also escaped ones, the value extends to the one that ends it: within it they are escaped. Without one
	// that is not escaped, it extends to the next one.
	const value = `(?:\\"(?:[^"\\]|\\\\(?:\\.|[^\\]))*\\"|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|\\?"[^"]*"|'[^']*'|[^\s"'&;,]+)`
	return []pattern{
		{"=", regexp.MustCompile(name + `["']?\s*=\s*)` + value), "${1}" + Hidden},
		{":", regexp.MustCompile(name + `(?:\\?["']\s*:|:\s)\s*)` + value), "${1}" + Hidden},
	}
}()

// Credentials hides credentials in the name of a user or an object.
func Credentials(text string) string { return replaceAll(text, credentials) }

// Text hides credentials and assignments of secrets in a text.
func Text(text string) string {
	return replaceAll(replaceAll(text, credentials), assignments)
}

func replaceAll(text string, patterns []pattern) string {
	folded := fold.Case(text)
	for _, p := range patterns {
		if strings.Contains(folded, p.hint) {
			text = p.expression.ReplaceAllString(text, p.replacement)
		}
	}
	return text
}

// DecodeJSON decodes one JSON value, and keeps numbers as they are written.
func DecodeJSON(data []byte) (any, error) {
	var value any
	decoder := json.NewDecoder(strings.NewReader(string(data)))
	decoder.UseNumber()
	if err := decoder.Decode(&value); err != nil {
		return nil, err
	}
	if decoder.More() {
		return nil, errTrailingJSON
	}
	return value, nil
}

// EncodeJSON returns JSON with no escapes except those that JSON requires.
func EncodeJSON(value any) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), nil
}

var errTrailingJSON = errors.New("data after the JSON value")
