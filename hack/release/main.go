// Command release writes the files of a release that are not binaries: one manifest for kubectl, the archive
// of the chart, the bundle for OLM, the software bill of materials, and the checksums of all files in the
// folder. `make release` builds the rest and calls it.
//
//	go run ./hack/release --version v1.2.3 --digest sha256:… --kubectl <file> --binary quoin-amd64 --out dist
//
// The same inputs give the same files.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"time"
)

// semantic is the form of a version.
var semantic = regexp.MustCompile(`^v\d+\.\d+\.\d+(-[0-9A-Za-z]+(\.[0-9A-Za-z]+)*)?$`)

// digestForm is the form of the digest of an image.
var digestForm = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// release are the inputs.
type release struct {
	// root is the root of the repository, out the folder of the release.
	root, out string
	// version with v. repository and digest are those of the image.
	version, repository, digest string
	// date is the time of the sources.
	date time.Time
	// kubectl is the path of a kubectl, which contains kustomize.
	kubectl string
	// binaries are those of the image, which have the same modules.
	binaries []string
}

// number returns the version without v, as Helm and OLM write it.
func (r *release) number() string { return strings.TrimPrefix(r.version, "v") }

// image returns the reference of the image.
func (r *release) image() string {
	if r.digest == "" {
		return r.repository + ":" + r.version
	}
	return r.repository + ":" + r.version + "@" + r.digest
}

func main() {
	err := run(os.Args[1:])
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// run writes the files of the command line.
func run(args []string) error {
	r, err := parse(args)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	for _, step := range []struct {
		name  string
		write func(*release) error
	}{
		{"install.yaml", writeInstall}, {"chart", writeChart}, {"OLM bundle", writeBundle}, {"bill of materials", writeSBOM}, {"checksums", writeChecksums},
	} {
		if err := step.write(r); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	return nil
}

// parse parses and checks the command line.
func parse(args []string) (*release, error) {
	r := &release{}
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	flags.StringVar(&r.root, "root", ".", "root of the repository")
	flags.StringVar(&r.out, "out", "dist", "folder of the release")
	flags.StringVar(&r.version, "version", "", "version of the release, such as v1.2.3")
	flags.StringVar(&r.repository, "image", "ghcr.io/quoin-dev/quoin", "repository of the image")
	flags.StringVar(&r.digest, "digest", "", "digest of the image; without it, manifests name the tag only")
	flags.StringVar(&r.kubectl, "kubectl", "kubectl", "kubectl, for kustomize")
	flags.Func("date", "time of the sources in RFC 3339", func(text string) (err error) {
		if text != "" {
			r.date, err = time.Parse(time.RFC3339, text)
		}
		return err
	})
	flags.Func("binary", "a binary of the image; once for each architecture", func(path string) error {
		r.binaries = append(r.binaries, path)
		return nil
	})
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	r.date = r.date.UTC()
	switch {
	case flags.NArg() > 0:
		return nil, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case !semantic.MatchString(r.version):
		return nil, fmt.Errorf("--version is %q, must be a version such as v1.2.3 or v1.2.3-rc.1", r.version)
	case r.digest != "" && !digestForm.MatchString(r.digest):
		return nil, fmt.Errorf("--digest is %q, must be sha256: and 64 hexadecimal digits", r.digest)
	case len(r.binaries) == 0:
		return nil, errors.New("--binary is missing: the binaries of the image")
	}
	return r, nil
}
