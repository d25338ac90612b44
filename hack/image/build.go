package main

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// The layout of the image, as in the Dockerfile.
const (
	binaryPath       = "usr/local/bin/quoin"
	certificatesPath = "etc/ssl/certs/ca-certificates.crt"
	userAndGroup     = "65532:65532"
	userID           = 65532
)

// passwd and group name the user as the distroless images do; some libraries look it up.
const (
	passwd = "root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin\n"
	group  = "root:x:0:\nnonroot:x:65532:\n"
)

// inputs are the inputs of an image.
type inputs struct {
	binary       string
	certificates string
	version      string
	revision     string
	// created is the time of the sources; zero for none.
	created time.Time
}

// build returns the image: a layer that rarely changes, and the layer of the binary.
func build(in inputs) (v1.Image, error) {
	architecture, err := architectureOf(in.binary)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", in.binary, err)
	}
	base, err := baseFiles(in.certificates)
	if err != nil {
		return nil, err
	}
	binary, err := os.ReadFile(in.binary)
	if err != nil {
		return nil, err
	}
	image := mutate.MediaType(empty.Image, types.OCIManifestSchema1)
	image = mutate.ConfigMediaType(image, types.OCIConfigJSON)
	for _, files := range [][]file{base, {
		{path: "usr/", mode: 0o755},
		{path: "usr/local/", mode: 0o755},
		{path: "usr/local/bin/", mode: 0o755},
		{path: binaryPath, mode: 0o755, content: binary},
	}} {
		if image, err = appendLayer(image, files); err != nil {
			return nil, err
		}
	}
	return mutate.ConfigFile(image, in.config(image, architecture))
}

// labels returns the labels of images, which are also the annotations of an index.
func (in inputs) labels() map[string]string {
	labels := map[string]string{}
	created := ""
	if !in.created.IsZero() {
		created = in.created.UTC().Format(time.RFC3339)
	}
	for label, value := range map[string]string{
		"title":       "Quoin",
		"description": "Control plane for analytics deployments on Kubernetes",
		"source":      "https://github.com/quoin-dev/quoin",
		"licenses":    "Apache-2.0",
		"version":     in.version,
		"revision":    in.revision,
		"created":     created,
	} {
		if value != "" {
			labels["org.opencontainers.image."+label] = value
		}
	}
	return labels
}

// config returns the configuration of the image. Its only time is that of the sources: the same inputs
// give the same digest.
func (in inputs) config(image v1.Image, architecture string) *v1.ConfigFile {
	// An image in memory always has a configuration.
	built, _ := image.ConfigFile()
	config := built.DeepCopy()
	config.OS = "linux"
	config.Architecture = architecture
	config.Config = v1.Config{
		User:       userAndGroup,
		WorkingDir: "/",
		Env: []string{
			"PATH=/usr/local/bin",
			"SSL_CERT_FILE=/" + certificatesPath,
		},
		Entrypoint: []string{"/" + binaryPath},
		Labels:     in.labels(),
	}
	if !in.created.IsZero() {
		config.Created = v1.Time{Time: in.created.UTC()}
	}
	return config
}

// architectures maps ELF machines to Go architectures.
var architectures = map[elf.Machine]string{
	elf.EM_X86_64:  "amd64",
	elf.EM_AARCH64: "arm64",
	elf.EM_PPC64:   "ppc64le",
	elf.EM_S390:    "s390x",
}

// architectureOf returns the architecture of a binary. It returns an error for a dynamically linked
// binary: the image has no loader.
func architectureOf(path string) (string, error) {
	binary, err := elf.Open(path)
	if err != nil {
		return "", fmt.Errorf("not a binary for Linux: %w", err)
	}
	defer binary.Close()
	for _, program := range binary.Progs {
		if program.Type == elf.PT_INTERP {
			return "", errors.New("linked dynamically: build it with CGO_ENABLED=0")
		}
	}
	architecture, known := architectures[binary.Machine]
	if !known {
		return "", fmt.Errorf("unknown architecture %s", binary.Machine)
	}
	return architecture, nil
}

// file is a file in a layer, or a folder if the path ends with a slash.
type file struct {
	path    string
	mode    int64
	owner   int
	content []byte
}

// baseFiles returns the files that a static binary needs.
func baseFiles(certificates string) ([]file, error) {
	files := []file{
		{path: "etc/", mode: 0o755},
		{path: "etc/passwd", mode: 0o644, content: []byte(passwd)},
		{path: "etc/group", mode: 0o644, content: []byte(group)},
		{path: "home/", mode: 0o755},
		{path: "home/nonroot/", mode: 0o700, owner: userID},
		{path: "tmp/", mode: 0o1777},
	}
	bundle, err := os.ReadFile(certificates)
	if errors.Is(err, fs.ErrNotExist) {
		fmt.Fprintf(os.Stderr, "image: no %s: the image trusts no CA\n", certificates)
		return files, nil
	}
	if err != nil {
		return nil, err
	}
	return append(files,
		file{path: "etc/ssl/", mode: 0o755},
		file{path: "etc/ssl/certs/", mode: 0o755},
		file{path: certificatesPath, mode: 0o644, content: bundle},
	), nil
}

// appendLayer appends a layer with the files.
func appendLayer(image v1.Image, files []file) (v1.Image, error) {
	content, err := archive(files)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(content)), nil
	}, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	return mutate.Append(image, mutate.Addendum{Layer: layer, History: v1.History{CreatedBy: "hack/image"}})
}

// archive returns a tar archive of the files, without timestamps.
func archive(files []file) ([]byte, error) {
	var out bytes.Buffer
	writer := tar.NewWriter(&out)
	for _, f := range files {
		header := &tar.Header{
			Typeflag: tar.TypeReg,
			Name:     f.path,
			Mode:     f.mode,
			Uid:      f.owner,
			Gid:      f.owner,
			Size:     int64(len(f.content)),
			ModTime:  time.Unix(0, 0),
			Format:   tar.FormatUSTAR,
		}
		if f.path[len(f.path)-1] == '/' {
			header.Typeflag = tar.TypeDir
		}
		if err := writer.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := writer.Write(f.content); err != nil {
			return nil, err
		}
	}
	if err := writer.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
