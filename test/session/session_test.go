// Package session_test runs every command of the kubectl plugin on a local cluster as `make up` starts it, and
// compares what they print with the recorded session in docs. `make session` records it again.
package session_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/quoin-dev/quoin/plugin/bundle/bundletest"
)

var update = flag.Bool("update", false, "write the session")

const (
	root = "../.."
	// page and cast are the session as text, and with its times for asciinema.
	page = "../../docs/plugin-session.md"
	cast = "../../docs/plugin-session.cast"
	// startTimeout limits the start of the cluster, commandTimeout a command of the session.
	startTimeout, commandTimeout = 8 * time.Minute, 3 * time.Minute
)

// TestSession runs the commands of the session.
func TestSession(t *testing.T) {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		t.Skip("SKIPPED LOUDLY: KUBEBUILDER_ASSETS is not set; run make test-unit, which builds an API server")
	}
	c := startCluster(t)
	c.wait(t, started)
	s := &recording{started: time.Now()}
	for _, step := range steps {
		began := time.Now()
		output := c.run(t, step)
		s.add(step, output, time.Since(began))
		if step.until != nil {
			c.wait(t, step.until)
		}
	}
	c.checkArchive(t)
	got := s.page()
	for _, secret := range c.secrets {
		if strings.Contains(got, secret) {
			t.Fatal("the session contains a secret of the cluster")
		}
	}
	if *update {
		for file, content := range map[string]string{page: got, cast: s.cast()} {
			if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		return
	}
	want, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(normalized(string(want)), normalized(got)); diff != "" {
		t.Errorf("the session differs from %s (-want +got); make session records it:\n%s", page, diff)
	}
}

// cluster is a local cluster with simulated nodes and free ports.
type cluster struct {
	folder string
	// work is the working directory, with bin and config of the repository.
	work    string
	env     []string
	secrets []string
}

// startCluster starts a local cluster. It is stopped when the test ends.
func startCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{folder: t.TempDir(), work: t.TempDir()}
	for _, name := range []string{"bin", "config"} {
		target, err := filepath.Abs(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(target, filepath.Join(c.work, name)); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	t.Cleanup(func() {
		if output, err := c.localcluster(context.Background(), "down", "--dir", c.folder); err != nil {
			t.Errorf("%v: %s", err, output)
		}
	})
	if output, err := c.localcluster(ctx, "up", "--auto-ports", "--dir", c.folder); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	file, err := os.Open(filepath.Join(c.folder, "env"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	c.env = os.Environ()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		name, value, found := strings.Cut(strings.TrimPrefix(lines.Text(), "export "), "=")
		if !found {
			continue
		}
		value = strings.Trim(value, `'"`)
		c.env = append(c.env, name+"="+value)
		switch {
		case name == "QUOIN_BIN":
			c.env = append(c.env, "PATH="+value+string(os.PathListSeparator)+os.Getenv("PATH"))
		case strings.HasSuffix(name, "_TOKEN") || strings.HasSuffix(name, "_KEY"):
			c.secrets = append(c.secrets, value)
		}
	}
	if len(c.secrets) < 3 {
		t.Fatalf("the environment of the cluster has %d secrets, want at least 3", len(c.secrets))
	}
	return c
}

func (c *cluster) localcluster(ctx context.Context, args ...string) (string, error) {
	command := exec.CommandContext(ctx, "bin/localcluster", args...)
	command.Dir = root
	output, err := command.CombinedOutput()
	return string(output), err
}

// run runs the command of a step with bash, and returns what it prints.
func (c *cluster) run(t *testing.T, s step) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), commandTimeout)
	defer cancel()
	text := strings.ReplaceAll(s.command, "bin/localcluster push", "bin/localcluster push --dir "+c.folder)
	command := exec.CommandContext(ctx, "bash", "-c", text)
	command.Dir, command.Env = c.work, c.env
	var output bytes.Buffer
	command.Stdout, command.Stderr = &output, &output
	err := command.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if code := command.ProcessState.ExitCode(); code != s.code {
		t.Fatalf("%s: exit code %d, want %d:\n%s", s.command, code, s.code, &output)
	}
	return mask(strings.ReplaceAll(output.String(), c.folder, ".local"))
}

// wait waits until a command prints a text.
func (c *cluster) wait(t *testing.T, u *until) {
	t.Helper()
	deadline := time.Now().Add(commandTimeout)
	for {
		command := exec.CommandContext(t.Context(), "bash", "-c", u.command)
		command.Env = c.env
		output, err := command.CombinedOutput()
		if err == nil && strings.Contains(string(output), u.prints) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s does not print %q: %v\n%s", u.command, u.prints, err, output)
		}
		time.Sleep(time.Second)
	}
}

// checkArchive checks that the support archive of the session has no value of any Secret of the cluster, in no form.
func (c *cluster) checkArchive(t *testing.T) {
	t.Helper()
	archive, err := os.Open(filepath.Join(c.work, "quoin.tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	files, err := bundletest.Files(archive)
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), "bash", "-c", "kubectl get secrets -A -o json")
	command.Env = c.env
	output, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	secrets := &corev1.SecretList{}
	if err := json.Unmarshal(output, secrets); err != nil {
		t.Fatal(err)
	}
	values := c.secrets
	for _, s := range secrets.Items {
		for key, value := range s.Data {
			if strings.HasSuffix(key, ".crt") || len(value) < 8 { // certificates are public
				continue
			}
			values = append(values, string(value), base64.StdEncoding.EncodeToString(value))
		}
	}
	if len(secrets.Items) < 5 {
		t.Errorf("the cluster has %d Secrets, want at least 5", len(secrets.Items))
	}
	for name, text := range files {
		for _, value := range values {
			if strings.Contains(text, value) {
				t.Errorf("%s has the value of a Secret, or a token", name)
			}
		}
	}
}
