package main

import (
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime/debug"
	"strings"
	"time"

	"github.com/CycloneDX/cyclonedx-go"
	"github.com/google/uuid"
)

// writeSBOM writes the software bill of materials in the format of CycloneDX: the modules that the build
// information of the binaries lists, with their checksums, and the standard library.
func writeSBOM(r *release) (err error) {
	var info *debug.BuildInfo
	for _, path := range r.binaries {
		other, err := buildinfo.ReadFile(path)
		if err != nil {
			return err
		}
		if info != nil && !reflect.DeepEqual(info.Deps, other.Deps) {
			return fmt.Errorf("%s has other modules than %s", path, r.binaries[0])
		}
		info = other
	}
	bom, err := r.bom(info)
	if err != nil {
		return err
	}
	file, err := os.Create(filepath.Join(r.out, "quoin.cdx.json"))
	if err != nil {
		return err
	}
	defer func() {
		if closed := file.Close(); err == nil {
			err = closed
		}
	}()
	return cyclonedx.NewBOMEncoder(file, cyclonedx.BOMFileFormatJSON).SetPretty(true).Encode(bom)
}

// bom returns the bill of materials for the build information of a binary.
func (r *release) bom(info *debug.BuildInfo) (*cyclonedx.BOM, error) {
	std := strings.TrimPrefix(strings.Fields(info.GoVersion)[0], "go")
	components := []cyclonedx.Component{*library("std", std)}
	for _, module := range info.Deps {
		if module.Replace != nil {
			module = module.Replace
		}
		component := library(module.Path, module.Version)
		sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(module.Sum, "h1:"))
		if err != nil {
			return nil, fmt.Errorf("checksum of %s: %w", module.Path, err)
		}
		if len(sum) > 0 {
			component.Hashes = &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: hex.EncodeToString(sum)}}
		}
		components = append(components, *component)
	}
	product := library(info.Main.Path, r.version)
	product.Type = cyclonedx.ComponentTypeApplication
	product.Name = "quoin"
	product.Licenses = &cyclonedx.Licenses{{License: &cyclonedx.License{ID: "Apache-2.0"}}}
	bom := cyclonedx.NewBOM()
	// Derived from the inputs, so that the same inputs give the same file.
	bom.SerialNumber = uuid.NewSHA1(uuid.NameSpaceURL, []byte(product.PackageURL+r.digest)).URN()
	bom.Metadata = &cyclonedx.Metadata{Timestamp: r.date.Format(time.RFC3339), Component: product}
	bom.Components = &components
	return bom, nil
}

// library returns the component of a Go module.
func library(path, version string) *cyclonedx.Component {
	url := "pkg:golang/" + path + "@" + version
	return &cyclonedx.Component{Type: cyclonedx.ComponentTypeLibrary, BOMRef: url, Name: path, Version: version, PackageURL: url}
}
