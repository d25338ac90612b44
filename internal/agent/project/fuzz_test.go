package project_test

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/quoin-dev/quoin/internal/agent/project"
)

// FuzzParse: any files give a project whose parts are complete, and problems with lines that exist.
func FuzzParse(f *testing.F) {
	f.Add("config.yml", multi, "rules/a.md", fiscalYear)
	f.Add("config.yml", "llm: {byom: {name: x}}", "skills/a.md", "---\ntitle: A\ndescription: B\n---\nC")
	f.Add("eval_questions/a.yml", "eval_questions:\n- {name: a, question: b, sql: c}", "queries/x.md", "---\nuser_request: a\n---\nSELECT <!-- 1")
	f.Add("config.yml", "a: &a [*a]", "config.yml", "- - - -")
	f.Add("config.yml", "? {a: b}\n: c\n<<: {}\n", "rules/a.md", "---\n---\n---")
	f.Fuzz(func(t *testing.T, first, firstText, second, secondText string) {
		files := []project.File{{Path: "agents/" + first, Text: []byte(firstText)}, {Path: "agents/" + second, Text: []byte(secondText)}}
		p := project.Parse("agents", files)
		if len(p.Problems) > project.MaxProblems {
			t.Errorf("%d problems", len(p.Problems))
		}
		for _, problem := range p.Problems {
			at := slices.IndexFunc(files, func(f project.File) bool { return f.Path == problem.Path })
			if problem.Message == "" || at < 0 || len(problem.String()) > 16<<10 {
				t.Errorf("%+v", problem)
			}
			lines := 0
			for _, f := range files {
				if f.Path == problem.Path {
					lines = max(lines, strings.Count(string(f.Text), "\n")+strings.Count(string(f.Text), "\r")+strings.Count(string(f.Text), "\u0085")+strings.Count(string(f.Text), "\u2028")+strings.Count(string(f.Text), "\u2029")+2)
				}
			}
			if problem.Line < 0 || problem.Line > lines {
				t.Errorf("%+v: the file has %d lines", problem, lines)
			}
		}
		for _, a := range p.Agents {
			c := p.For(a.Name)
			if a.Name == "" || !p.HasSpace(a.Space) || a.Runtime == "" || a.Memory == "" || c.Space != a.Space {
				t.Errorf("%+v", a)
			}
		}
		for _, r := range p.Rules {
			if r.Name == "" || r.Prompt == "" || !p.HasSpace(r.Space) || !r.Always && r.Description == "" || !utf8.ValidString(r.Name+r.Prompt) {
				t.Errorf("%+v", r)
			}
		}
		for _, s := range p.Skills {
			if s.Name == "" || strings.ContainsAny(s.Name, " \n/") || s.Title == "" || s.Description == "" || s.Instructions == "" || !p.HasSpace(s.Space) {
				t.Errorf("%+v", s)
			}
		}
		for _, q := range p.Queries {
			if q.Name == "" || q.UserRequest == "" || q.SQL() == "" || !p.HasSpace(q.Space) {
				t.Errorf("%+v", q)
			}
		}
		for _, q := range p.Questions {
			if q.Name == "" || q.Question == "" || (q.SQL == "") == (q.CertifiedQuery == "") || !p.HasSpace(q.Space) {
				t.Errorf("%+v", q)
			}
		}
	})
}
