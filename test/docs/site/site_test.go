// Package site_test builds the documentation as a site, checks all of its links and anchors, and checks that the
// pages request nothing from other hosts.
package site_test

import (
	"bytes"
	"context"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/html"
)

const (
	root       = "../../.."
	repository = "https://github.com/quoin-dev/quoin"
)

// run runs a command in the root of the repository, without the settings of a make that runs the tests.
func run(ctx context.Context, variables []string, name string, args ...string) (string, error) {
	command := exec.CommandContext(ctx, name, args...)
	command.Dir = root
	command.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "MAKE") || strings.HasPrefix(v, "MFLAGS=") })
	command.Env = append(command.Env, variables...)
	output, err := command.CombinedOutput()
	return string(output), err
}

// build runs make docs-site once. It returns its output.
var build = sync.OnceValues(func() (string, error) { return run(context.Background(), nil, "make", "docs-site") })

// buildSite returns the folder of the site.
func buildSite(t *testing.T) string {
	t.Helper()
	if err := exec.CommandContext(t.Context(), "python3", "-c", "import ensurepip, venv").Run(); err != nil && os.Getenv("CI") == "" {
		t.Skip("SKIPPED LOUDLY: the documentation's site needs Python with venv: apt-get install python3-venv")
	}
	if output, err := build(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	return filepath.Join(root, "bin/docs-site/html")
}

// page is a page of the site: its anchors, its links, and the resources that a browser loads with it.
type page struct {
	anchors          map[string]bool
	links, resources []string
	paragraphs       []string
}

func parsePage(t *testing.T, content []byte) *page {
	t.Helper()
	document, err := html.Parse(bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	p := &page{anchors: map[string]bool{}}
	for n := range document.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		attributes := map[string]string{}
		for _, a := range n.Attr {
			attributes[a.Key] = a.Val
		}
		p.anchors[attributes["id"]] = true
		switch {
		case n.Data == "a" && attributes["href"] != "":
			p.links = append(p.links, attributes["href"])
		case n.Data == "link" && attributes["rel"] != "canonical":
			p.resources = append(p.resources, attributes["href"])
		case attributes["src"] != "":
			p.resources = append(p.resources, attributes["src"])
		case n.Data == "p":
			p.paragraphs = append(p.paragraphs, text(n))
		case attributes["class"] == "mermaid":
			p.resources = append(p.resources, "https://mermaid") // its script is not part of the theme
		}
	}
	return p
}

func text(n *html.Node) string {
	var b strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			b.WriteString(d.Data)
		}
	}
	return b.String()
}

// readSite returns the HTML pages by their paths.
func readSite(t *testing.T, folder string) map[string]*page {
	t.Helper()
	pages := map[string]*page{}
	err := fs.WalkDir(os.DirFS(folder), ".", func(file string, entry fs.DirEntry, err error) error {
		if err != nil || path.Ext(file) != ".html" {
			return err
		}
		content, err := os.ReadFile(filepath.Join(folder, file))
		if err == nil {
			pages[file] = parsePage(t, content)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return pages
}

// brokenLink returns why a link of a page does not resolve, or "". Pages of other sites are not requested.
func brokenLink(folder string, pages map[string]*page, from, link string) string {
	target, err := url.Parse(link)
	if err != nil {
		return err.Error()
	}
	if rest, ok := strings.CutPrefix(link, repository+"/"); ok {
		parts := strings.SplitN(strings.SplitN(rest, "#", 2)[0], "/", 3)
		if len(parts) < 3 || parts[1] != "main" {
			return "not a file of the branch main"
		}
		if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(parts[2]))); err != nil {
			return "no such file in the repository"
		}
		return ""
	}
	if target.Scheme != "" {
		return ""
	}
	// The page 404.html is served at all paths, so its links are absolute.
	file := path.Join(path.Dir(from), target.Path)
	if path.IsAbs(target.Path) && from == "404.html" {
		file = path.Join(".", "."+target.Path)
	}
	if target.Path == "" {
		file = from
	}
	info, err := os.Stat(filepath.Join(folder, file))
	if err == nil && info.IsDir() {
		file = path.Join(file, "index.html")
		_, err = os.Stat(filepath.Join(folder, file))
	}
	if err != nil {
		return "no such file"
	}
	if p := pages[file]; target.Fragment != "" && p != nil && !p.anchors[target.Fragment] {
		return "no such anchor"
	}
	return ""
}

func TestSite(t *testing.T) {
	folder := buildSite(t)
	pages := readSite(t, folder)
	for file, p := range pages {
		for _, link := range p.links {
			if reason := brokenLink(folder, pages, file, link); reason != "" {
				t.Errorf("%s: link to %q: %s", file, link, reason)
			}
		}
		for _, resource := range p.resources {
			if target, err := url.Parse(resource); err != nil || target.Host != "" {
				t.Errorf("%s loads %q, which is not part of the site", file, resource)
			} else if reason := brokenLink(folder, pages, file, resource); reason != "" {
				t.Errorf("%s loads %q: %s", file, resource, reason)
			}
		}
		for _, paragraph := range p.paragraphs {
			for line := range strings.Lines(paragraph) {
				if strings.HasPrefix(line, "- ") || strings.HasPrefix(line, "1. ") || strings.HasPrefix(line, "| ") {
					t.Errorf("%s: a list or table is not rendered as such; an empty line before it is missing: %q", file, line)
				}
			}
		}
	}
	sources, err := filepath.Glob(filepath.Join(root, "docs/*/*.md"))
	if err != nil || len(sources) < 50 {
		t.Fatalf("%d pages, %v", len(sources), err)
	}
	for _, source := range sources {
		file := strings.TrimSuffix(strings.TrimPrefix(filepath.ToSlash(source), root+"/docs/"), ".md") + ".html"
		if file = strings.Replace(file, "README.html", "index.html", 1); pages[file] == nil {
			t.Errorf("%s is not part of the site: no %s", source, file)
		}
	}
}

// TestNavigation: every page is in the navigation of its section, and the sections and the REST reference are in that of the first page.
func TestNavigation(t *testing.T) {
	folder := buildSite(t)
	pages := readSite(t, folder)
	for _, link := range []string{"tour.html", "kinds/index.html", "journeys/a-install.html", "operations/install.html", "decisions/index.html", "api/reference.html", "api/openapi.json"} {
		if !slices.Contains(pages["index.html"].links, link) {
			t.Errorf("index.html does not link to %s", link)
		}
	}
	for _, section := range []string{"kinds", "journeys", "operations", "decisions"} {
		var files []string
		for file := range pages {
			if path.Dir(file) == section {
				files = append(files, path.Base(file))
			}
		}
		for _, from := range files {
			for _, to := range files {
				links := pages[section+"/"+from].links
				if !slices.Contains(links, to) && from != to {
					t.Errorf("%s/%s does not link to %s", section, from, to)
				}
			}
		}
	}
	index, err := os.ReadFile(filepath.Join(folder, "search/search_index.js"))
	if err != nil || !bytes.Contains(index, []byte("ImagePullBackOff")) {
		t.Errorf("the index for search without a server has no text of the pages: %v", err)
	}
}

// TestBrokenPages: each of these pages fails the build, with a message that names what is wrong.
func TestBrokenPages(t *testing.T) {
	buildSite(t)
	for name, tt := range map[string]struct{ text, want string }{
		"page":                {"[a](nothing.md)", "nothing.md"},
		"anchor":              {"[a](#nothing)", "#nothing"},
		"anchor of a page":    {"[a](other.md#nothing)", "other.md#nothing"},
		"absolute link":       {"[a](/other.md)", "/other.md"},
		"file of the sources": {"[a](../internal/nothing.go)", "link to ../internal/nothing.go: no such file"},
		"outside":             {"[a](../../nothing)", "link to ../../nothing: no such file"},
		"nested list":         {"- one\n  - two", "README.md:3: a nested list needs an indentation of four spaces"},
		"no error":            {"[a](other.md#other) [b](../internal/git/errors.go#L1) `[c](nothing.md)`\n\n```\n[d](../nothing)\n```", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			docs := t.TempDir()
			for file, content := range map[string]string{"README.md": "# Index\n" + tt.text + "\n", "other.md": "# Other\n"} {
				if err := os.WriteFile(filepath.Join(docs, file), []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			output, err := run(t.Context(), []string{"DOCS_SITE_PAGES=" + docs, "NO_MKDOCS_2_WARNING=1"}, "bin/docs-site/venv/bin/mkdocs",
				"build", "--strict", "--config-file", "hack/docs-site/mkdocs.yml", "--site-dir", t.TempDir())
			if (err != nil) != (tt.want != "") || !strings.Contains(output, tt.want) {
				t.Errorf("%v, %s; want an error with %q", err, output, tt.want)
			}
		})
	}
}
