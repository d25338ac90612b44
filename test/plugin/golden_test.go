package plugin_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files")

// result is what a command has printed.
type result struct {
	code           int
	stdout, stderr string
}

// quoin runs the plugin. Variables are added to its environment.
func quoin(t *testing.T, variables []string, args ...string) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	command := exec.CommandContext(t.Context(), program, args...)
	command.Env = append(os.Environ(), "KUBECONFIG="+cluster.Kubeconfig(), "QUOIN_API_KEY="+apiKey, "QUOIN_CA_FILE="+caFile)
	command.Env = append(command.Env, variables...)
	command.Dir = t.TempDir()
	command.Stdout, command.Stderr = &stdout, &stderr
	var exit *exec.ExitError
	if err := command.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	r := result{command.ProcessState.ExitCode(), stdout.String(), stderr.String()}
	if strings.Contains(r.stdout+r.stderr, planted) {
		t.Errorf("%v prints the planted secret:\n%s%s", args, &stdout, &stderr)
	}
	return r
}

// replacements make the output the same in every run.
var replacements = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile(`localhost:\d+|127\.0\.0\.1:\d+`), "HOST"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`), "TIME"},
	{regexp.MustCompile(`valid until \d{4}-\d\d-\d\d`), "valid until DATE"},
	{regexp.MustCompile(`(Kubernetes +(OK +)?)v\d+\.\d+\.\d+\S*`), "${1}KUBERNETES"},
	{regexp.MustCompile(`kubernetes": "v[^"]*`), `kubernetes": "KUBERNETES`},
	{regexp.MustCompile(`Cursor":"[^"]*`), `Cursor":"CURSOR`},
	{regexp.MustCompile(`sk-quoin-\w+`), "TOKEN"},
	{regexp.MustCompile(`eyJ[\w-]+\.[\w-]+\.[\w-]+`), "JWT"},
	{regexp.MustCompile(`(sha256: ?)[0-9a-f]{64}`), "${1}HASH"},
	{regexp.MustCompile(`(id: )[0-9A-Za-z]{12}\b`), "${1}ID"},
	{regexp.MustCompile(`(\S) {2,}`), "$1  "},
	{regexp.MustCompile(`  (\d+[dhms]){1,2}( |$|\n)`), "  AGE$2"},
	{regexp.MustCompile(`(?m) +$`), ""},
}

// golden compares the output of a command with testdata/<name>.txt.
func golden(t *testing.T, name string, r result, args []string) {
	t.Helper()
	text := fmt.Sprintf("$ kubectl quoin %s\n%s", strings.Join(args, " "), r.stdout)
	if r.stderr != "" {
		text += "-- stderr --\n" + r.stderr
	}
	text += fmt.Sprintf("-- exit code %d --\n", r.code)
	for _, c := range replacements {
		text = c.pattern.ReplaceAllString(text, c.with)
	}
	file := filepath.Join("testdata", name+".txt")
	if *update {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), text); diff != "" {
		t.Errorf("%s differs (-want +got); -update writes it:\n%s", file, diff)
	}
}

// step is a command with a golden file.
type step struct {
	name string
	args string
}

func runSteps(t *testing.T, steps []step) {
	t.Helper()
	for _, s := range steps {
		args := strings.Fields(strings.ReplaceAll(s.args, "URL", apiURL))
		golden(t, s.name, quoin(t, nil, args...), args)
	}
}

// TestReading: the commands that read, as an administrator and as a viewer of one namespace.
func TestReading(t *testing.T) {
	runSteps(t, []step{
		{"status", "status"},
		{"status-viewer", "status -n demo --as jane"},
		{"get", "get -A"},
		{"get-sales", "get sales -n demo"},
		{"get-crashing", "get crashing -n demo"},
		{"get-crashing-viewer", "get crashing -n demo --as jane"},
		{"get-json", "get sales -n demo -o json"},
		{"why-sales", "why sales -n demo"},
		{"why-crashing", "why crashing -n demo"},
		{"why-crashing-yaml", "why crashing -n demo -o yaml"},
		{"why-homeless", "why homeless -n demo --as jane"},
		{"versions", "versions stable -o wide"},
		{"users", "users -n demo"},
		{"check", "check --dns=false"},
		{"check-viewer", "check --dns=false --as jane"},
		{"psql", "psql sales -n demo"},
	})
}

// TestEditing: the commands that change versions, one after the other on the same deployment.
func TestEditing(t *testing.T) {
	runSteps(t, []step{
		{"pin-unknown", "pin sales 9.9.9 -n demo"},
		{"pin-dry-run", "pin sales 1.2.3 -n demo --dry-run"},
		{"pin", "pin sales v1.2.3 -n demo"},
	})
	wait(t, "sales")
	runSteps(t, []step{
		{"pin-again", "pin sales v1.2.3 -n demo"},
		{"rollback", "rollback sales -n demo"},
	})
	wait(t, "sales")
	runSteps(t, []step{
		{"follow", "follow sales -n demo -o yaml"},
		{"hold", "hold sales -n demo"},
		{"retry-nothing", "retry sales -n demo"},
		{"promote-dry-run", "promote 1.2.5 --channel stable --dry-run -n demo"},
		{"promote", "promote v1.2.5 --channel stable"},
		{"promote-again", "promote 1.2.5 --channel stable"},
		{"promote-unknown-channel", "promote 1.2.5 --channel nope"},
		{"follow-viewer", "follow sales -n demo --as jane"},
		{"retry-missing", "retry nope -n demo"},
	})
}

func wait(t *testing.T, name string) {
	t.Helper()
	if r := quoin(t, nil, "get", name, "-n", namespace, "--wait", "--timeout", "60s"); r.code != 0 {
		t.Fatalf("%+v", r)
	}
}

// TestAPIs: the commands that call the REST API, with an API key.
func TestAPIs(t *testing.T) {
	runSteps(t, []step{
		{"curl", "curl /api/v1/regions --url URL"},
		{"curl-missing", "curl /api/v1/nope --url URL"},
		{"curl-not-enabled", "curl /api/v1/regions -n demo"},
		{"token", "token sales -n demo --url URL"},
		{"keys-create", "keys create ci -n demo --permission DeploymentRead --deployment sales"},
		{"keys-create-dry-run", "keys create git -n demo --dry-run -o yaml"},
		{"keys-create-viewer", "keys create ci -n demo --as jane"},
		{"users-viewer", "users -n demo --as jane"},
	})
	r := quoin(t, nil, "audit", "-n", namespace, "--url", apiURL, "--event", "Created data token", "--limit", "1")
	golden(t, "audit", r, []string{"audit"})
}

// TestErrors: without a cluster, without rights, with another API and with invalid usage, the plugin
// prints one line (two for usage) and no stack.
func TestErrors(t *testing.T) {
	runSteps(t, []step{
		{"error-unreachable", "status -s https://127.0.0.1:1"},
		{"error-credentials", "status --kubeconfig /dev/null -s " + cluster.Config.Host + " --insecure-skip-tls-verify --token=" + strings.Repeat("x", 20)},
		{"error-missing", "why nope -n demo"},
		{"error-command", "frobnicate"},
		{"error-flag", "get --frobnicate"},
		{"error-output", "get -o xml"},
		{"error-arguments", "pin sales"},
		{"error-context", "status --context nope"},
	})
	golden(t, "error-no-cluster", quoin(t, []string{"KUBECONFIG=/does/not/exist", "HOME=/does/not/exist"}, "status"), []string{"status"})
	entries, err := filepath.Glob("testdata/error-*.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range entries {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if n := bytes.Count(text, []byte("\n")); n > 5 {
			t.Errorf("%s has %d lines", file, n)
		}
	}
}

// TestCompletion: kubectl completes the names of deployments, channels and versions with the binary under its other name.
func TestCompletion(t *testing.T) {
	completion := filepath.Join(cluster.Folder, "kubectl_complete-quoin")
	if err := os.Symlink(cluster.Binary(), completion); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"why -n demo s": "sales\n:4\n", "versions s": "stable\n:4\n", "pin sales 1.2.3": "1.2.3\n:36\n", "why sales -n demo ": ":4\n", "why -s https://127.0.0.1:1 s": ":4\n",
	} {
		words := strings.Split(args, " ")
		command := exec.CommandContext(t.Context(), completion, words...)
		command.Env = append(os.Environ(), "KUBECONFIG="+cluster.Kubeconfig())
		got, err := command.Output()
		if err != nil || string(got) != want {
			t.Errorf("%q: %q, %v; want %q", args, got, err, want)
		}
	}
}
