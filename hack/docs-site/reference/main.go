// Command reference writes the reference page of the REST API and its OpenAPI document to a folder, for the
// documentation as a site. `make docs-site` calls it.
//
//	go run ./hack/docs-site/reference --version v1.2.3 --out bin/docs-site/reference
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"

	"github.com/quoin-dev/quoin/apiserver"
)

func main() {
	version := flag.String("version", "dev", "version in the OpenAPI document")
	out := flag.String("out", "", "folder of the files")
	flag.Parse()
	if err := run(*version, *out); err != nil {
		fmt.Fprintln(os.Stderr, "reference:", err)
		os.Exit(1)
	}
}

// servedAt is where a server serves the document, and the code of the page that names it.
const servedAt = "<code>/api/v1/spec</code>"

// guide is a link to a guide, which is a page of the site.
var guide = regexp.MustCompile(`href="/docs/([a-z]+)"`)

// run writes reference.html and openapi.json. The page links to the document beside it and to the site.
func run(version, out string) error {
	if out == "" {
		return fmt.Errorf("--out is empty, must be a folder")
	}
	page, document, err := apiserver.Reference(version)
	if err != nil {
		return err
	}
	if !bytes.Contains(page, []byte(servedAt)) {
		return fmt.Errorf("the reference does not name the document as %s", servedAt)
	}
	page = bytes.ReplaceAll(page, []byte(servedAt), []byte(servedAt+` and <a href="openapi.json">openapi.json</a>; the <a href="../rest.html">documentation</a> has more`))
	page = guide.ReplaceAll(page, []byte(`href="../$1.html"`))
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	for name, content := range map[string][]byte{"reference.html": page, "openapi.json": document} {
		if err := os.WriteFile(filepath.Join(out, name), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}
