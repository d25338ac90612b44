package clients_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// conversation is a recorded conversation with a provisioning client, in a text format:
//
//	# Source.
//	@keys okta auto
//	@header User-Agent: Okta SCIM Client 1.0.0
//
//	## A section is a subtest; it may use captured values of earlier sections
//	POST /Users
//	Content-Type: application/json
//
//	{"userName": "ada-{run}@example.com", "active": true}
//	=> 201
//	{id} = id
//	userName = "ada-{run}@example.com"
//	groups is absent
//
// @keys are the keys with which the file or a section is replayed. @header is a default header of all requests,
// @query is added to every target. Spaces, quotes and brackets in targets are percent-encoded when sent.
//
// => is followed by the status and the expectations on the response, one a line:
//
//	path = JSON              the value, exactly
//	path >= number
//	path is kind             string, number, boolean, list, object; absent: not even null
//	path has {…}             a list with an element that has at least these members
//	path lacks {…}           a list without such an element
//	header Name = "text"
//	within 600ms
//	{name} = path            captures a value for later requests and lines
//
// A path has names and indexes separated by dots, and a URN in brackets; its last part may be
// length; "body" is the whole response. {run} is unique for each run, {token} is the token of the caller, {base}
// the base URL. A body may be {name} with {…} instead of JSON: a captured object with other members.
// exchange.rules checks the properties of all responses.
type conversation struct {
	file     string
	keys     []string
	sections []*section
}

type section struct {
	title     string
	line      int
	keys      []string
	exchanges []*exchange
}

type exchange struct {
	line           int
	method, target string
	header         []string // names and values
	body           string
	status         int
	expectations   []expectation
}

// expectation is an expectation on a response.
type expectation struct {
	line               int
	path, verb, wanted string
}

// readConversation reads a file in testdata.
func readConversation(file string) (*conversation, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return parseConversation(file, string(data))
}

func parseConversation(file, text string) (*conversation, error) {
	r := &replayReader{c: &conversation{file: file}, lines: strings.Split(text, "\n")}
	for r.next < len(r.lines) {
		if err := r.step(); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", file, r.next, err)
		}
	}
	if err := r.ends(); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return r.c, nil
}

type replayReader struct {
	c      *conversation
	lines  []string
	next   int // index of the next line, which is the number of the current line
	header []string
	query  string
}

func (r *replayReader) line() string {
	r.next++
	return strings.TrimRight(r.lines[r.next-1], " \t\r")
}

// at reports whether there is a next line that satisfies a condition.
func (r *replayReader) at(condition func(string) bool) bool {
	return r.next < len(r.lines) && condition(strings.TrimRight(r.lines[r.next], " \t\r"))
}

func (r *replayReader) section() *section {
	if len(r.c.sections) == 0 {
		return nil
	}
	return r.c.sections[len(r.c.sections)-1]
}

var methods = []string{"GET", "POST", "PUT", "PATCH", "DELETE"}

// step parses a line between exchanges, or an exchange.
func (r *replayReader) step() error {
	line := r.line()
	first, rest, _ := strings.Cut(line, " ")
	switch {
	case line == "", first == "#":
		return nil
	case first == "##":
		if s := r.section(); s != nil && len(s.exchanges) == 0 {
			return fmt.Errorf("section %q has no exchange", s.title)
		}
		if slices.ContainsFunc(r.c.sections, func(s *section) bool { return s.title == rest }) || rest == "" {
			return fmt.Errorf("%q is not a unique section title", rest)
		}
		r.c.sections = append(r.c.sections, &section{title: rest, line: r.next})
		return nil
	case strings.HasPrefix(line, "@"):
		return r.directive(first, rest)
	case slices.Contains(methods, first):
		return r.exchange(first, rest)
	}
	return fmt.Errorf("%q is neither a request nor an expectation", line)
}

func (r *replayReader) directive(name, rest string) error {
	s := r.section()
	switch name {
	case "@keys":
		keys := strings.Fields(rest)
		if len(keys) == 0 || slices.ContainsFunc(keys, func(k string) bool { return !slices.Contains(keyNames, k) }) {
			return fmt.Errorf("@keys: allowed are %v", keyNames)
		}
		if s == nil {
			r.c.keys = keys
			return nil
		}
		if s.keys = keys; slices.ContainsFunc(keys, func(k string) bool { return !slices.Contains(r.c.keys, k) }) {
			return errors.New("a section has some of the file's keys")
		}
		return nil
	case "@header":
		header, value, ok := strings.Cut(rest, ": ")
		if !ok || s != nil {
			return errors.New("@header Name: value stands before the sections")
		}
		r.header = append(r.header, header, value)
		return nil
	case "@query":
		if rest == "" || s != nil {
			return errors.New("@query text stands before the sections")
		}
		r.query = rest
		return nil
	}
	return fmt.Errorf("%s is unknown", name)
}

func (r *replayReader) exchange(method, target string) error {
	s := r.section()
	if s == nil {
		return errors.New("the request belongs to no section")
	}
	e := &exchange{line: r.next, method: method, header: slices.Clone(r.header)}
	if !strings.HasPrefix(target, "/") {
		return fmt.Errorf("target %q must begin with /", target)
	}
	if e.target = target; r.query != "" {
		e.target += map[bool]string{true: "&", false: "?"}[strings.Contains(target, "?")] + r.query
	}
	for r.at(func(line string) bool { return line != "" && !strings.HasPrefix(line, "=>") }) {
		name, value, ok := strings.Cut(r.line(), ": ")
		if !ok {
			return errors.New("a header is Name: value, and an empty line stands before the body")
		}
		e.header = append(e.header, name, value)
	}
	var body []string
	for r.at(func(line string) bool { return !strings.HasPrefix(line, "=>") && !strings.HasPrefix(line, "##") }) {
		body = append(body, r.line())
	}
	if e.body = strings.TrimSpace(strings.Join(body, "\n")); e.body != "" && !isJSON(e.body) && !changedCopy.MatchString(e.body) {
		return errors.New("the body is not JSON")
	}
	if !r.at(func(line string) bool { return strings.HasPrefix(line, "=> ") }) {
		return errors.New("no line => status follows")
	}
	s.exchanges = append(s.exchanges, e)
	return r.answer(e)
}

func (r *replayReader) answer(e *exchange) error {
	var err error
	if e.status, err = strconv.Atoi(strings.TrimPrefix(r.line(), "=> ")); err != nil || e.status < 200 || e.status > 599 {
		return errors.New("=> must be followed by a status alone")
	}
	for r.at(func(line string) bool { return line != "" && !strings.HasPrefix(line, "#") }) {
		line := r.line()
		x, err := parseExpectation(line)
		if err != nil {
			return fmt.Errorf("%q: %w", line, err)
		}
		x.line = r.next
		e.expectations = append(e.expectations, x)
	}
	if e.status == 204 && slices.ContainsFunc(e.expectations, func(x expectation) bool { return x.path != "" && x.verb != "header" }) {
		return errors.New("a 204 has no body of which something could be said")
	}
	return nil
}

func (r *replayReader) ends() error {
	switch s := r.section(); {
	case len(r.c.keys) == 0:
		return errors.New("no @keys before the sections")
	case s == nil:
		return errors.New("no section")
	case len(s.exchanges) == 0:
		return fmt.Errorf("section %q has no exchange", s.title)
	}
	return nil
}

var (
	placeholder = regexp.MustCompile(`\{([a-z][A-Za-z0-9]*)\}`)
	changedCopy = regexp.MustCompile(`(?s)^\{([a-z][A-Za-z0-9]*)\} with (\{.*\})$`)
	capturing   = regexp.MustCompile(`^\{([a-z][A-Za-z0-9]*)\} = (\S+)$`)
	saying      = regexp.MustCompile(`^(\S+) (=|>=|is|has|lacks) (.+)$`)
	ofHeader    = regexp.MustCompile(`^header (\S+) = (".*")$`)
	inTime      = regexp.MustCompile(`^within (\d+ms)$`)
)

// kinds are the kinds of "is".
var kinds = []string{"string", "number", "boolean", "list", "object", "absent"}

func parseExpectation(line string) (expectation, error) {
	if m := capturing.FindStringSubmatch(line); m != nil {
		return expectation{path: m[2], verb: "keep", wanted: m[1]}, nil
	}
	if m := ofHeader.FindStringSubmatch(line); m != nil {
		return expectation{path: m[1], verb: "header", wanted: m[2]}, nil
	}
	if m := inTime.FindStringSubmatch(line); m != nil {
		return expectation{verb: "within", wanted: m[1]}, nil
	}
	m := saying.FindStringSubmatch(line)
	if m == nil {
		return expectation{}, errors.New("is not of a known form")
	}
	x := expectation{path: m[1], verb: m[2], wanted: m[3]}
	switch {
	case strings.HasPrefix(x.path, "{"):
		return x, errors.New("a path is no placeholder")
	case x.verb == "is" && !slices.Contains(kinds, x.wanted):
		return x, fmt.Errorf("allowed kinds: %v", kinds)
	case x.verb != "is" && !isJSON(x.wanted):
		return x, errors.New("the value is not JSON")
	case (x.verb == "has" || x.verb == "lacks") && !strings.HasPrefix(x.wanted, `{"`):
		return x, errors.New("has and lacks are followed by an object that is not empty")
	}
	return x, nil
}

// isJSON reports whether a text is JSON after its placeholders are replaced.
func isJSON(text string) bool { return json.Valid([]byte(placeholder.ReplaceAllString(text, "0"))) }
