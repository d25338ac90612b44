// Package docs_test checks the documentation against the repository: links, paths, make targets, flags and the
// commands that can be checked without a cluster. It also checks the layout of pages and packages.
package docs_test

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// root is the root of the repository, relative to this package.
const root = "../.."

// problem is a finding of a check: a line of the page and what is wrong with it.
type problem struct {
	line int
	text string
}

// checks are applied to every page. Each returns the problems of one page.
var checks = map[string]func(*testing.T, page) []problem{
	"links resolve":                  brokenLinks,
	"repository paths exist":         missingPaths,
	"make targets exist":             unknownTargets,
	"flags exist":                    unknownFlags,
	"go packages and tests exist":    unknownPackages,
	"Kubernetes resources exist":     unknownResources,
	"localcluster subcommands exist": unknownSubcommands,
	"chart values exist":             unknownValues,
	"a sentence a line":              longLines,
}

func TestDocumentation(t *testing.T) {
	for _, p := range readPages(t) {
		for _, name := range slices.Sorted(maps.Keys(checks)) {
			t.Run(p.file+"/"+name, func(t *testing.T) {
				for _, found := range checks[name](t, p) {
					t.Errorf("%s:%d: %s", p.file, found.line, found.text)
				}
			})
		}
	}
}

// readPages returns the pages of the repository's root, the page of the chart and all pages below docs.
func readPages(t *testing.T) []page {
	t.Helper()
	files := []string{"README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "charts/quoin/README.md"}
	err := fs.WalkDir(os.DirFS(root), "docs", func(file string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && path.Ext(file) == ".md" {
			files = append(files, file)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 20 {
		t.Fatalf("found only %d pages", len(files))
	}
	pages := make([]page, 0, len(files))
	for _, file := range files {
		pages = append(pages, parsePage(file, readFile(t, file)))
	}
	return pages
}

// TestChecksFindProblems runs every check on lines with an error and on correct lines next to them.
func TestChecksFindProblems(t *testing.T) {
	tests := []struct {
		name, check, text string
		want              []string
	}{
		{"missing file", "links resolve", "[a](gateway.md), [b](nothing.md)", []string{`1: link to "nothing.md": no such file`}},
		{"missing anchor", "links resolve", "[a](#one-two)\n# One, two\n[b](#three)", []string{`3: link to "#three": no such heading`}},
		{"repeated heading", "links resolve", "# One\n# One\n[a](#one-1) [b](#one-2)", []string{`3: link to "#one-2": no such heading`}},
		{"link in code", "links resolve", "`[a](nothing.md)`\n```\n[a](nothing.md)\n```", nil},
		{"missing path", "repository paths exist", "`internal/version`, `api/v1alpha1/<kind>_types.go`, `internal/nothing`", []string{`1: path "internal/nothing" does not exist`}},
		{"identifier", "repository paths exist", "`internal/version.Resolve` `internal/version.Nothing`", []string{`1: path "internal/version.Nothing" does not exist`}},
		{"path of a command", "repository paths exist", "```sh\nkubectl apply -k config/default -f config/nothing.yaml\n```", []string{`2: path "config/nothing.yaml" does not exist`}},
		{"make target", "make targets exist", "`make build VERSION=1`, `make bench-*`\n```sh\nmake nothing  # make it\n```", []string{`3: make target "nothing" does not exist`}},
		{"flag", "flags exist", "`--kubeconfig`, `--nothing=1`", []string{`1: flag --nothing does not exist`}},
		{"flag of another subcommand", "flags exist", "`quoin gateway --concurrency 3`", []string{`1: quoin gateway has no flag --concurrency`}},
		{"subcommand of quoin", "flags exist", "`quoin nothing`", []string{`1: quoin has no subcommand "nothing"`}},
		{"command of the plugin", "flags exist", "`kubectl quoin nothing`, `kubectl quoin get x --watch --nothing`, `kubectl quoin psql x --exec -- --nothing`", []string{`1: kubectl quoin has no command "nothing"`, `1: kubectl quoin get has no flag --nothing`}},
		{"package", "go packages and tests exist", "`go test ./internal/...`\n```sh\ngo run ./test/nothing -n 1\n```", []string{`3: package ./test/nothing does not exist`}},
		{"name of a test", "go packages and tests exist", "`go test ./test/docs -run TestNothing`", []string{`1: no test TestNothing in ./test/docs`}},
		{"kind", "Kubernetes resources exist", "```console\n$ kubectl get qdep,nothing -n demo\nkubectl get other\n```", []string{`2: "nothing" is not a resource`}},
		{"name with its kind", "Kubernetes resources exist", "`kubectl -n demo wait acct/demo nothing/demo --for=condition=Ready`", []string{`1: "nothing" is not a resource`}},
		{"local cluster", "localcluster subcommands exist", "`bin/localcluster push cube v1`, `bin/localcluster nothing`", []string{`1: localcluster has no subcommand "nothing"`}},
		{"sentences", "a sentence a line", strings.Repeat("x", 95) + ". Another sentence.\nShort. Lines.\n" + strings.Repeat("x", 120) + ".", []string{"1: several sentences on a line of more than 100 columns: give each sentence a line, or wrap the lines"}},
		{"chart value", "chart values exist", "```sh\nhelm install quoin ./charts/quoin --set image.tag=dev,image.nothing=1\n```", []string{`2: the chart has no value image.nothing`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, found := range checks[tt.check](t, parsePage("docs/page.md", tt.text)) {
				got = append(got, fmt.Sprintf("%d: %s", found.line, found.text))
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func readFile(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func exists(file string) bool {
	_, err := os.Stat(filepath.Join(root, file))
	return err == nil
}

// words splits a command at spaces, up to the end of the first command of a pipeline or list.
func words(command string) []string {
	all := strings.Fields(command)
	if end := slices.IndexFunc(all, func(word string) bool { return slices.Contains([]string{"|", "||", "&&", ";", ">", "#"}, word) }); end >= 0 {
		all = all[:end]
	}
	return all
}
