// Command docs writes the generated tables of docs/kinds: the fields of each kind from its CRD, the
// index of kinds from api/v1alpha1/kinds.go and the permissions from internal/permission.
//
//	go run ./hack/docs            # from the repository's root, after generating the CRDs
//	go run ./hack/docs -check     # writes nothing, fails if a table is out of date
//
// A table is between two lines such as "<!-- fields: Kind.spec -->" and "<!-- /fields -->". The rest
// of a page is written by hand.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

func main() {
	check := flag.Bool("check", false, "write nothing, fail if a table is out of date")
	root := flag.String("root", ".", "root of the repository")
	flag.Parse()
	if err := run(*root, *check); err != nil {
		fmt.Fprintln(os.Stderr, "docs:", err)
		os.Exit(1)
	}
}

// run writes the pages that differ, or with check returns an error that lists them.
func run(root string, check bool) error {
	schemas, err := readSchemas(filepath.Join(root, "config", "crd", "bases"))
	if err != nil {
		return err
	}
	pages, err := filepath.Glob(filepath.Join(root, "docs", "kinds", "*.md"))
	if err != nil {
		return err
	}
	var stale []string
	for _, page := range pages {
		before, err := os.ReadFile(page)
		if err != nil {
			return err
		}
		after, err := withTables(before, schemas)
		if err != nil {
			return fmt.Errorf("%s: %w", page, err)
		}
		if after, err = withKinds(withPermissions(after), filepath.Dir(page)); err != nil {
			return fmt.Errorf("%s: %w", page, err)
		}
		if bytes.Equal(before, after) {
			continue
		}
		if check {
			stale = append(stale, page)
			continue
		}
		if err := os.WriteFile(page, after, 0o644); err != nil {
			return err
		}
		fmt.Println("wrote", page)
	}
	if len(stale) > 0 {
		return fmt.Errorf("out of date, run `make generate`: %s", strings.Join(stale, ", "))
	}
	return nil
}

// schemas are the schemas of the CRDs by kind.
type schemas map[string]*apiextensionsv1.JSONSchemaProps

func readSchemas(folder string) (schemas, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no CRDs in %s", folder)
	}
	found := schemas{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(text, crd); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		found[crd.Spec.Names.Kind] = crd.Spec.Versions[0].Schema.OpenAPIV3Schema
	}
	return found, nil
}

var placeholder = regexp.MustCompile(`(?s)<!-- fields: (\w+)\.(spec|status) -->\n.*?<!-- /fields -->`)

// withTables replaces the field tables of a page.
func withTables(page []byte, all schemas) ([]byte, error) {
	var failures []error
	filled := placeholder.ReplaceAllFunc(page, func(match []byte) []byte {
		groups := placeholder.FindSubmatch(match)
		kind, part := string(groups[1]), string(groups[2])
		schema, ok := all[kind]
		if !ok {
			failures = append(failures, fmt.Errorf("no kind %s", kind))
			return match
		}
		table, err := fieldTable(schema, part)
		if err != nil {
			failures = append(failures, fmt.Errorf("%s: %w", kind, err))
			return match
		}
		return fmt.Appendf(nil, "<!-- fields: %s.%s -->\n%s<!-- /fields -->", kind, part, table)
	})
	return filled, errors.Join(failures...)
}
