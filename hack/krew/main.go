// Command krew writes the manifest of the kubectl plugin for krew, from the archives of a release.
//
//	go run ./hack/krew --version v1.2.3 --url https://example.com/releases/v1.2.3 dist/kubectl-quoin_*.tar.gz
package main

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"text/template"
)

// manifest is the template of the manifest.
//
//go:embed quoin.yaml.tmpl
var manifest string

// archiveName is the name of an archive: kubectl-quoin_<os>_<arch>.tar.gz.
var archiveName = regexp.MustCompile(`^kubectl-quoin_([a-z]+)_([a-z0-9]+)\.tar\.gz$`)

// semantic is a version of krew.
var semantic = regexp.MustCompile(`^v\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$`)

// release are the values of the template.
type release struct {
	Version  string
	Archives []archive
}

type archive struct{ OS, Arch, URL, SHA256, Bin string }

func main() {
	version := flag.String("version", "", "version of the release, such as v1.2.3")
	url := flag.String("url", "", "address of the folder with the archives")
	flag.Parse()
	if err := write(os.Stdout, *version, *url, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "krew:", err)
		os.Exit(1)
	}
}

// write writes the manifest for archives.
func write(w io.Writer, version, url string, files []string) error {
	switch {
	case !semantic.MatchString(version):
		return fmt.Errorf("--version is %q, must be a version such as v1.2.3", version)
	case !strings.HasPrefix(url, "https://"):
		return fmt.Errorf("--url is %q, must begin with https://", url)
	case len(files) == 0:
		return fmt.Errorf("no archives")
	}
	r := release{Version: version}
	for _, file := range files {
		match := archiveName.FindStringSubmatch(filepath.Base(file))
		if match == nil {
			return fmt.Errorf("%s: the name must be kubectl-quoin_<os>_<arch>.tar.gz", file)
		}
		sum, err := hash(file)
		if err != nil {
			return err
		}
		a := archive{OS: match[1], Arch: match[2], URL: strings.TrimSuffix(url, "/") + "/" + filepath.Base(file), SHA256: sum, Bin: "kubectl-quoin"}
		if a.OS == "windows" {
			a.Bin += ".exe"
		}
		r.Archives = append(r.Archives, a)
	}
	t, err := template.New("manifest").Parse(manifest)
	if err != nil {
		return err
	}
	return t.Execute(w, r)
}

func hash(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
