// Package cubejs runs npm packages of Cube, unmodified: cubejs-cli, and the development server of
// @cubejs-backend/server-core.
package cubejs

import (
	"context"
	_ "embed"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quoin-dev/quoin/test/internal/npm"
)

// Package is the tested version of the npm package.
const Package = "cubejs-cli@1.6.43"

// ServerPackage is the tested version of the development server.
const ServerPackage = "@cubejs-backend/server-core@1.7.43"

// redirect makes Node.js connect to the server of the test for its host: it stands for DNS.
//
//go:embed redirect.js
var redirect string

// Client is an installation of the package with a project.
type Client struct {
	// Folder has the files of the project. The folder above it has those of the client.
	Folder string
	// Program is the client.
	Program string
	// Env are its environment variables, in addition to those of the process.
	Env []string
}

// New returns a client of a server, which has a certificate of a CA for host and listens on address. The package is
// installed once for all runs on the machine.
func New(t testing.TB, host, address string, ca []byte) *Client {
	t.Helper()
	c := newProject(t, host, address, ca)
	c.Program = filepath.Join(npm.Install(t, Package), ".bin", "cubejs")
	c.Env = append(c.Env, "CUBE_CLOUD_HOST=https://"+host)
	// The program requires it in the project.
	c.Write(t, "node_modules/@cubejs-backend/server-core/package.json", "{}")
	return c
}

// newProject returns a client without a program.
func newProject(t testing.TB, host, address string, ca []byte) *Client {
	t.Helper()
	npm.Require(t)
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	above := t.TempDir()
	c := &Client{Folder: filepath.Join(above, "shop")}
	c.Write(t, "../redirect.js", redirect)
	c.Write(t, "../ca.crt", string(ca))
	c.Write(t, "../home/.keep", "")
	name, _, _ := strings.Cut(host, ":")
	c.Env = []string{
		"HOME=" + filepath.Join(above, "home"), "CI=1", "CUBEJS_TELEMETRY=false", "NODE_EXTRA_CA_CERTS=" + filepath.Join(above, "ca.crt"),
		"NODE_OPTIONS=--require " + filepath.Join(above, "redirect.js"), "QUOIN_TEST_HOST=" + name, "QUOIN_TEST_PORT=" + port,
	}
	return c
}

// Write writes a file of the project.
func (c *Client) Write(t testing.TB, name, text string) {
	t.Helper()
	path := filepath.Join(c.Folder, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Remove deletes a file of the project.
func (c *Client) Remove(t testing.TB, name string) {
	t.Helper()
	if err := os.Remove(filepath.Join(c.Folder, name)); err != nil {
		t.Fatal(err)
	}
}

// Run runs the program in the project and returns its output.
func (c *Client) Run(args ...string) (output string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.Program, args...)
	cmd.Dir, cmd.Env = c.Folder, append(os.Environ(), c.Env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// MustRun is Run, which fails the test on errors.
func (c *Client) MustRun(t testing.TB, args ...string) {
	t.Helper()
	if out, err := c.Run(args...); err != nil {
		t.Fatalf("%s: %v:\n%s", args[0], err, out)
	}
}
