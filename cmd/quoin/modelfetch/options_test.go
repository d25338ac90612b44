package modelfetch

import (
	"bytes"
	"errors"
	"flag"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/quoin-dev/quoin/internal/git"
)

var testCommit = strings.Repeat("a", 40)

// required returns the required flags followed by others.
func required(more ...string) []string {
	return append([]string{"--url=https://example.com/a.git", "--commit=" + testCommit, "--target=/workspace/model"}, more...)
}

func TestParseOptions(t *testing.T) {
	defaults := options{
		url: "https://example.com/a.git", commit: testCommit, target: "/workspace/model",
		agents: "agents", timeout: 5 * time.Minute, maxBytes: 256 << 20, maxFiles: 10000,
	}
	all := defaults
	all.ref, all.path, all.credentialsDir = "main", "model", "/secret"
	all.agents = "config/agents"
	all.timeout, all.maxBytes, all.maxFiles = time.Minute, 1<<30, 5
	tests := map[string]struct {
		args []string
		want options
	}{
		"defaults": {required(), defaults},
		"all":      {required("--ref=main", "--path=model", "--credentials-dir=/secret", "--agents=config/agents", "--timeout=1m", "--max-bytes=1Gi", "--max-files=5"), all},
		"bytes":    {required("--max-bytes=268435456"), defaults},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := parseOptions(tt.args, new(bytes.Buffer))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(options{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestFilesOfAgents: the server rejects a model with files that configure agents. Other files in the folder are part of the model.
func TestFilesOfAgents(t *testing.T) {
	for name, want := range map[string]bool{
		"agents/config.yml": true, "agents/eval_questions/orders.yaml": true, "agents/rules/one.md": true,
		"agents/people.yml": false, "config.yml": false, "sales/agents/config.yml": false, "agents": false,
	} {
		if got := (options{agents: "agents"}).isOfAgents(name); got != want {
			t.Errorf("%s: %t, want %t", name, got, want)
		}
	}
}

func TestParseOptionsRejects(t *testing.T) {
	tests := map[string]struct {
		args []string
		want string
	}{
		"no flags":      {nil, "--url is required"},
		"no commit":     {[]string{"--url=https://example.com/a"}, "--commit is required"},
		"no target":     {[]string{"--url=https://example.com/a", "--commit=" + testCommit}, "--target is required"},
		"unknown flag":  {required("--token=hunter2"), "not defined: -token"},
		"argument":      {required("hunter2"), "flags only"},
		"short commit":  {required("--commit=abc"), "want 40 hex digits"},
		"password":      {required("--url=https://u:hunter2@example.com/a.git"), "must not have a password"},
		"plain HTTP":    {required("--url=http://example.com/a.git"), "want https://"},
		"path":          {required("--path=../x"), "want a relative path"},
		"target":        {required("--target=model"), "want an absolute path"},
		"timeout":       {required("--timeout=0s"), "must be positive"},
		"bytes":         {required("--max-bytes=many"), "want a number of bytes"},
		"negative size": {required("--max-bytes=-1"), "must be positive"},
		"no files":      {required("--max-files=0"), "must be positive"},
		"not a number":  {required("--max-files=x"), "max-files"},
		"not a time":    {required("--timeout=5"), "timeout"},
		"help":          {[]string{"-h"}, flag.ErrHelp.Error()},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var output bytes.Buffer
			_, err := parseOptions(tt.args, &output)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
			if text := output.String() + err.Error(); strings.Contains(text, "hunter2") {
				t.Errorf("%q shows a secret", text)
			}
		})
	}
	_, err := parseOptions(required("--url=ftp://x/y"), new(bytes.Buffer))
	if !errors.Is(err, git.ErrInvalidURL) {
		t.Errorf("error %v, want ErrInvalidURL", err)
	}
}
