package project

import (
	"strings"
	"unicode"
)

// markdown reads a rule, a skill or a certified query from its file.
func (p *parser) markdown(f File) {
	front, before, body, ok := frontMatter(f.Text)
	if !ok {
		p.problem(f.Path, 1, "", `it does not begin with YAML between two lines "---"; allowed: YAML, then Markdown`)
		return
	}
	m := document{parser: p, path: f.Path, before: before}.read(front)
	if m == nil {
		m = document{parser: p, path: f.Path, before: before}.empty()
	}
	m.get("kind") // files have it in older examples
	space := p.spaceOf(m, f.Path)
	text := strings.TrimSpace(string(body))
	switch kindOf(p.relative(f.Path)) {
	case ruleFile:
		p.rule(m, space, nameOf(f.Path), text)
	case skillFile:
		p.skill(m, space, nameOf(f.Path), text)
	case queryFile:
		p.query(m, space, nameOf(f.Path), text)
	}
	m.warnUnknown()
}

// empty returns a mapping without fields.
func (d document) empty() *mapping {
	return &mapping{document: d, line: d.before, known: map[string]bool{}}
}

// spaceOf returns the space that a file names, or that of a folder with its name, or Auto.
func (p *parser) spaceOf(m *mapping, file string) string {
	if space := m.text("space", MaxName); space != "" {
		p.checkSpace(m, space)
		return space
	}
	names := strings.Split(p.relative(file), "/")
	if len(names) > 2 && p.spaces[names[1]] {
		return names[1]
	}
	return Auto
}

// inline reads rules, skills and certified queries in config.yml.
func (p *parser) inline(m *mapping, space string) {
	of := func(item *mapping) string {
		if own := item.text("space", MaxName); own != "" {
			p.checkSpace(item, own)
			return own
		}
		return space
	}
	m.mappings("rules", MaxItems, func(item *mapping) { p.rule(item, of(item), "", "") })
	m.mappings("skills", MaxItems, func(item *mapping) { p.skill(item, of(item), "", "") })
	m.mappings("certified_queries", MaxItems, func(item *mapping) { p.query(item, of(item), "", "") })
}

// rule reads a rule. name and body are those of its file.
func (p *parser) rule(m *mapping, space, name, body string) {
	before := m.failedBefore()
	kind := m.required("type", MaxName)
	if kind != "" && kind != "always" && kind != "agent_requested" {
		m.fail("type", "%q; allowed: always, agent_requested", clip(kind))
	}
	r := Rule{
		Name: m.identifier(name), Space: space, Always: kind == "always", Prompt: m.long("prompt", body), Place: m.place(""),
	}
	if kind == "agent_requested" {
		r.Description = m.required("description", MaxDescription)
	} else {
		r.Description = m.text("description", MaxDescription)
	}
	if p.errors == before {
		p.project.Rules = append(p.project.Rules, r)
	}
}

// skill reads a skill.
func (p *parser) skill(m *mapping, space, name, body string) {
	before := m.failedBefore()
	s := Skill{
		Name: m.identifier(name), Space: space, Title: m.required("title", MaxName),
		Description: m.required("description", MaxDescription), Instructions: m.long("instructions", body), Place: m.place(""),
	}
	if strings.ContainsFunc(s.Name, unicode.IsSpace) || strings.Contains(s.Name, "/") {
		m.fail("name", "%q contains white space or a slash; allowed: names without, because users write /name", clip(s.Name))
	}
	if p.errors == before {
		p.project.Skills = append(p.project.Skills, s)
	}
}

// query reads a certified query.
func (p *parser) query(m *mapping, space, name, body string) {
	before := m.failedBefore()
	q := Query{
		Name: m.identifier(name), Space: space, UserRequest: m.required("user_request", MaxDescription),
		Description: m.text("description", MaxDescription), Text: m.long("sql_query", body), Place: m.place(""),
	}
	if q.Text != "" && q.SQL() == "" {
		m.fail("sql_query", "it has only comments; allowed: SQL")
	}
	if p.errors == before {
		p.project.Queries = append(p.project.Queries, q)
	}
}

// failedBefore returns the number of errors before an item is read; it counts a space that does not exist as an error of the item.
func (m *mapping) failedBefore() int {
	if n := m.get("space"); n != nil && !m.spaces[strings.TrimSpace(n.Value)] {
		return -1
	}
	return m.errors
}

// long returns a text that has no limit but that of its file: a field, or the body of the file.
func (m *mapping) long(key, body string) string {
	before := m.errors
	text := m.text(key, MaxFileBytes)
	if text == "" && m.errors == before {
		text = body
	}
	if text == "" && m.errors == before {
		m.fail(key, "it is empty or absent; allowed: text here, or after the YAML of a Markdown file")
	}
	return text
}
