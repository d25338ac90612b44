// Package npm installs npm packages for tests, once for all runs on a machine.
package npm

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// installTimeout limits an installation.
const installTimeout = 10 * time.Minute

// Require skips a test on a machine without Node.js or npm. With CI set it fails.
func Require(t testing.TB) {
	t.Helper()
	for _, program := range []string{"node", "npm"} {
		if _, err := exec.LookPath(program); err == nil {
			continue
		}
		if os.Getenv("CI") != "" {
			t.Fatalf("with CI set the tests of npm packages must run: %s is not installed", program)
		}
		t.Skipf("SKIPPED LOUDLY: %s is not installed", program)
	}
}

// Install returns the folder node_modules with a package such as name@1.2.3, after installing it unless it is.
func Install(t testing.TB, name string) (modules string) {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(cache, "quoin-test", strings.NewReplacer("@", "-", "/", "-").Replace(name))
	modules, complete := filepath.Join(folder, "node_modules"), filepath.Join(folder, "complete")
	if _, err := os.Stat(complete); err == nil {
		return modules
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), installTimeout)
	defer cancel()
	npm := exec.CommandContext(ctx, "npm", "install", "--prefix", folder, "--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts", "--loglevel=error", name)
	npm.Dir = folder
	if out, err := npm.CombinedOutput(); err != nil {
		t.Fatalf("npm install: %v: %s", err, out)
	}
	if err := os.WriteFile(complete, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return modules
}
