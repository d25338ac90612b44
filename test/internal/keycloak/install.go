package keycloak

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

const (
	// Version is the tested version, on Java 17 or later.
	Version = "26.4.7"
	// checksum is the SHA-256 of the archive of the version.
	checksum = "aca60ab72ae4d67adc6b8fe7fca5e08d16a6bb5e4a4f2ebb54050e3f5503fd2b"
	// plugin is the goal that downloads the archive.
	plugin = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"
	// installTimeout is the timeout for downloading 158 MB and preparing the server.
	installTimeout = 15 * time.Minute
)

// database is an option of the server that is set when it is built.
const database = "--db=dev-mem"

// install returns the folder of the server, after installing it unless it is: once for all runs on the machine.
func install() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	cache = filepath.Join(cache, "quoin-test", "keycloak")
	final := filepath.Join(cache, Version+"-"+checksum[:12])
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	unlock, err := lock(filepath.Join(cache, "lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(final); err == nil {
		return final, nil
	}
	// Under the lock, this can only be left over from a killed process.
	work := filepath.Join(cache, "partial")
	if err := os.RemoveAll(work); err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(work) }()
	ctx, cancel := context.WithTimeout(context.Background(), installTimeout)
	defer cancel()
	server := filepath.Join(work, "server")
	if err := os.MkdirAll(server, 0o755); err != nil {
		return "", err
	}
	if err := run(ctx, "mvn", "--batch-mode", "--quiet", plugin, "-Dartifact=org.keycloak:keycloak-quarkus-dist:"+Version+":tar.gz", "-DoutputDirectory="+work); err != nil {
		return "", err
	}
	archive := filepath.Join(work, "keycloak-quarkus-dist-"+Version+".tar.gz")
	if err := verify(archive); err != nil {
		return "", err
	}
	if err := run(ctx, "tar", "-xzf", archive, "--strip-components=1", "-C", server); err != nil {
		return "", err
	}
	if err := run(ctx, filepath.Join(server, "bin", "kc.sh"), "build", database); err != nil {
		return "", err
	}
	return final, os.Rename(server, final)
}

// verify checks the checksum of the archive.
func verify(archive string) error {
	file, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	hash := sha256.New()
	if _, err := io.Copy(hash, file); err != nil {
		return err
	}
	if got := hex.EncodeToString(hash.Sum(nil)); got != checksum {
		return fmt.Errorf("%s has the SHA-256 %s, not %s", filepath.Base(archive), got, checksum)
	}
	return nil
}

func run(ctx context.Context, program string, args ...string) error {
	if out, err := exec.CommandContext(ctx, program, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", filepath.Base(program), err, out)
	}
	return nil
}

// lock waits for the lock of a file.
func lock(path string) (unlock func(), err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
		_ = file.Close()
		return nil, err
	}
	return func() { _ = file.Close() }, nil
}
