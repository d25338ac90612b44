package dataplane

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/quoin-dev/quoin/hack/localcluster/image"
)

// lockedPackages parses a package-lock.json. It returns the hashes of the
// packages by their folders, relative to the file's folder.
func lockedPackages(file string) (map[string]string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var lock struct {
		Packages map[string]struct{ Integrity string }
	}
	if err := json.Unmarshal(text, &lock); err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	packages := map[string]string{}
	for folder, entry := range lock.Packages {
		if folder != "" { // the project itself
			packages[folder] = entry.Integrity
		}
	}
	return packages, nil
}

// sharedPackages returns the folders that contain the same package in every
// version.
func sharedPackages(locked []map[string]string) map[string]bool {
	shared := map[string]bool{}
	for folder, integrity := range locked[0] {
		isShared := integrity != ""
		for _, other := range locked[1:] {
			isShared = isShared && other[folder] == integrity
		}
		shared[folder] = isShared
	}
	return shared
}

// packageOf returns the folder of a file's package: its nearest parent folder
// in the lock file.
func packageOf(packages map[string]string, file string) string {
	for folder := file; folder != "."; folder = filepath.ToSlash(filepath.Dir(folder)) {
		if _, ok := packages[folder]; ok {
			return folder
		}
	}
	return ""
}

// writeModules writes the layer of the packages that all versions share, and
// for each version the layer of the others.
func writeModules(work, layers string) error {
	locked := make([]map[string]string, len(Versions))
	for i, version := range Versions {
		var err error
		if locked[i], err = lockedPackages(filepath.Join(work, "v"+version, "package-lock.json")); err != nil {
			return err
		}
	}
	shared := sharedPackages(locked)
	for i, version := range Versions {
		installed := filepath.Join(work, "v"+version)
		write := func(name string, isShared bool) error {
			return image.WriteLayer(layerPath(layers, name), func(w *image.LayerWriter) error {
				return addModules(w, installed, func(file string) bool {
					return shared[packageOf(locked[i], file)] == isShared
				})
			})
		}
		if i == 0 {
			if err := write(layerModules, true); err != nil {
				return err
			}
		}
		if err := write(version, false); err != nil {
			return err
		}
	}
	return nil
}

// addModules adds the files of node_modules that include accepts, by their path
// below the folder of the installation. It omits files that only editors and
// debuggers read, 40 % of the size.
func addModules(w *image.LayerWriter, installed string, include func(file string) bool) error {
	return filepath.WalkDir(filepath.Join(installed, "node_modules"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && entry.Name() == ".bin" {
			return fs.SkipDir
		}
		file, err := filepath.Rel(installed, path)
		if err != nil {
			return err
		}
		file = filepath.ToSlash(file)
		if !entry.Type().IsRegular() || file == "node_modules/.package-lock.json" || isForEditors(file) || !include(file) {
			return nil
		}
		return w.Copy("cube/"+file, path)
	})
}

func isForEditors(file string) bool {
	return strings.HasSuffix(file, ".map") || strings.HasSuffix(file, ".d.ts")
}
