// Package binaries builds the pinned binaries of a cluster into a cache.
package binaries

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/quoin-dev/quoin/hack/localcluster/process"
	"github.com/quoin-dev/quoin/hack/localcluster/progress"
)

// Build builds the missing binaries for a cluster with such nodes into the
// cache, and returns their folder.
func Build(ctx context.Context, nodes string) (string, error) {
	pins, err := pinsFor(nodes)
	if err != nil {
		return "", err
	}
	source, err := SourceDirectory()
	if err != nil {
		return "", err
	}
	cache, err := pinnedCache(ctx, source)
	if err != nil {
		return "", err
	}
	bin := filepath.Join(cache, "bin")
	if len(missingPins(bin, pins)) == 0 {
		return bin, nil
	}
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return "", err
	}
	unlock, err := process.Lock(ctx, filepath.Join(cache, "lock"), "another localcluster is building the binaries: waiting for it")
	if err != nil {
		return "", err
	}
	defer unlock()
	// Checked again under the lock: another process may have built them.
	for _, p := range missingPins(bin, pins) {
		if err := buildPin(ctx, source, bin, p); err != nil {
			return "", err
		}
	}
	return bin, nil
}

// CacheDirectory returns the folder of files that outlive a cluster.
func CacheDirectory() (string, error) {
	for _, variable := range []string{"QUOIN_CACHE", "XDG_CACHE_HOME"} {
		if folder := os.Getenv(variable); folder != "" {
			folder, err := filepath.Abs(folder)
			return filepath.Join(folder, "quoin"), err
		}
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("find the cache folder (set QUOIN_CACHE to choose one): %w", err)
	}
	return filepath.Join(home, ".cache", "quoin"), nil
}

// pinnedCache returns the folder of the cache for the current pins.
func pinnedCache(ctx context.Context, source string) (string, error) {
	cache, err := CacheDirectory()
	if err != nil {
		return "", err
	}
	goVersion, err := exec.CommandContext(ctx, "go", "env", "GOVERSION").Output()
	if err != nil {
		return "", fmt.Errorf("get the version of go: %w", err)
	}
	hash, err := pinHash(source, strings.TrimSpace(string(goVersion)))
	if err != nil {
		return "", err
	}
	return filepath.Join(cache, hash), nil
}

func missingPins(bin string, pins []pin) []pin {
	var missing []pin
	for _, p := range pins {
		if _, err := os.Stat(filepath.Join(bin, p.binary)); errors.Is(err, os.ErrNotExist) {
			missing = append(missing, p)
		}
	}
	return missing
}

// buildPin builds a binary. It renames the complete file to its final name.
func buildPin(ctx context.Context, source, bin string, p pin) error {
	version, err := p.version(source)
	if err != nil {
		return err
	}
	return progress.Step(fmt.Sprintf("building %s %s (about %s cold)", p.binary, version, p.cold), func() error {
		target := filepath.Join(bin, p.binary)
		partial := fmt.Sprintf("%s.partial-%d", target, os.Getpid())
		defer os.Remove(partial)
		err := GoBuild(ctx, GoBuildOptions{
			Folder:    filepath.Join(source, p.folder),
			GoPackage: p.goPackage,
			Output:    partial,
			Flags:     []string{"-mod=readonly", "-ldflags", p.linkerFlags(version)},
			Goos:      runtime.GOOS,
		})
		if err != nil {
			return err
		}
		return os.Rename(partial, target)
	})
}

// GoBuildOptions are the options of GoBuild.
type GoBuildOptions struct {
	Folder    string // the main module's folder
	GoPackage string
	Output    string
	Flags     []string
	Goos      string
}

// GoBuild builds a static binary. GOWORK is off, so that a workspace file above
// the repository does not affect the build.
func GoBuild(ctx context.Context, o GoBuildOptions) error {
	args := append([]string{"build", "-buildvcs=false"}, o.Flags...)
	args = append(args, "-o", o.Output, o.GoPackage)
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = o.Folder
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOOS="+o.Goos, "GOARCH="+runtime.GOARCH)
	output, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("go build %s: %w\n%s", o.GoPackage, err, process.LastLines(string(output), 30))
	}
	return nil
}
