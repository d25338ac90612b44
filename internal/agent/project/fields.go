package project

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/quoin-dev/quoin/internal/displayname"
)

// document is the text of a YAML document in a file.
type document struct {
	*parser
	path string
	// before is the number of lines of the file before the document.
	before int
}

// maxNesting is the maximum depth of a document.
const maxNesting = 10

// yamlLine finds the line in errors of the YAML library.
var yamlLine = regexp.MustCompile(`^line (\d+): `)

// read returns the mapping of a document; nil if it has none, which is reported unless it is empty.
func (d document) read(text []byte) *mapping {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var root yaml.Node
	if err := decoder.Decode(&root); err != nil {
		if !errors.Is(err, io.EOF) {
			d.invalid(err)
		}
		return nil
	}
	var second yaml.Node
	switch err := decoder.Decode(&second); {
	case err == nil:
		d.problem(d.path, d.before+second.Line, "", "there is a second YAML document; allowed: one")
		return nil
	case !errors.Is(err, io.EOF):
		d.invalid(err)
		return nil
	}
	if len(root.Content) != 1 || isNull(root.Content[0]) {
		return nil
	}
	if !d.isPlain(root.Content[0], 0) {
		return nil
	}
	return d.mapping("", root.Content[0])
}

// invalid reports text that is not YAML.
func (d document) invalid(err error) {
	message, line := strings.TrimPrefix(err.Error(), "yaml: "), 0
	if m := yamlLine.FindStringSubmatch(message); m != nil {
		line, _ = strconv.Atoi(m[1]) // digits
		message = message[len(m[0]):]
		line += d.before
	}
	d.problem(d.path, line, "", "it is not YAML: %s", clip(message))
}

// isPlain reports whether a node has no aliases and is not nested too deeply.
func (d document) isPlain(n *yaml.Node, depth int) bool {
	switch {
	case n.Kind == yaml.AliasNode || n.Anchor != "":
		d.problem(d.path, d.before+n.Line, "", "it has an anchor or alias; allowed: values without")
		return false
	case depth > maxNesting:
		d.problem(d.path, d.before+n.Line, "", "it is nested in more than %d levels; allowed: %d", maxNesting, maxNesting)
		return false
	}
	return !slices.ContainsFunc(n.Content, func(child *yaml.Node) bool { return !d.isPlain(child, depth+1) })
}

// mapping is a YAML mapping whose fields are read one after the other.
type mapping struct {
	document
	field  string
	line   int
	keys   []*yaml.Node
	values map[string]*yaml.Node
	// known are the keys that were asked for.
	known map[string]bool
}

// mapping returns a node as a mapping; nil if it is none, which is reported.
func (d document) mapping(field string, n *yaml.Node) *mapping {
	m := &mapping{document: d, field: field, line: d.before + n.Line, values: map[string]*yaml.Node{}, known: map[string]bool{}}
	if n.Kind != yaml.MappingNode {
		d.problem(d.path, m.line, field, "it is %s; allowed: a mapping", describe(n))
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if _, found := m.values[key.Value]; found || key.Kind != yaml.ScalarNode {
			d.problem(d.path, d.before+key.Line, m.name(clip(key.Value)), "the key is repeated or is not text; allowed: each key once")
			return nil
		}
		m.keys = append(m.keys, key)
		m.values[key.Value] = n.Content[i+1]
	}
	return m
}

// name returns the path of a field.
func (m *mapping) name(key string) string {
	switch {
	case m.field == "":
		return key
	case key == "":
		return m.field
	}
	return m.field + "." + key
}

// has reports whether a field has a value.
func (m *mapping) has(key string) bool {
	m.known[key] = true
	n := m.values[key]
	return n != nil && !isNull(n)
}

// get returns the value of a field; nil if it is absent.
func (m *mapping) get(key string) *yaml.Node {
	if !m.has(key) {
		return nil
	}
	return m.values[key]
}

// place returns where a field is, or where the mapping begins if it is absent.
func (m *mapping) place(key string) Place {
	if n := m.values[key]; n != nil {
		return Place{m.path, m.before + n.Line}
	}
	return Place{m.path, m.line}
}

// fail reports an error in a field.
func (m *mapping) fail(key, format string, args ...any) {
	at := m.place(key)
	m.problem(at.Path, at.Line, m.name(key), format, args...)
}

// text returns the text of a field with at most a number of characters; empty if it is absent.
func (m *mapping) text(key string, most int) string {
	n := m.get(key)
	if n == nil {
		return ""
	}
	text := n.Value
	switch count := utf8.RuneCountInString(text); {
	case n.Kind != yaml.ScalarNode || n.Tag == "!!binary":
		m.fail(key, "it is %s; allowed: text", describe(n))
	case count > most:
		m.fail(key, "it has %d characters; allowed: %d", count, most)
	case strings.ContainsRune(text, 0):
		m.fail(key, "it contains U+0000; allowed: text without")
	default:
		return strings.TrimSpace(text)
	}
	return ""
}

// required returns the text of a field that must not be empty.
func (m *mapping) required(key string, most int) string {
	before := m.errors
	text := m.text(key, most)
	if text == "" && m.errors == before {
		m.fail(key, "it is empty or absent; allowed: 1 to %d characters", most)
	}
	return text
}

// identifier returns the name, or another one if it is absent.
func (m *mapping) identifier(otherwise string) string {
	const key = "name"
	before := m.errors
	text := m.text(key, MaxName)
	if m.errors > before {
		return ""
	}
	if text == "" {
		text = otherwise
	}
	switch {
	case text == "":
		m.fail(key, "it is empty or absent; allowed: 1 to %d characters", MaxName)
	case utf8.RuneCountInString(text) > MaxName || displayname.Check(text) != nil:
		m.fail(key, "%q: it is too long, or it %s", clip(text), displayname.Rule)
	default:
		return text
	}
	return ""
}

// choice returns one of some values; the first if it is absent.
func (m *mapping) choice(key string, allowed ...string) string {
	before := m.errors
	text := m.text(key, MaxName)
	switch {
	case m.errors > before:
	case text == "":
		return allowed[0]
	case !slices.Contains(allowed, text):
		m.fail(key, "%q; allowed: %s", clip(text), strings.Join(allowed, ", "))
	}
	return text
}

// texts returns a list of texts.
func (m *mapping) texts(key string, most int) []string {
	var out []string
	for i, n := range m.list(key, most) {
		switch {
		case n.Kind != yaml.ScalarNode || isNull(n) || strings.TrimSpace(n.Value) == "":
			m.problem(m.path, m.before+n.Line, fmt.Sprintf("%s[%d]", m.name(key), i), "it is %s; allowed: text", describe(n))
		case utf8.RuneCountInString(n.Value) > MaxName:
			m.problem(m.path, m.before+n.Line, fmt.Sprintf("%s[%d]", m.name(key), i), "it has %d characters; allowed: %d", utf8.RuneCountInString(n.Value), MaxName)
		default:
			out = append(out, strings.TrimSpace(n.Value))
		}
	}
	return out
}

// list returns the items of a list; none if it is absent.
func (m *mapping) list(key string, most int) []*yaml.Node {
	n := m.get(key)
	switch {
	case n == nil:
		return nil
	case n.Kind != yaml.SequenceNode:
		m.fail(key, "it is %s; allowed: a list", describe(n))
		return nil
	case len(n.Content) > most:
		m.fail(key, "it has %d items; allowed: %d", len(n.Content), most)
		return nil
	}
	return n.Content
}

// mappings calls a function with each item of a list of mappings.
func (m *mapping) mappings(key string, most int, read func(item *mapping)) {
	for i, n := range m.list(key, most) {
		if item := m.mapping(fmt.Sprintf("%s[%d]", m.name(key), i), n); item != nil {
			read(item)
			item.warnUnknown()
		}
	}
}

// mapping returns a node in the document of m as a mapping.
func (m *mapping) mapping(field string, n *yaml.Node) *mapping { return m.document.mapping(field, n) }

// warnUnknown reports the keys that were not read.
func (m *mapping) warnUnknown() {
	known := make([]string, 0, len(m.known))
	for key := range m.known {
		known = append(known, key)
	}
	slices.Sort(known)
	for _, key := range m.keys {
		if !m.known[key.Value] {
			m.warn(m.path, m.before+key.Line, m.name(clip(key.Value)), "it is not known and ignored; known: %s", strings.Join(known, ", "))
		}
	}
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

// describe returns what a node is, for messages.
func describe(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case isNull(n):
		return "empty"
	}
	return fmt.Sprintf("%q", clip(n.Value))
}
