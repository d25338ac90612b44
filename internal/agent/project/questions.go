package project

// questions reads a file with questions for evaluations.
func (p *parser) questions(f File) {
	m := document{parser: p, path: f.Path}.read(f.Text)
	if m == nil {
		return
	}
	space := Auto
	if text := m.text("space", MaxName); text != "" {
		p.checkSpace(m, text)
		if !p.spaces[text] {
			return
		}
		space = text
	}
	m.mappings("eval_questions", MaxItems, func(item *mapping) {
		before := p.errors
		q := Question{
			Name: item.identifier(""), Space: space, Question: item.required("question", MaxDescription),
			CertifiedQuery: item.text("certifiedQuery", MaxName), SQL: item.text("sql", MaxFileBytes), Place: item.place(""),
		}
		if p.errors == before && (q.CertifiedQuery == "") == (q.SQL == "") {
			item.fail("", "it has both certifiedQuery and sql, or none; allowed: one of both")
		}
		if p.errors == before {
			p.project.Questions = append(p.project.Questions, q)
		}
	})
	m.warnUnknown()
}

// checkGroundTruth reports questions whose certified query does not exist. They remain: their evaluation is an error.
func (p *parser) checkGroundTruth() {
	for _, q := range p.project.Questions {
		if q.CertifiedQuery == "" {
			continue
		}
		if _, found := p.project.Query(q.Space, q.CertifiedQuery); !found {
			p.problem(q.Place.Path, q.Place.Line, "certifiedQuery", "the space %q has no certified query %q", clip(q.Space), clip(q.CertifiedQuery))
		}
	}
}
