package docs_test

import (
	"fmt"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

var (
	makeCommand  = regexp.MustCompile(`(?:^|[\s(])make ([^|;&]*)`)
	makeTarget   = regexp.MustCompile(`(?m)^([a-z0-9-]+):`)
	targetName   = regexp.MustCompile(`^[a-z0-9*-]+$`)
	goCommand    = regexp.MustCompile(`(?:^|[\s(])go (?:run|test|build|vet) ([^|;&]*)`)
	localcluster = regexp.MustCompile(`bin/localcluster ([a-z-]+)`)
	subcommand   = regexp.MustCompile(`(?m)^\t\{"([a-z-]+)", `)
	helmSet      = regexp.MustCompile(`--set[= ]'?([^'\s]+)`)
	listIndex    = regexp.MustCompile(`\[\d+\]$`)
)

// unknownTargets checks the targets of make commands. * in a target stands for any text.
func unknownTargets(t *testing.T, p page) []problem {
	t.Helper()
	targets := submatches(makeTarget, readFile(t, "Makefile"))
	var problems []problem
	for _, s := range p.code() {
		for _, match := range makeCommand.FindAllStringSubmatch(s.text, -1) {
			for _, word := range words(match[1]) {
				isTarget := func(target string) bool { matched, _ := path.Match(word, target); return matched }
				if targetName.MatchString(word) && !slices.ContainsFunc(targets, isTarget) {
					problems = append(problems, problem{s.line, fmt.Sprintf("make target %q does not exist", word)})
				}
			}
		}
	}
	return problems
}

// unknownPackages checks the packages of go commands, and the name after -run.
func unknownPackages(t *testing.T, p page) []problem {
	t.Helper()
	var problems []problem
	for _, s := range p.code() {
		for _, match := range goCommand.FindAllStringSubmatch(s.text, -1) {
			args := words(match[1])
			folder := slices.IndexFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "./") })
			if folder < 0 {
				continue
			}
			name := strings.TrimSuffix(args[folder], "/...")
			files, err := filepath.Glob(filepath.Join(root, name, "*"))
			if err != nil || len(files) == 0 {
				problems = append(problems, problem{s.line, fmt.Sprintf("package %s does not exist", args[folder])})
				continue
			}
			run := slices.Index(args, "-run") + 1
			if run == 0 || run == len(args) {
				continue
			}
			test := strings.Trim(args[run], `'"^$`)
			if !declares(t, name, regexp.MustCompile(`(?m)^func `+test)) {
				problems = append(problems, problem{s.line, fmt.Sprintf("no test %s in %s", test, args[folder])})
			}
		}
	}
	return problems
}

// unknownSubcommands checks the subcommands of bin/localcluster.
func unknownSubcommands(t *testing.T, p page) []problem {
	t.Helper()
	known := submatches(subcommand, readFile(t, "hack/localcluster/main.go"))
	var problems []problem
	for _, s := range p.code() {
		for _, match := range localcluster.FindAllStringSubmatch(s.text, -1) {
			if !slices.Contains(known, match[1]) {
				problems = append(problems, problem{s.line, fmt.Sprintf("localcluster has no subcommand %q", match[1])})
			}
		}
	}
	return problems
}

// unknownValues checks the names after --set of helm commands.
func unknownValues(t *testing.T, p page) []problem {
	t.Helper()
	var values map[string]any
	if err := yaml.Unmarshal([]byte(readFile(t, "charts/quoin/values.yaml")), &values); err != nil {
		t.Fatal(err)
	}
	var problems []problem
	for _, s := range p.code() {
		for _, match := range helmSet.FindAllStringSubmatch(s.text, -1) {
			for assignment := range strings.SplitSeq(match[1], ",") {
				name, _, _ := strings.Cut(assignment, "=")
				if !hasValue(values, strings.Split(name, ".")) {
					problems = append(problems, problem{s.line, "the chart has no value " + name})
				}
			}
		}
	}
	return problems
}

// hasValue reports whether the values have an entry at the path. What is below a list or an empty map is not checked.
func hasValue(values map[string]any, names []string) bool {
	name := listIndex.ReplaceAllString(names[0], "")
	value, found := values[name]
	if !found || len(names) == 1 || name != names[0] {
		return found
	}
	nested, isMap := value.(map[string]any)
	return isMap && (len(nested) == 0 || hasValue(nested, names[1:]))
}

// submatches returns the first group of every match.
func submatches(expression *regexp.Regexp, text string) []string {
	var found []string
	for _, match := range expression.FindAllStringSubmatch(text, -1) {
		found = append(found, match[1])
	}
	return found
}
