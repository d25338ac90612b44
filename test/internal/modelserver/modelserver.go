// Package modelserver runs llama.cpp with a small model for tests, see hack/modelserver.
package modelserver

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

const (
	// installTimeout limits the installation of the packages.
	installTimeout = 10 * time.Minute
	// startTimeout limits the time until the server answers, which is asked every pollInterval.
	startTimeout, pollInterval = 2 * time.Minute, 100 * time.Millisecond
)

// Start starts a server with a context of some tokens, and returns its URL. It ends with the test.
func Start(t testing.TB, contextTokens int) (url string) {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil || runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		if os.Getenv("CI") != "" {
			t.Fatal("with CI set the tests of the real model must run: they need Python 3 on Linux on x86-64")
		}
		t.Skip("SKIPPED LOUDLY: the real model needs Python 3 on Linux on x86-64")
	}
	serve := program(t)
	ctx, cancel := context.WithTimeout(context.Background(), installTimeout)
	defer cancel()
	if out, err := exec.CommandContext(ctx, serve, "--install").CombinedOutput(); err != nil {
		t.Fatalf("%s --install: %v\n%s", serve, err, out)
	}
	log := &tail{}
	server := exec.Command(serve, "--port", "0", "--context", strconv.Itoa(contextTokens))
	server.Stderr = log
	out, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	})
	address := make(chan string, 1)
	go func() {
		defer close(address)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if found, ok := strings.CutPrefix(lines.Text(), "listening on "); ok {
				address <- found
				return
			}
		}
	}()
	timeout := time.After(startTimeout)
	select {
	case url = <-address:
	case <-timeout:
	}
	for url != "" && !answers(url) {
		select {
		case <-timeout:
			url = ""
		case <-time.After(pollInterval):
		}
	}
	if url == "" {
		t.Fatalf("the model server has ended, or does not answer after %s:\n%s", startTimeout, log)
	}
	return url
}

// answers reports whether the model has answered a request: under load, the server reports that it is healthy a little earlier.
func answers(url string) bool {
	response, err := http.Post(url+"/v1/chat/completions", "application/json", strings.NewReader(`{"messages":[{"role":"user","content":"Hello"}],"max_tokens":1}`))
	if err != nil {
		return false
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	return err == nil && response.StatusCode == http.StatusOK
}

// program returns the path of hack/modelserver/serve.
func program(t testing.TB) string {
	t.Helper()
	for folder, err := os.Getwd(); err == nil && folder != "/"; folder = filepath.Dir(folder) {
		path := filepath.Join(folder, "hack", "modelserver", "serve")
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	t.Fatal("hack/modelserver/serve is in no folder above this one")
	return ""
}
