// Command chart writes the generated files of the Helm chart: its CRDs from config/crd/bases, its
// roles from config/rbac, its alerts from config/prometheus, the table of values in its README from the
// comments in values.yaml, and the list of CRDs in Chart.yaml. All other files of the chart are written
// by hand, except for the dashboard, which it also writes to config/grafana.
//
//	go run ./hack/chart
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	root := flag.String("root", ".", "root of the repository")
	flag.Parse()
	files, err := generate(*root)
	if err == nil {
		err = write(*root, files)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "chart:", err)
		os.Exit(1)
	}
}

// generatedFolders contain generated files only: write removes other files.
var generatedFolders = []string{chartCRDs, chartRoles}

// generate returns the contents of the generated files by path below root.
func generate(root string) (map[string]string, error) {
	files := map[string]string{}
	for _, generator := range []func(root string, files map[string]string) error{
		generateCRDs,
		generateRoles,
		generateReadme,
		generateMetadata,
		generateRules,
		generateDashboard,
	} {
		if err := generator(root, files); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// write writes the files and removes obsolete ones.
func write(root string, files map[string]string) error {
	for _, folder := range generatedFolders {
		present, err := filepath.Glob(filepath.Join(root, folder, "*"))
		if err != nil {
			return err
		}
		for _, path := range present {
			if _, wanted := files[filepath.Join(folder, filepath.Base(path))]; wanted {
				continue
			}
			if err := os.Remove(path); err != nil {
				return err
			}
		}
	}
	for path, content := range files {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			return err
		}
	}
	return nil
}
