package project_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-dev/quoin/internal/agent/project"
)

// parse parses files of the folder agents.
func parse(files map[string]string) *project.Project {
	var all []project.File
	for name, text := range files {
		all = append(all, project.File{Path: "agents/" + name, Size: int64(len(text)), Text: []byte(text)})
	}
	return project.Parse("agents", all)
}

func problems(p *project.Project) (out []string) {
	for _, problem := range p.Problems {
		text := problem.String()
		if problem.Warning {
			text = "warning: " + text
		}
		out = append(out, text)
	}
	return out
}

const (
	multi = `spaces:
  - name: sales
    description: The sales team
    skills:
      - name: forecast
        title: Forecast
        description: Use when the user asks for a forecast
        instructions: Forecast it.
  - name: marketing
agents:
  - name: seller
    description: Answers questions about sales
    space: sales
    llm: {byom: {name: ours}}
    embedding_llm: text-embedding-3-small
    runtime: reasoning
    accessible_views:
      - orders_view
      - customers_view
    memory_mode: user
  - name: marketer
    space: marketing
    llm: gpt_5
rules:
  - name: general
    type: always
    prompt: Be brief.
`
	fiscalYear = `---
# a note for developers
space: sales
type: always
---
The fiscal year starts in April.
`
)

// severalAgents are files of two agents and their spaces.
var severalAgents = map[string]string{
	"config.yml":                        multi,
	"rules/fiscal-year.md":              fiscalYear,
	"rules/sales/pipeline.md":           "---\ntype: agent_requested\ndescription: When asked about the pipeline\n---\nCount open deals.\n",
	"skills/marketing/deep/campaign.md": "<!-- reviewed -->\n---\ntitle: Campaigns\ndescription: Use for campaigns\n---\nList campaigns.\n",
	"queries/revenue.md":                "---\r\nspace: sales\r\nuser_request: What is the revenue?\r\n---\r\n<!-- without refunds -->\r\nSELECT MEASURE(revenue) FROM orders\r\n",
	"certified-queries/sales/deals.md":  "---\nuser_request: How many deals?\nsql_query: SELECT 1\n---\nignored\n",
	"eval_questions.yml":                "eval_questions:\n  - name: a\n    question: One?\n    sql: SELECT 1\n",
	"eval_questions/sales/more.yaml":    "space: sales\neval_questions:\n  - name: a\n    question: Revenue?\n    certifiedQuery: revenue\n",
	"readme.md":                         "not read",
	"rules/notes.txt":                   "not read",
}

// TestSeveralAgents: each agent has what its space has, wherever it is declared.
func TestSeveralAgents(t *testing.T) {
	p := parse(severalAgents)
	if p.Problems != nil {
		t.Fatal(problems(p))
	}
	if !p.IsMulti || len(p.Agents) != 2 || len(p.Spaces) != 2 {
		t.Errorf("%v agents, %v spaces", p.Agents, p.Spaces)
	}
	seller := p.For("seller")
	want := project.Configured{
		Agent: project.Agent{
			Name: "seller", Description: "Answers questions about sales", Space: "sales", Model: project.Model{Name: "ours", IsOwn: true},
			Embedding: project.Model{Name: "text-embedding-3-small"}, Runtime: project.RuntimeReasoning, Memory: project.MemoryUser,
			Views: []string{"orders_view", "customers_view"}, Place: project.Place{Path: "agents/config.yml", Line: 11},
		},
		IsDeclared: true,
		Rules: []project.Rule{
			{Name: "fiscal-year", Space: "sales", Always: true, Prompt: "The fiscal year starts in April.", Place: project.Place{Path: "agents/rules/fiscal-year.md", Line: 3}},
			{Name: "pipeline", Space: "sales", Description: "When asked about the pipeline", Prompt: "Count open deals.", Place: project.Place{Path: "agents/rules/sales/pipeline.md", Line: 2}},
		},
		Skills: []project.Skill{{
			Name: "forecast", Space: "sales", Title: "Forecast", Description: "Use when the user asks for a forecast", Instructions: "Forecast it.",
			Place: project.Place{Path: "agents/config.yml", Line: 5},
		}},
		Queries: []project.Query{
			{Name: "deals", Space: "sales", UserRequest: "How many deals?", Text: "SELECT 1", Place: project.Place{Path: "agents/certified-queries/sales/deals.md", Line: 2}},
			{
				Name: "revenue", Space: "sales", UserRequest: "What is the revenue?", Text: "<!-- without refunds -->\r\nSELECT MEASURE(revenue) FROM orders",
				Place: project.Place{Path: "agents/queries/revenue.md", Line: 2},
			},
		},
		Questions: []project.Question{{Name: "a", Space: "sales", Question: "Revenue?", CertifiedQuery: "revenue", Place: project.Place{Path: "agents/eval_questions/sales/more.yaml", Line: 3}}},
	}
	if diff := cmp.Diff(want, seller); diff != "" {
		t.Error(diff)
	}
	if got := seller.Queries[1].SQL(); got != "SELECT MEASURE(revenue) FROM orders" {
		t.Errorf("%q", got)
	}
	marketer := p.For("marketer")
	if len(marketer.Rules) != 0 || len(marketer.Skills) != 1 || marketer.Skills[0].Name != "campaign" || marketer.Model.Name != "gpt_5" {
		t.Errorf("%+v", marketer)
	}
	if auto := p.For(project.Auto); auto.IsDeclared || len(auto.Rules) != 1 || auto.Rules[0].Name != "general" {
		t.Errorf("%+v", auto)
	}
	if other := p.For("other"); other.IsDeclared || other.Space != project.Auto || other.Memory != project.MemorySpace {
		t.Errorf("%+v", other)
	}
	if len(p.Questions) != 2 || p.Questions[0].Space != project.Auto || p.Questions[1].CertifiedQuery != "revenue" {
		t.Errorf("%+v", p.Questions)
	}
}

// TestOneAgent: properties at the root configure all agents of the deployment.
func TestOneAgent(t *testing.T) {
	p := parse(map[string]string{
		"config.yaml":    "llm: claude_4_6_sonnet\naccessible_views: [orders_view]\nmemory_mode: disabled\n",
		"rules/brief.md": "---\ntype: always\nprompt: Be brief.\n---\n",
	})
	if p.Problems != nil {
		t.Fatal(problems(p))
	}
	for _, name := range []string{project.Auto, "any"} {
		got := p.For(name)
		if got.Name != name || !got.IsDeclared || got.Model.Name != "claude_4_6_sonnet" || got.Memory != project.MemoryDisabled || len(got.Views) != 1 || len(got.Rules) != 1 {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestNoFiles: a repository without files has an agent with defaults.
func TestNoFiles(t *testing.T) {
	for name, p := range map[string]*project.Project{
		"none": parse(nil), "empty": parse(map[string]string{"config.yml": "# nothing\n"}),
	} {
		got := p.For("any")
		if p.Problems != nil || got.Space != project.Auto || got.Memory != project.MemorySpace || got.Runtime != project.RuntimePlain || got.IsDeclared != p.HasFiles {
			t.Errorf("%s: %+v, %v", name, got, problems(p))
		}
	}
}

// TestProblems: each says the file, the line, the field, what is given and what is allowed.
func TestProblems(t *testing.T) {
	for name, tc := range map[string]struct {
		files map[string]string
		want  []string
	}{
		"not YAML":        {map[string]string{"config.yml": "llm: a\n  b: c\n"}, []string{"agents/config.yml:2: it is not YAML: mapping values are not allowed in this context"}},
		"a list":          {map[string]string{"config.yml": "- a\n"}, []string{"agents/config.yml:1: it is a list; allowed: a mapping"}},
		"two documents":   {map[string]string{"config.yml": "llm: a\n---\nllm: b\n"}, []string{"agents/config.yml:2: there is a second YAML document; allowed: one"}},
		"two files":       {map[string]string{"config.yml": "", "config.yaml": ""}, []string{"agents/config.yml: agents/config.yaml exists too; allowed: one of both"}},
		"alias":           {map[string]string{"config.yml": "llm: &a x\nembedding_llm: *a\n"}, []string{"agents/config.yml:1: it has an anchor or alias; allowed: values without"}},
		"repeated key":    {map[string]string{"config.yml": "llm: a\nllm: b\n"}, []string{"agents/config.yml:2: llm: the key is repeated or is not text; allowed: each key once"}},
		"memory":          {map[string]string{"config.yml": "\nmemory_mode: forever\n"}, []string{`agents/config.yml:2: memory_mode: "forever"; allowed: space, user, disabled`}},
		"runtime":         {map[string]string{"config.yml": "runtime: {}\n"}, []string{"agents/config.yml:1: runtime: it is a mapping; allowed: text"}},
		"views":           {map[string]string{"config.yml": "accessible_views:\n  - a\n  - [b]\n"}, []string{"agents/config.yml:3: accessible_views[1]: it is a list; allowed: text"}},
		"views not list":  {map[string]string{"config.yml": "accessible_views: a\n"}, []string{`agents/config.yml:1: accessible_views: it is "a"; allowed: a list`}},
		"own model":       {map[string]string{"config.yml": "llm:\n  byom: {}\n"}, []string{"agents/config.yml:2: llm.byom.name: it is empty or absent; allowed: 1 to 255 characters"}},
		"no own model":    {map[string]string{"config.yml": "llm:\n  own: x\n"}, []string{"agents/config.yml:2: llm.byom: it is absent; allowed: a name, or byom with a name", "warning: agents/config.yml:2: llm.own: it is not known and ignored; known: byom"}},
		"mixed":           {map[string]string{"config.yml": "llm: a\nagents:\n  - name: x\n    space: auto\n"}, []string{"agents/config.yml:1: llm: the file has agents or spaces too; allowed: properties of one agent at the root, or agents and spaces"}},
		"no space":        {map[string]string{"config.yml": "agents:\n  - name: x\n"}, []string{"agents/config.yml:2: agents[0].space: it is empty or absent; allowed: 1 to 255 characters"}},
		"unknown space":   {map[string]string{"config.yml": "spaces: [{name: a}]\nagents:\n  - name: x\n    space: b\n"}, []string{`agents/config.yml:4: agents[0].space: "b" does not exist; allowed: auto, a`}},
		"same agent":      {map[string]string{"config.yml": "agents:\n  - {name: x, space: auto}\n  - {name: x, space: auto}\n"}, []string{`agents/config.yml:3: agents[1].name: "x" is the name of another agent; allowed: names that no other agent has`}},
		"same space":      {map[string]string{"config.yml": "spaces:\n  - name: auto\n"}, []string{`agents/config.yml:2: spaces[0].name: "auto" is the name of another space; allowed: names that no other space has`}},
		"unknown key":     {map[string]string{"config.yml": "accessible_view: [a]\n"}, []string{"warning: agents/config.yml:1: accessible_view: it is not known and ignored; known: accessible_views, agents, certified_queries, embedding_llm, llm, memory_mode, rules, runtime, skills, spaces"}},
		"no front matter": {map[string]string{"rules/a.md": "Be brief.\n"}, []string{`agents/rules/a.md:1: it does not begin with YAML between two lines "---"; allowed: YAML, then Markdown`}},
		"no type":         {map[string]string{"rules/a.md": "---\nname: b\n---\ntext\n"}, []string{"agents/rules/a.md:2: type: it is empty or absent; allowed: 1 to 255 characters"}},
		"type":            {map[string]string{"rules/a.md": "---\n\ntype: sometimes\n---\ntext\n"}, []string{`agents/rules/a.md:3: type: "sometimes"; allowed: always, agent_requested`}},
		"no description":  {map[string]string{"rules/a.md": "---\ntype: agent_requested\n---\ntext\n"}, []string{"agents/rules/a.md:2: description: it is empty or absent; allowed: 1 to 4000 characters"}},
		"no prompt":       {map[string]string{"rules/a.md": "---\ntype: always\n---\n"}, []string{"agents/rules/a.md:2: prompt: it is empty or absent; allowed: text here, or after the YAML of a Markdown file"}},
		"rule of a space": {map[string]string{"rules/a.md": "---\ntype: always\nspace: x\n---\ntext\n"}, []string{`agents/rules/a.md:3: space: "x" does not exist; allowed: auto`}},
		"skill name":      {map[string]string{"skills/a b.md": "---\ntitle: A\ndescription: B\n---\ntext\n"}, []string{`agents/skills/a b.md:2: name: "a b" contains white space or a slash; allowed: names without, because users write /name`}},
		"same skill": {
			map[string]string{"skills/a.md": "---\ntitle: A\ndescription: B\n---\ntext\n", "skills/x/a.md": "---\ntitle: A\ndescription: B\n---\ntext\n"},
			[]string{`agents/skills/x/a.md:2: name: "a" is the name of the skill at agents/skills/a.md:2; allowed: names that no other skill has`},
		},
		"only a comment": {map[string]string{"queries/a.md": "---\nuser_request: A?\n---\n<!-- later -->\n"}, []string{"agents/queries/a.md:2: sql_query: it has only comments; allowed: SQL"}},
		"two truths":     {map[string]string{"eval_questions.yml": "eval_questions:\n  - name: a\n    question: A?\n"}, []string{"agents/eval_questions.yml:2: eval_questions[0]: it has both certifiedQuery and sql, or none; allowed: one of both"}},
		"no such query":  {map[string]string{"eval_questions.yml": "eval_questions:\n  - {name: a, question: A, certifiedQuery: b}\n"}, []string{`agents/eval_questions.yml:2: certifiedQuery: the space "auto" has no certified query "b"`}},
		"not text":       {map[string]string{"rules/a.md": "---\ntype: \xff\n---\n"}, []string{"agents/rules/a.md: it is not UTF-8 text"}},
		"control":        {map[string]string{"rules/a.md": "---\ntype: always\nname: \"a\\u202eb\"\n---\nx"}, []string{`agents/rules/a.md:3: name: "a\u202eb": it is too long, or it must not contain control characters, line separators or bidirectional formatting characters`}},
		"deep":           {map[string]string{"rules/1/2/3/4/5/6/7/8.md": "---\ntype: always\n---\nx"}, []string{"agents/rules/1/2/3/4/5/6/7/8.md: it is in 8 folders; allowed: 7"}},
		"nested":         {map[string]string{"config.yml": "llm: " + strings.Repeat("[", 20) + strings.Repeat("]", 20)}, []string{"agents/config.yml:1: it is nested in more than 10 levels; allowed: 10"}},
		"large":          {map[string]string{"rules/a.md": strings.Repeat("x", project.MaxFileBytes+1)}, []string{"agents/rules/a.md: it has 131073 bytes; allowed: 131072"}},
	} {
		if diff := cmp.Diff(tc.want, problems(parse(tc.files))); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// TestErrorsAreLocal: what has no error is used.
func TestErrorsAreLocal(t *testing.T) {
	p := parse(map[string]string{
		"config.yml": "spaces: [{name: a}]\nagents:\n  - {name: x, space: a}\n  - {name: y}\n",
		"rules/a.md": "---\ntype: always\n---\ntext\n", "rules/b.md": "text", "rules/c.md": "---\ntype: always\nspace: z\n---\ntext\n",
	})
	if len(p.Agents) != 1 || len(p.Rules) != 1 || p.Rules[0].Name != "a" || len(p.Errors()) != 3 {
		t.Errorf("%+v %+v %v", p.Agents, p.Rules, problems(p))
	}
}

// TestLimits: what exceeds a limit is reported and left out.
func TestLimits(t *testing.T) {
	files := map[string]string{}
	for i := range project.MaxFiles + 5 {
		files[fmt.Sprintf("rules/%04d.md", i)] = "---\ntype: always\n---\ntext\n"
	}
	p := parse(files)
	if len(p.Rules) != project.MaxFiles || !slices.Equal(problems(p), []string{"agents/rules/1000.md: there are more than 1000 files: this one and those after it are not read"}) {
		t.Errorf("%d rules, %v", len(p.Rules), problems(p))
	}
	files = map[string]string{}
	for i := range project.MaxProblems + 5 {
		files[fmt.Sprintf("rules/%04d.md", i)] = "text"
	}
	if p := parse(files); len(p.Problems) != project.MaxProblems {
		t.Errorf("%d problems", len(p.Problems))
	}
	large := strings.Repeat("x", project.MaxFileBytes-100)
	files = map[string]string{}
	for i := range 40 {
		files[fmt.Sprintf("rules/%04d.md", i)] = "---\ntype: always\n---\n" + large
	}
	if p := parse(files); len(p.Rules) != 32 || len(p.Problems) != 1 {
		t.Errorf("%d rules, %v", len(p.Rules), problems(p))
	}
	// A file that is too large is known by its size only.
	p = project.Parse("agents", []project.File{{Path: "agents/rules/a.md", Size: 1 << 30}})
	if want := []string{"agents/rules/a.md: it has 1073741824 bytes; allowed: 131072"}; !slices.Equal(problems(p), want) {
		t.Error(problems(p))
	}
}

func TestFolder(t *testing.T) {
	for variable, want := range map[string]string{
		"": "agents", "ai": "ai", "/ai/agents/": "ai/agents", "./x": "x", "/": "", ".": "", "../x": "", "a/../b": "", "a\\b": "", strings.Repeat("a", 1025): "",
	} {
		got, err := project.Folder(variable)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v", variable, got, err)
		}
	}
}

func TestIsRead(t *testing.T) {
	for name, want := range map[string]bool{
		"config.yml": true, "config.yaml": true, "x/config.yml": false, "rules/a.md": true, "rules/a/b.md": true, "rules/a.yml": false, "rules": false,
		"skills/a.md": true, "queries/a.md": true, "certified_queries/a.md": true, "certified-queries/a.md": true, "eval_questions.yml": true,
		"eval_questions/a.yml": true, "eval_questions/a.md": false, "eval_questions/.yml": false, "other/a.md": false, "": false, "a.md": false,
	} {
		if got := project.IsRead(name); got != want {
			t.Errorf("%q: %v", name, got)
		}
	}
}
