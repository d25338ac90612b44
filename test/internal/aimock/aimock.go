// Package aimock runs the npm package @copilotkit/aimock: a server that speaks the protocols of OpenAI and Anthropic, and answers with
// fixtures.
package aimock

import (
	"bufio"
	"encoding/json"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quoin-dev/quoin/test/internal/npm"
)

// Package is the tested version of the npm package.
const Package = "@copilotkit/aimock@1.43.0"

// startTimeout limits the time until the server listens.
const startTimeout = time.Minute

// Server is a server that runs.
type Server struct{ URL string }

// Start starts a server with a file of fixtures. It ends with the test.
func Start(t testing.TB, fixtures string) *Server {
	t.Helper()
	npm.Require(t)
	cli := filepath.Join(npm.Install(t, Package), "@copilotkit", "aimock", "dist", "cli.js")
	server := exec.Command("node", cli, "--port", "0", "--fixtures", fixtures, "--validate-on-load", "--strict")
	out, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	server.Stderr = server.Stdout
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	})
	url, log := make(chan string, 1), &strings.Builder{}
	go func() {
		defer close(url)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if _, address, ok := strings.Cut(lines.Text(), "listening on "); ok {
				url <- address
			}
			log.WriteString(lines.Text() + "\n")
		}
	}()
	select {
	case address, ok := <-url:
		if !ok {
			t.Fatalf("aimock has ended:\n%s", log)
		}
		return &Server{address}
	case <-time.After(startTimeout):
		t.Fatalf("aimock does not listen after %s", startTimeout)
	}
	return nil
}

// Request is a request that the server has received.
type Request struct {
	Path string         `json:"path"`
	Body map[string]any `json:"body"`
}

// Requests returns all requests, the first one first.
func (s *Server) Requests(t testing.TB) []Request {
	t.Helper()
	response, err := http.Get(s.URL + "/__aimock/journal")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var out []Request
	if err := json.NewDecoder(response.Body).Decode(&out); err != nil {
		t.Fatal(err)
	}
	return out
}
