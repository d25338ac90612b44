// Package host finds, installs and runs programs of this machine.
package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/quoin-dev/quoin/hack/localcluster/process"
	"github.com/quoin-dev/quoin/hack/localcluster/progress"
)

// CNIPlugins is the folder of Debian's CNI plugins.
const CNIPlugins = "/usr/lib/cni"

// Package is a Debian package with one of its programs, whose presence shows
// that it is installed.
type Package struct{ name, program string }

// NodePackages are the packages of a real node.
var NodePackages = []Package{
	{"containerd", "containerd"},
	{"runc", "runc"},
	{"containernetworking-plugins", CNIPlugins + "/bridge"},
	{"iproute2", "ip"},
	{"iptables", "iptables"},
	{"conntrack", "conntrack"},
	{"ethtool", "ethtool"},
	{"socat", "socat"},
}

// NPMPackages are the packages for building images of the real server.
var NPMPackages = []Package{{"npm", "npm"}}

// DbtPackages are the packages for building the image with dbt, which contains
// some of their files.
var DbtPackages = []Package{
	{"python3", "/usr/bin/python3"},
	{"python3-pip", "/usr/bin/pip3"},
	{"git", "/usr/bin/git"},
	{"ca-certificates", "/usr/sbin/update-ca-certificates"},
}

// PythonPackages are the packages for installing packages of PyPI.
var PythonPackages = []Package{{"python3", "python3"}, {"python3-pip", "pip3"}}

// WarehousePackages are the packages of the warehouse.
var WarehousePackages = []Package{{"postgresql", "postgres"}}

// MissingPackages returns the packages whose program is not installed.
func MissingPackages(packages []Package) []string {
	var missing []string
	for _, p := range packages {
		if FindProgram(p.program) == "" {
			missing = append(missing, p.name)
		}
	}
	return missing
}

// programFolders are folders of system programs that may not be in PATH.
// Debian's PostgreSQL has a folder for each version.
var programFolders = []string{"/usr/sbin", "/sbin", "/usr/lib/postgresql/*/bin"}

// FindProgram returns the path of a program in PATH or in programFolders, or
// "".
func FindProgram(program string) string {
	candidates := []string{program}
	if !filepath.IsAbs(program) {
		if path, err := exec.LookPath(program); err == nil {
			return path
		}
		candidates = nil
		for _, folder := range programFolders {
			paths, _ := filepath.Glob(filepath.Join(folder, program)) // Glob fails only for malformed patterns
			slices.Reverse(paths)                                     // newest first
			candidates = append(candidates, paths...)
		}
	}
	for _, candidate := range candidates {
		if info, err := os.Stat(candidate); err == nil && info.Mode()&0o111 != 0 {
			return candidate
		}
	}
	return ""
}

// EnsurePackages returns an error if packages are missing, unless install is
// set: then it installs them.
func EnsurePackages(ctx context.Context, packages []Package, install bool) error {
	missing := MissingPackages(packages)
	if len(missing) == 0 {
		return nil
	}
	aptGet := "apt-get install -y --no-install-recommends " + strings.Join(missing, " ")
	if !install {
		return fmt.Errorf("packages are missing; run\n  apt-get update && %s\nor use --install-packages", aptGet)
	}
	if FindProgram("apt-get") == "" {
		return fmt.Errorf("--install-packages needs apt-get; install manually: %s", strings.Join(missing, " "))
	}
	return progress.Step("installing "+strings.Join(missing, " "), func() error {
		return installPackages(ctx, packages)
	})
}

// packageServices are services that packages start and that are not used here.
var packageServices = []string{"containerd", "postgresql"}

// installPackages runs apt-get, then stops services that were not active
// before.
func installPackages(ctx context.Context, packages []Package) error {
	var unwanted []string
	for _, service := range packageServices {
		if !serviceActive(ctx, service) {
			unwanted = append(unwanted, service)
		}
	}
	for _, args := range [][]string{
		{"update"},
		append([]string{"install", "-y", "--no-install-recommends"}, MissingPackages(packages)...),
	} {
		cmd := exec.CommandContext(ctx, "apt-get", args...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		if output, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("apt-get %s: %w\n%s", args[0], err, process.LastLines(string(output), 20))
		}
	}
	if missing := MissingPackages(packages); len(missing) > 0 {
		return errors.New("still missing after apt-get: " + strings.Join(missing, " "))
	}
	for _, service := range unwanted {
		if err := stopService(ctx, service); err != nil {
			return err
		}
	}
	return nil
}

// serviceActive reports whether a service is active, from systemd or its init
// script.
func serviceActive(ctx context.Context, service string) bool {
	if hasSystemd() {
		return exec.CommandContext(ctx, "systemctl", "is-active", "--quiet", service).Run() == nil
	}
	return exec.CommandContext(ctx, "/etc/init.d/"+service, "status").Run() == nil
}

// stopService stops a service, and disables it if systemd manages it.
func stopService(ctx context.Context, service string) error {
	if !serviceActive(ctx, service) {
		return nil
	}
	if hasSystemd() {
		return Run(ctx, "systemctl", "disable", "--now", service)
	}
	return Run(ctx, "/etc/init.d/"+service, "stop")
}

func hasSystemd() bool {
	_, err := os.Stat("/run/systemd/system")
	return err == nil
}

// Run runs a program of this machine; its error includes the output.
func Run(ctx context.Context, program string, args ...string) error {
	path := FindProgram(program)
	if path == "" {
		return fmt.Errorf("%s is not installed", program)
	}
	if output, err := exec.CommandContext(ctx, path, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", program, strings.Join(args, " "), err, process.LastLines(string(output), 5))
	}
	return nil
}

// IsFolder reports whether path is an existing folder.
func IsFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
