package cubejs

import (
	"bufio"
	"context"
	_ "embed"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quoin-dev/quoin/test/internal/npm"
)

//go:embed devserver.js
var devServer string

// DevServer is a running development server in a project.
type DevServer struct {
	*Client
	// URL is its address.
	URL string
}

// StartDevServer starts a development server in an empty project, until the end of the test. The other
// arguments are those of New.
func StartDevServer(t testing.TB, host, address string, ca []byte) *DevServer {
	t.Helper()
	c := newProject(t, host, address, ca)
	c.Write(t, "../devserver.js", devServer)
	c.Write(t, ".env", "")
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	cmd := exec.CommandContext(ctx, "node", filepath.Join(c.Folder, "..", "devserver.js"))
	cmd.Dir, cmd.Stderr = c.Folder, os.Stderr
	cmd.Env = append(append(os.Environ(), c.Env...), "QUOIN_TEST_MODULES="+npm.Install(t, ServerPackage)+"/")
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait() // it was killed
	})
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if port, found := strings.CutPrefix(lines.Text(), "port "); found {
			go func() {
				for lines.Scan() { // so that it does not wait for a reader
				}
			}()
			return &DevServer{c, "http://127.0.0.1:" + port}
		}
	}
	t.Fatal("the development server has ended without a port")
	return nil
}
