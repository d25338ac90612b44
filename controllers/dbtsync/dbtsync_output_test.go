package dbtsync

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// maxMessage is how much of the end of the output the kubelet keeps, bytes.
const maxMessage = 2048

// TestExplain: why dbt has failed, from outputs of dbt 1.10.13.
func TestExplain(t *testing.T) {
	for name, want := range map[string]string{
		"deps-no-package":     "Internal Error\n  Error checking out spec='None' for repo https://127.0.0.1:1/none.git\n  Cloning into",
		"docs-connection":     "Encountered an error while generating catalog: Database Error\n  connection to server at \"127.0.0.1\", port 5432 failed: Connection refused",
		"ls-selector":         "Runtime Error\n  Got a state selector method, but no comparison manifest",
		"parse-jinja":         "Compilation Error in model bad (models/marts/bad.sql)\n  unexpected '}', expected ')'",
		"parse-missing-model": "Compilation Error\n  Model 'model.shop.bad' (models/marts/bad.sql) depends on a node named 'not_there' which was not found",
		"parse-project":       "Runtime Error\n  at path []: Additional properties are not allowed ('unknown_key' was unexpected)",
		"parse-yaml":          "Parsing Error\n  Error reading shop: marts/bad.yml - Runtime Error\n    Syntax error near line 4",
	} {
		output, err := os.ReadFile(filepath.Join("testdata", name+".txt"))
		if err != nil {
			t.Fatal(err)
		}
		message := string(output[max(0, len(output)-maxMessage):])
		got := explain(&corev1.ContainerStateTerminated{ExitCode: 2, Message: message})
		if !strings.HasPrefix(got, want) || strings.Contains(got, "[WARNING]") {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// TestErrorOfSelector: dbt ls writes its errors to the standard output, which is a file.
func TestErrorOfSelector(t *testing.T) {
	dir := t.TempDir()
	fake := "#!/bin/sh\necho \"12:00:00  Encountered an error:\"; echo \"$@\"; exit 2\n"
	if err := os.WriteFile(filepath.Join(dir, "dbt"), []byte(fake), 0o700); err != nil {
		t.Fatal(err)
	}
	script := strings.ReplaceAll(selectScript, selectedFile, filepath.Join(dir, "selected.jsonl"))
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", script, "dbt-ls", "--select", "tag:a b; exit 0")
	cmd.Env = []string{"PATH=" + dir + ":/usr/bin:/bin"}
	output, err := cmd.CombinedOutput()
	if err == nil || cmd.ProcessState.ExitCode() != 2 || causeOf(string(output)) != "--quiet ls --select tag:a b; exit 0" {
		t.Errorf("%v: %s", err, output)
	}
}

// TestExplainOtherOutput: what is not known is kept.
func TestExplainOtherOutput(t *testing.T) {
	for message, want := range map[string]string{
		"sh: dbt: not found\n": "sh: dbt: not found",
		"12:00:00  Running with dbt=1.10.13\n12:00:01  Out of space\nin /tmp\n":                            "Out of space\nin /tmp",
		"12:00:00  Running with dbt=1.10.13\n12:00:01  [WARNING]: Deprecated\nfunctionality\n":             "Running with dbt=1.10.13\n[WARNING]: Deprecated\nfunctionality",
		"Model 'a' was not found\n12:00:01  [WARNING][DeprecationsSummary]: Deprecated functionality\n- X": "Model 'a' was not found",
		" \n": "the container ended with exit code 1 and no message",
		"12:00:01  Encountered an error:\nOne\n12:00:02  [WARNING]: x\n12:00:03  Encountered an error:\nTwo\xff": "One\nTwo",
	} {
		if got := explain(&corev1.ContainerStateTerminated{ExitCode: 1, Message: message}); got != want {
			t.Errorf("%q: %q, want %q", message, got, want)
		}
	}
}
