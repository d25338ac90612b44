// Command manifests writes the files that repeat the tables of permissions (internal/permission)
// and of kinds (api/v1alpha1/kinds.go):
//
//	go run ./hack/manifests           # from the repository's root
//	go run ./hack/manifests -check    # writes nothing, fails if a file is out of date
package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	check := flag.Bool("check", false, "write nothing, fail if a file is out of date")
	root := flag.String("root", ".", "root of the repository")
	flag.Parse()
	if err := run(*root, *check); err != nil {
		fmt.Fprintln(os.Stderr, "manifests:", err)
		os.Exit(1)
	}
}

// run writes the files that differ, or with check returns an error that lists them.
func run(root string, check bool) error {
	files, err := generate(root)
	if err != nil {
		return err
	}
	var stale []string
	for _, path := range slices.Sorted(maps.Keys(files)) {
		present, err := os.ReadFile(filepath.Join(root, path))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err == nil && string(present) == files[path] {
			continue
		}
		if check {
			stale = append(stale, path)
			continue
		}
		if err := os.WriteFile(filepath.Join(root, path), []byte(files[path]), 0o644); err != nil {
			return err
		}
		fmt.Println("wrote", path)
	}
	if len(stale) > 0 {
		return fmt.Errorf("out of date, run `make generate`: %s", strings.Join(stale, ", "))
	}
	return nil
}

// generate returns the contents of the generated files by path below root.
func generate(root string) (map[string]string, error) {
	files := map[string]string{}
	for _, generator := range []func(root string, files map[string]string) error{
		generatePermissions,
		generateMarkers,
		generateCRDList,
		generateProject,
		generateWebhooks,
		generateRoles,
	} {
		if err := generator(root, files); err != nil {
			return nil, err
		}
	}
	return files, nil
}
