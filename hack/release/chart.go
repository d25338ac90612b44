package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
)

// writeChart writes the archive of the chart, with the version of the release.
func writeChart(r *release) error {
	files := map[string][]byte{}
	folder := os.DirFS(filepath.Join(r.root, "charts", "quoin"))
	err := fs.WalkDir(folder, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(folder, path)
		files["quoin/"+path] = content
		return err
	})
	if err != nil {
		return err
	}
	if files["quoin/Chart.yaml"], err = r.chartMetadata(files["quoin/Chart.yaml"]); err != nil {
		return err
	}
	return writeArchive(filepath.Join(r.out, "quoin-"+r.number()+".tgz"), files, r.date)
}

// chartMetadata returns Chart.yaml with the versions of the release.
func (r *release) chartMetadata(content []byte) ([]byte, error) {
	image, err := r.configuredImage()
	if err != nil {
		return nil, err
	}
	for _, line := range []struct{ expression, text string }{
		{`(?m)^version: .*$`, "version: " + r.number()},
		{`(?m)^appVersion: .*$`, "appVersion: " + r.version},
		{regexp.QuoteMeta(image), r.repository + ":" + r.version},
	} {
		expression := regexp.MustCompile(line.expression)
		if n := len(expression.FindAll(content, -1)); n != 1 {
			return nil, fmt.Errorf("charts/quoin/Chart.yaml: %d matches of %s, want 1", n, line.expression)
		}
		content = expression.ReplaceAllLiteral(content, []byte(line.text))
	}
	return content, nil
}
