// Package platforms_test checks that the kubectl plugin compiles on platforms on which no test runs.
package platforms_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"
)

const module = "github.com/quoin-dev/quoin"

// TestTypes checks the types of the program and of all packages of Quoin that it imports. That takes seconds, a build of
// everything that the program imports would take minutes; `make plugin` does it for all platforms.
func TestTypes(t *testing.T) {
	for _, platform := range []string{"windows/amd64", "darwin/arm64"} {
		t.Run(platform, func(t *testing.T) {
			problems, checked := load(t, platform, "./cmd/quoin", nil)
			for _, problem := range problems {
				t.Error(problem)
			}
			if checked < 50 {
				t.Errorf("checked %d packages, want at least 50", checked)
			}
		})
	}
}

// TestTypesFindsProblems: a file that compiles on Linux only is found.
func TestTypesFindsProblems(t *testing.T) {
	file, err := filepath.Abs("../../internal/version/linux_only.go")
	if err != nil {
		t.Fatal(err)
	}
	overlay := map[string][]byte{file: []byte("package version\n\nimport \"syscall\"\n\nvar _ = syscall.Flock\n")}
	if problems, _ := load(t, "windows/amd64", "./internal/version", overlay); len(problems) != 1 || !strings.Contains(problems[0], "Flock") {
		t.Errorf("problems: %q, want one about Flock", problems)
	}
}

// load checks the types of a package and of those that it imports. It returns the problems of packages of Quoin, and how
// many of them there are. The functions of other modules are read without their bodies.
func load(t *testing.T, platform, pattern string, overlay map[string][]byte) (problems []string, checked int) {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	system, architecture, _ := strings.Cut(platform, "/")
	loaded, err := packages.Load(&packages.Config{
		Context: t.Context(),
		Mode:    packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports | packages.NeedDeps | packages.NeedTypes | packages.NeedSyntax | packages.NeedTypesInfo,
		Dir:     root, Overlay: overlay,
		Env: append(os.Environ(), "GOOS="+system, "GOARCH="+architecture, "CGO_ENABLED=0"),
		ParseFile: func(files *token.FileSet, name string, source []byte) (*ast.File, error) {
			file, err := parser.ParseFile(files, name, source, parser.SkipObjectResolution)
			if file != nil && !strings.HasPrefix(name, root+string(filepath.Separator)) {
				for _, d := range file.Decls {
					if f, ok := d.(*ast.FuncDecl); ok {
						f.Body = nil
					}
				}
			}
			return file, err
		},
	}, pattern)
	if err != nil {
		t.Fatal(err)
	}
	packages.Visit(loaded, nil, func(p *packages.Package) {
		if p.PkgPath != module && !strings.HasPrefix(p.PkgPath, module+"/") {
			return
		}
		checked++
		for _, e := range p.Errors {
			problems = append(problems, e.Error())
		}
	})
	return problems, checked
}
