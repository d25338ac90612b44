// Package guide serves pages of the documentation on the hosts of accounts, below the reference: /docs/ai is docs/ai.md.
package guide

import (
	"bytes"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"path"
	"strings"

	_ "embed"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"

	"github.com/quoin-dev/quoin/apiserver/rest"
)

// prefix is the beginning of the paths of guides.
const prefix = "/docs/"

//go:embed guide.html
var pageHTML string

var page = template.Must(template.New("guide").Parse(pageHTML))

// Guides are pages by path. They are the same for all accounts, and public.
type Guides map[string][]byte

// New renders the Markdown files of a folder.
func New(files fs.FS) (Guides, error) {
	names, err := fs.Glob(files, "*.md")
	if err != nil {
		return nil, err
	}
	guides := Guides{}
	for _, name := range names {
		source, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		if guides[pathOf(name)], err = render(source, names); err != nil {
			return nil, fmt.Errorf("render %s: %w", name, err)
		}
	}
	return guides, nil
}

// pathOf returns the path of the guide of a file.
func pathOf(name string) string { return prefix + strings.TrimSuffix(name, ".md") }

// render returns the page of a Markdown file. names are the files that have pages.
func render(source []byte, names []string) ([]byte, error) {
	markdown := goldmark.New(
		goldmark.WithExtensions(extension.Table),
		goldmark.WithParserOptions(parser.WithAutoHeadingID(), parser.WithASTTransformers(util.Prioritized(&links{names}, 500))),
	)
	var body, out bytes.Buffer
	if err := markdown.Convert(source, &body); err != nil {
		return nil, err
	}
	title, _, _ := strings.Cut(strings.TrimPrefix(string(source), "# "), "\n")
	err := page.Execute(&out, map[string]any{"Title": title, "Body": template.HTML(body.String())}) //nolint:gosec // the files are those of the program
	return out.Bytes(), err
}

// links makes links to other guides lead to their pages. Those to other files of the repository become text, because the server does
// not have them.
type links struct{ names []string }

// Transform implements parser.ASTTransformer.
func (l *links) Transform(document *ast.Document, _ text.Reader, _ parser.Context) {
	var all []*ast.Link
	_ = ast.Walk(document, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if link, ok := n.(*ast.Link); ok && entering {
			all = append(all, link)
		}
		return ast.WalkContinue, nil
	})
	for _, link := range all {
		if to, ok := l.target(string(link.Destination)); ok {
			link.Destination = []byte(to)
			continue
		}
		parent := link.Parent()
		for child := link.FirstChild(); child != nil; child = link.FirstChild() {
			parent.InsertBefore(parent, link, child)
		}
		parent.RemoveChild(parent, link)
	}
}

// target returns where a link leads on the server, and whether the server has it.
func (l *links) target(destination string) (string, bool) {
	if strings.HasPrefix(destination, "#") || strings.HasPrefix(destination, "https://") {
		return destination, true
	}
	file, fragment, found := strings.Cut(destination, "#")
	for _, name := range l.names {
		if path.Clean(file) == name && found {
			return pathOf(name) + "#" + fragment, true
		} else if path.Clean(file) == name {
			return pathOf(name), true
		}
	}
	return "", false
}

// Handles reports whether a request is one for a guide.
func (g Guides) Handles(r *http.Request) bool {
	return g[r.URL.Path] != nil && (r.Method == http.MethodGet || r.Method == http.MethodHead)
}

// ServeHTTP serves a guide that Handles has found: one page without external resources and tenant data.
func (g Guides) ServeHTTP(w http.ResponseWriter, r *http.Request) { rest.ServePage(w, g[r.URL.Path]) }
