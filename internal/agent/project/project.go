// Package project reads the files that configure agents in the repository of a data model: agents/config.yml, rules, skills,
// certified queries and questions for evaluations.
//
//	project.go      the types, and limits
//	files.go        which files are read
//	parse.go        from files to a Project
//	config.go       config.yml
//	items.go        rules, skills and certified queries
//	questions.go    questions for evaluations
//	frontmatter.go  Markdown with YAML before it
//	fields.go       fields of YAML mappings, with their lines
//	scope.go        what an agent has
//
// It is pure: it knows neither Git nor Kubernetes. What has an error is left out and reported as a Problem with its file and line;
// the rest is used. docs/decisions/0093-files-of-agents.md has the rules.
package project

import (
	"fmt"
	"strings"
)

const (
	// Auto is the name of the agent and of the space that exist without configuration.
	Auto = "auto"
	// DefaultFolder is the folder of the files in the data model.
	DefaultFolder = "agents"
	// FolderVariable is the environment variable of a deployment that sets another folder.
	FolderVariable = "CUBE_CLOUD_AGENTS_CONFIG_PATH"
)

// Limits of what is read. What exceeds one is left out and reported.
const (
	// MaxFiles is the maximum number of files.
	MaxFiles = 1000
	// MaxFileBytes is the maximum size of a file.
	MaxFileBytes = 128 << 10
	// MaxBytes is the maximum size of all files.
	MaxBytes = 4 << 20
	// MaxFolders is the maximum number of names in a path below the folder of the files.
	MaxFolders = 8
	// MaxAgents is the maximum number of agents, and of spaces.
	MaxAgents = 100
	// MaxItems is the maximum number of rules, of skills, of certified queries and of questions.
	MaxItems = 1000
	// MaxName is the maximum number of characters of a name, and of a title.
	MaxName = 255
	// MaxDescription is the maximum number of characters of a description, a question or a request of a user.
	MaxDescription = 4000
	// MaxViews is the maximum number of accessible views of an agent.
	MaxViews = 500
	// MaxProblems is the maximum number of problems that are reported.
	MaxProblems = 100
)

// Place is where something is in the files. Line begins with 1; it is 0 if the place is a whole file.
type Place struct {
	Path string
	Line int
}

func (p Place) String() string {
	if p.Line == 0 {
		return p.Path
	}
	return fmt.Sprintf("%s:%d", p.Path, p.Line)
}

// Problem is an error in a file, or a warning about one.
type Problem struct {
	Place
	// Field is the path of the property, such as agents[0].llm; empty if the problem is not in one.
	Field string
	// Message has what was given and what is allowed.
	Message string
	// Warning reports whether the file is used as if the property were absent.
	Warning bool
}

func (p Problem) String() string {
	if p.Field == "" {
		return fmt.Sprintf("%s: %s", p.Place, p.Message)
	}
	return fmt.Sprintf("%s: %s: %s", p.Place, p.Field, p.Message)
}

// Project is what the files configure. It must not be modified.
type Project struct {
	// IsMulti reports whether config.yml has agents or spaces: then each agent has a name and a space.
	IsMulti bool
	// Agents are those of config.yml. Without agents it is one with the name Auto and the properties at the root of the file.
	Agents []Agent
	// Spaces are those of config.yml. The space Auto is not among them.
	Spaces []Space
	// Rules, Skills, Queries and Questions are ordered by their place.
	Rules     []Rule
	Skills    []Skill
	Queries   []Query
	Questions []Question
	// Problems are the first MaxProblems, ordered by their place.
	Problems []Problem
	// HasFiles reports whether there is a file at all.
	HasFiles bool
}

// Errors returns the problems that are not warnings.
func (p *Project) Errors() []Problem {
	var out []Problem
	for _, problem := range p.Problems {
		if !problem.Warning {
			out = append(out, problem)
		}
	}
	return out
}

// Model is a language model, by the name that the files give it.
type Model struct {
	// Name is "auto", a name such as gpt_5 or the name of an own model.
	Name string
	// IsOwn reports whether the name is one of the account: {byom: {name: …}}.
	IsOwn bool
}

// The values of Agent.Runtime.
const (
	RuntimePlain     = "plain"
	RuntimeReasoning = "reasoning"
)

// The values of Agent.Memory.
const (
	MemorySpace    = "space"
	MemoryUser     = "user"
	MemoryDisabled = "disabled"
)

// Agent is the configuration of an agent.
type Agent struct {
	Name        string
	Description string
	// Space whose rules, skills and certified queries it has.
	Space string
	// Model answers; Embedding is for searches. Name is empty if the files have none.
	Model, Embedding Model
	// Runtime is RuntimePlain or RuntimeReasoning.
	Runtime string
	// Memory is MemorySpace, MemoryUser or MemoryDisabled.
	Memory string
	// Views guide the agent; empty stands for all. They limit no rights.
	Views []string
	Place Place
}

// Space groups what several agents share.
type Space struct {
	Name        string
	Description string
	Place       Place
}

// Rule is an instruction.
type Rule struct {
	Name  string
	Space string
	// Always reports whether it is in each prompt; otherwise the agent reads it when Description fits the question.
	Always      bool
	Description string
	Prompt      string
	Place       Place
}

// Skill is a workflow that users start by its name.
type Skill struct {
	Name         string
	Space        string
	Title        string
	Description  string
	Instructions string
	Place        Place
}

// Query is a certified query.
type Query struct {
	Name  string
	Space string
	// UserRequest is the question that it answers.
	UserRequest string
	Description string
	// Text is the SQL as the agent reads it, which can have Markdown comments.
	Text  string
	Place Place
}

// SQL returns the query without Markdown comments.
func (q *Query) SQL() string {
	var out strings.Builder
	rest := q.Text
	for {
		before, after, found := strings.Cut(rest, "<!--")
		out.WriteString(before)
		if !found {
			return strings.TrimSpace(out.String())
		}
		_, rest, found = strings.Cut(after, "-->")
		if !found {
			return strings.TrimSpace(out.String())
		}
	}
}

// Question is a question for evaluations, with the query whose result is right.
type Question struct {
	Name     string
	Space    string
	Question string
	// CertifiedQuery is the name of a query of the space, which may not exist; or SQL is the query.
	CertifiedQuery string
	SQL            string
	Place          Place
}
