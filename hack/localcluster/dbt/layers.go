package dbt

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/quoin-dev/quoin/hack/localcluster/image"
	"github.com/quoin-dev/quoin/hack/localcluster/process"
)

// Debian's Python, which is not always the first one in PATH.
const python = "/usr/bin/python3"

// packagesFolder is a folder of packages in the search path of Debian's Python,
// below the root of the image.
const packagesFolder = "usr/lib/python3/dist-packages"

// dbtProgram is the program dbt. That of pip names Python's path on the machine
// of the build.
const dbtProgram = `#!/usr/bin/python3
import sys

from dbt.cli.main import cli

sys.exit(cli())
`

// certificates is Debian's bundle, which git uses.
const certificates = "/etc/ssl/certs/ca-certificates.crt"

// build installs the packages in the folder work, and writes the layers.
func build(ctx context.Context, source, work, target string) error {
	system, packages := filepath.Join(work, layerSystem), filepath.Join(work, layerPackages)
	standard, err := standardLibrary(ctx)
	if err != nil {
		return err
	}
	if err := copyModules(standard, filepath.Join(system, standard)); err != nil {
		return err
	}
	// Not compiled by pip: its files have the time of the build.
	err = runPython(ctx, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input", "--root-user-action=ignore",
		"--no-deps", "--require-hashes", "--only-binary=:all:", "--no-compile",
		"--requirement", filepath.Join(source, requirements), "--target", filepath.Join(packages, packagesFolder))
	if err != nil {
		return err
	}
	if err := os.RemoveAll(filepath.Join(packages, packagesFolder, "bin")); err != nil {
		return err
	}
	for _, root := range []string{system, packages} {
		if err := compile(ctx, root); err != nil {
			return err
		}
	}
	extensions, err := extensionsIn(system, packages)
	if err != nil {
		return err
	}
	err = image.WriteLayer(layerPath(target, layerSystem), func(w *image.LayerWriter) error {
		return errors.Join(addSystem(w, extensions), w.Tree(system))
	})
	if err != nil {
		return err
	}
	return image.WriteLayer(layerPath(target, layerPackages), func(w *image.LayerWriter) error {
		return errors.Join(w.Program("usr/bin/dbt", dbtProgram), w.Tree(packages))
	})
}

// runPython runs Debian's Python without the user's packages.
func runPython(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, python, args...)
	cmd.Env = append(os.Environ(), "PYTHONNOUSERSITE=1", "PYTHONHASHSEED=0")
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", python, strings.Join(args[:3], " "), err, process.LastLines(string(output), 20))
	}
	return nil
}

// standardLibrary returns the folder of Python's standard library.
func standardLibrary(ctx context.Context) (string, error) {
	output, err := exec.CommandContext(ctx, python, "-c", `import sysconfig; print(sysconfig.get_path("stdlib"))`).Output()
	if err != nil {
		return "", fmt.Errorf("find Python's standard library: %w", err)
	}
	return strings.TrimSpace(string(output)), nil
}

// omitted are the names of folders of the standard library that dbt does not
// use: tests, graphical programs, and files for compiling extensions.
var omitted = []string{"__pycache__", "ensurepip", "idlelib", "lib2to3", "pydoc_data", "test", "tkinter", "turtledemo"}

// copyModules copies a folder of the standard library, with the files that
// symbolic links refer to.
func copyModules(source, target string) error {
	return filepath.WalkDir(source, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if slices.Contains(omitted, entry.Name()) || strings.HasPrefix(entry.Name(), "config-") {
				return fs.SkipDir
			}
			return nil
		}
		info, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) || err == nil && !info.Mode().IsRegular() {
			return nil
		}
		name, err := filepath.Rel(source, path)
		if err != nil {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		copied := filepath.Join(target, name)
		return errors.Join(os.MkdirAll(filepath.Dir(copied), 0o755), os.WriteFile(copied, content, 0o644))
	})
}

// compile compiles the modules below a root of the image. Python uses the
// compiled files without a look at the time of the source, which is constant in
// images.
func compile(ctx context.Context, root string) error {
	err := runPython(ctx, "-m", "compileall", "-qq", "-j", "0", "--invalidation-mode", "unchecked-hash", "-s", root, "-p", "/", root)
	var failed *exec.ExitError
	if errors.As(err, &failed) && failed.ExitCode() == 1 {
		return nil // packages have files for other versions of Python
	}
	return err
}

// extensionsIn returns the shared libraries below folders: compiled modules,
// and libraries of their own.
func extensionsIn(folders ...string) ([]string, error) {
	var found []string
	for _, folder := range folders {
		err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.Type().IsRegular() && (strings.HasSuffix(path, ".so") || strings.Contains(entry.Name(), ".so.")) {
				found = append(found, path)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}

// programs are the programs of this machine in the image, by their paths in it.
// The images that dbt syncs run need a shell, and packages in Git repositories
// need git.
var programs = []struct{ name, path string }{
	{"usr/bin/python3", python},
	{"usr/bin/sh", "/bin/sh"},
	{"bin/sh", "/bin/sh"},
	{"usr/bin/git", "/usr/bin/git"},
	{"usr/lib/git-core/git-remote-http", "/usr/lib/git-core/git-remote-http"},
	{"usr/lib/git-core/git-remote-https", "/usr/lib/git-core/git-remote-http"},
}

// addSystem adds the programs, the shared libraries that they and the
// extensions need, the user and /tmp.
func addSystem(w *image.LayerWriter, extensions []string) error {
	dependents := slices.Clone(extensions)
	for _, program := range programs {
		dependents = append(dependents, program.path)
	}
	libraries, err := image.SharedLibraries(dependents...)
	if err != nil {
		return err
	}
	if err := w.Folder("tmp", 0o1777); err != nil {
		return err
	}
	for _, file := range []struct{ name, text string }{
		{"etc/passwd", "root:x:0:0:root:/root:/sbin/nologin\ndbt:x:1000:1000:dbt:/tmp:/sbin/nologin\n"},
		{"etc/group", "root:x:0:\ndbt:x:1000:\n"},
		{"etc/nsswitch.conf", "hosts: files dns\n"},
	} {
		if err := w.Text(file.name, file.text); err != nil {
			return err
		}
	}
	for _, library := range libraries {
		if err := w.Copy(strings.TrimPrefix(library, "/"), library); err != nil {
			return err
		}
	}
	for _, program := range programs {
		if err := w.Copy(program.name, program.path); err != nil {
			return err
		}
	}
	return w.Copy(strings.TrimPrefix(certificates, "/"), certificates)
}
