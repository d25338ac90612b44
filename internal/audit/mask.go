package audit

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/quoin-dev/quoin/internal/apikey"
	"github.com/quoin-dev/quoin/internal/fold"
)

// hidden replaces a secret, as in the documented product.
const hidden = "[HIDDEN]"

// secretWords mark the name of a secret: the four documented ones, and other common ones.
var secretWords = []string{"pass", "secret", "token", "key", "pwd", "authorization", "cookie"}

// variableNames are names of fields that hold environment variables.
var variableNames = []string{"env", "envs", "envvar", "envvars", "envvariable", "envvariables", "environmentvariable", "environmentvariables", "variables"}

// namesOfNames are fields with the name of a value that is in another field of the same object, as
// in {"name": "DB_PASS", "value": "…"}.
var namesOfNames = []string{"name", "field", "path", "header", "variable", "attribute"}

// namesOfValues are the fields with such values.
var namesOfValues = []string{"value", "values", "before", "after", "old", "new", "default", "data", "content"}

// maxMaskDepth is the depth up to which JSON is searched; deeper values are hidden.
const maxMaskDepth = 32

// isSecret reports whether the value of a field with this name is a secret.
func isSecret(name string) bool {
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

// maskValue returns a copy of a JSON value without its secrets.
func maskValue(value any, depth int) any {
	if depth > maxMaskDepth {
		return hidden
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
		return ok && isSecret(name)
	})
	masked := make(map[string]any, len(object))
	for name, value := range object {
		switch {
		case isSecret(name), namesSecret && slices.Contains(namesOfValues, fold.Case(name)):
			value = hidden
		case holdsVariables(name):
			value = maskVariables(value, depth+1)
		default:
			value = maskValue(value, depth+1)
		}
		masked[maskText(name)] = value
	}
	return masked
}

// maskVariables hides the values of environment variables and keeps their names, in both forms:
// {"NAME": "value"} and [{"name": "NAME", "value": "value"}].
func maskVariables(value any, depth int) any {
	if depth > maxMaskDepth {
		return hidden
	}
	switch v := value.(type) {
	case nil:
		return nil
	case map[string]any:
		masked := make(map[string]any, len(v))
		for name, inner := range v {
			masked[maskText(name)] = maskVariables(inner, depth+1)
		}
		return masked
	case []any:
		masked := make([]any, len(v))
		for i := range v {
			masked[i] = maskVariables(v[i], depth+1)
			if entry, ok := masked[i].(map[string]any); ok {
				original, _ := v[i].(map[string]any)
				if name, ok := original["name"].(string); ok {
					entry["name"] = maskText(name)
				}
			}
		}
		return masked
	}
	return hidden
}

// maskString masks a string as JSON if it is JSON, otherwise as text.
func maskString(text string, depth int) string {
	trimmed := strings.TrimSpace(text)
	if strings.HasPrefix(trimmed, "{") || strings.HasPrefix(trimmed, "[") {
		if value, err := decode([]byte(text)); err == nil {
			if encoded, err := encode(maskValue(value, depth+1)); err == nil {
				return string(encoded)
			}
		}
	}
	return maskText(text)
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
	{"-----begin", regexp.MustCompile(`(?is)-----BEGIN [A-Z0-9 ]*PRIVATE KEY.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|$)`), hidden},
	{"eyj", regexp.MustCompile(`eyJ[\w-]+\.[\w-]*\.?[\w-]*`), hidden},
	{"bearer", regexp.MustCompile(`(?i)\b(bearer)\s+[^\s"',;]+`), "${1} " + hidden},
	{"authorization", regexp.MustCompile(`(?i)(authorization["']?\s*[:=]\s*["']?)(?:[a-z]+ +)?[^\s"',;]+`), "${1}" + hidden},
	{"sk-", regexp.MustCompile(apikey.Prefix + `[0-9A-Za-z]+|\bsk-[\w-]{16,}`), hidden},
	{"://", regexp.MustCompile(`(?i)([a-z][a-z0-9+.-]*://)[^\s/?#"'<>]*:[^\s"'<>]*@`), "${1}" + hidden + "@"},
	{"gh", regexp.MustCompile(`\bgh[pousr]_\w{20,}|\bgithub_pat_\w{20,}`), hidden},
	{"glpat-", regexp.MustCompile(`\bglpat-[\w-]{16,}`), hidden},
	{"xox", regexp.MustCompile(`\bxox[a-z]-[\w-]{10,}`), hidden},
	{"akia", regexp.MustCompile(`\bAKIA[0-9A-Z]{16}\b`), hidden},
	{"asia", regexp.MustCompile(`\bASIA[0-9A-Z]{16}\b`), hidden},
	{"aiza", regexp.MustCompile(`\bAIza[\w-]{30,}`), hidden},
}

// assignments are names of secrets followed by a value, as in DSNs, queries and YAML.
var assignments = func() []pattern {
	name := `(?i)([\w.-]*(?:` + strings.Join(secretWords, "|") + `)[\w.-]*`
	const value = `(?:\\?"[^"]*"|'[^']*'|[^\s"'&;,]+)`
	return []pattern{
		{"=", regexp.MustCompile(name + `["']?\s*=\s*)` + value), "${1}" + hidden},
		{":", regexp.MustCompile(name + `(?:\\?["']\s*:|:\s)\s*)` + value), "${1}" + hidden},
	}
}()

// maskCredentials hides credentials in the name of a user or an object.
func maskCredentials(text string) string { return replaceAll(text, credentials) }

// maskText hides credentials and assignments of secrets in a text.
func maskText(text string) string {
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

// decode decodes one JSON value, and keeps numbers as they are written.
func decode(data []byte) (any, error) {
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
