package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// hostPackages are the Debian packages that a real node needs, each with a
// file that shows that it is there, whoever installed it.
var hostPackages = []struct{ name, program string }{
	{"containerd", "containerd"},
	{"runc", "runc"},
	{"containernetworking-plugins", cniPlugins + "/bridge"},
	{"iproute2", "ip"},
	{"iptables", "iptables"},
	{"conntrack", "conntrack"},
	{"ethtool", "ethtool"},
	{"socat", "socat"},
}

// missingPackages returns the packages whose program is not on this machine.
func missingPackages() []string {
	var missing []string
	for _, p := range hostPackages {
		if findProgram(p.program) == "" {
			missing = append(missing, p.name)
		}
	}
	return missing
}

// findProgram looks in PATH and in the folders of system programs, which are
// not always in it.
func findProgram(program string) string {
	candidates := []string{program}
	if !filepath.IsAbs(program) {
		if path, err := exec.LookPath(program); err == nil {
			return path
		}
		candidates = []string{"/usr/sbin/" + program, "/sbin/" + program}
	}
	for _, candidate := range candidates {
		if info, err := os.Stat(candidate); err == nil && info.Mode()&0o111 != 0 {
			return candidate
		}
	}
	return ""
}

// ensurePackages makes sure that the packages are there; it installs only when
// asked to.
func ensurePackages(ctx context.Context, install bool) error {
	missing := missingPackages()
	if len(missing) == 0 {
		return nil
	}
	aptGet := "apt-get install -y --no-install-recommends " + strings.Join(missing, " ")
	if !install {
		return fmt.Errorf("a real node needs packages that are missing here; run\n  apt-get update && %s\nor start again with --install-packages", aptGet)
	}
	if findProgram("apt-get") == "" {
		return fmt.Errorf("--install-packages needs apt-get; install by hand: %s", strings.Join(missing, " "))
	}
	return step("installing "+strings.Join(missing, " "), func() error {
		return installPackages(ctx, missing)
	})
}

// installPackages runs apt-get. The package containerd starts a service of its
// own, which the node does not use: one that was not there before is switched
// off again.
func installPackages(ctx context.Context, packages []string) error {
	hadService := serviceActive(ctx, "containerd")
	for _, args := range [][]string{
		{"update"},
		append([]string{"install", "-y", "--no-install-recommends"}, packages...),
	} {
		cmd := exec.CommandContext(ctx, "apt-get", args...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		if output, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("apt-get %s: %w\n%s", args[0], err, lastLines(string(output), 20))
		}
	}
	if missing := missingPackages(); len(missing) > 0 {
		return errors.New("still missing after apt-get: " + strings.Join(missing, " "))
	}
	if !hadService && serviceActive(ctx, "containerd") {
		return runHost(ctx, "systemctl", "disable", "--now", "containerd")
	}
	return nil
}

// serviceActive asks systemd, where it runs.
func serviceActive(ctx context.Context, service string) bool {
	if _, err := os.Stat("/run/systemd/system"); err != nil {
		return false
	}
	return exec.CommandContext(ctx, "systemctl", "is-active", "--quiet", service).Run() == nil
}

// runHost runs a program of this machine and reports what it said when it fails.
func runHost(ctx context.Context, program string, args ...string) error {
	path := findProgram(program)
	if path == "" {
		return fmt.Errorf("%s is not installed", program)
	}
	if output, err := exec.CommandContext(ctx, path, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", program, strings.Join(args, " "), err, lastLines(string(output), 5))
	}
	return nil
}
