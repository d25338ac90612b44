package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-dev/quoin/controllers"
)

// TestControllerInvalidUsage checks that an error names the flag and the allowed values.
func TestControllerInvalidUsage(t *testing.T) {
	t.Setenv("QUOIN_IMAGE", "quoin:test")
	cases := map[string]struct {
		args []string
		want []string
	}{
		"no image":           {[]string{"--quoin-image="}, []string{"--quoin-image is required", "QUOIN_IMAGE"}},
		"unknown flag":       {[]string{"--colour"}, []string{"-colour", "Usage of quoin controller", "-log-level"}},
		"no concurrency":     {[]string{"--concurrency", "0"}, []string{"--concurrency is 0, must be 1 or more"}},
		"not a number":       {[]string{"--concurrency=many"}, []string{`"many"`, "-concurrency"}},
		"negative rollouts":  {[]string{"--max-concurrent-rollouts", "-1"}, []string{"--max-concurrent-rollouts is -1, must be 0 or more"}},
		"argument":           {[]string{"--leader-elect=false", "now"}, []string{`unexpected argument "now"`}},
		"separate value":     {[]string{"--leader-elect", "false"}, []string{`unexpected argument "false"`}},
		"unknown log level":  {[]string{"--log-level", "loud"}, []string{`--log-level is "loud", must be debug, info, warn or error`}},
		"unknown log format": {[]string{"--log-format", "xml"}, []string{`--log-format is "xml", must be json or text`}},
		"not a boolean":      {[]string{"--allow-insecure-git=yes"}, []string{`"yes"`, "-allow-insecure-git"}},
		"flag without value": {[]string{"--namespace"}, []string{"-namespace"}},
		"empty concurrency":  {[]string{"--concurrency="}, []string{"-concurrency"}},
		"namespace":          {[]string{"--watch-namespaces=Tenant"}, []string{`--watch-namespaces: "Tenant" is not the name of a namespace`}},
		"empty namespace":    {[]string{"--watch-namespaces=a,"}, []string{`--watch-namespaces: "" is not the name of a namespace`}},
		"namespace twice":    {[]string{"--watch-namespaces=a,b,a"}, []string{`--watch-namespaces: "a" is listed twice`}},
		"own namespace":      {[]string{"--namespace=quoin", "--watch-namespaces=a,quoin"}, []string{`--watch-namespaces: "quoin" is the namespace of Quoin itself`}},
		"integer overflow":   {[]string{"--concurrency=99999999999999999999"}, []string{"-concurrency"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			if code := runControllers(t.Context(), tc.args, &stdout, &stderr); code != 2 {
				t.Errorf("exit code %d, want 2", code)
			}
			for _, part := range tc.want {
				if !strings.Contains(stderr.String(), part) {
					t.Errorf("stderr does not contain %q:\n%s", part, stderr.String())
				}
			}
			if stdout.Len() > 0 {
				t.Errorf("writes to stdout: %s", stdout.String())
			}
		})
	}
}

func TestArchiveInvalidUsage(t *testing.T) {
	t.Setenv("DATABASE_URL", "")
	store := "--database-url=sqlite:///quoin.db"
	for name, tc := range map[string]struct {
		run  func(ctx context.Context, args []string, stdout, stderr io.Writer) int
		args []string
		want string
	}{
		"no file":              {runBackup, []string{store}, "quoin backup: --file is required"},
		"no content":           {runBackup, []string{"--file=a"}, "--database-url, a command after --, or --exclude-content"},
		"nothing":              {runBackup, []string{"--file=a", "--exclude-content", "--content-only"}, "exclude each other"},
		"excluded command":     {runBackup, []string{"--file=a", "--exclude-content", "--", "kubectl"}, `unexpected argument "kubectl"`},
		"command of a command": {runBackup, []string{"--file=a", "--content-only", "--", "kubectl"}, "--content-only requires --database-url"},
		"database":             {runRestore, []string{"--file=a", "--database-url=mysql://user:secret@host"}, "--database-url must begin with sqlite:/// or postgres://\n"},
		"standard input":       {runRestore, []string{"--file=-", store}, "--file - requires --content-only"},
	} {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			if code := tc.run(t.Context(), tc.args, &stdout, &stderr); code != 2 || !strings.Contains(stderr.String(), tc.want) {
				t.Errorf("exit code %d, stderr %q, want 2 and %q", code, stderr.String(), tc.want)
			}
			if stdout.Len() > 0 || strings.Contains(stderr.String(), "secret") && name == "database" {
				t.Errorf("stdout %q, stderr %q", stdout.String(), stderr.String())
			}
		})
	}
}

func TestHelp(t *testing.T) {
	for _, arg := range []string{"-h", "--help"} {
		var stderr bytes.Buffer
		if code := runControllers(t.Context(), []string{arg}, io.Discard, &stderr); code != 0 {
			t.Errorf("%s: exit code %d", arg, code)
		}
		for _, name := range []string{
			"kubeconfig", "leader-elect", "metrics-bind-address", "health-probe-bind-address", "namespace", "quoin-image",
			"concurrency", "max-concurrent-rollouts", "allow-insecure-git", "warm-up", "log-level", "log-format",
		} {
			if !strings.Contains(stderr.String(), "  -"+name+" ") && !strings.Contains(stderr.String(), "  -"+name+"\n") {
				t.Errorf("%s does not list -%s:\n%s", arg, name, stderr.String())
			}
		}
	}
}

func TestFlags(t *testing.T) {
	for _, name := range []string{"KUBECONFIG", "POD_NAMESPACE", "QUOIN_IMAGE"} {
		t.Setenv(name, "")
	}
	cases := map[string]struct {
		env  map[string]string
		args []string
		want controllers.Config
	}{
		"defaults":    {nil, []string{"--quoin-image=quoin:v1"}, controllers.Config{Namespace: "quoin-system", Image: "quoin:v1", Concurrency: 10, MaxRollouts: 10, Region: "local", SQLPort: 5432}},
		"environment": {map[string]string{"POD_NAMESPACE": "ops", "QUOIN_IMAGE": "quoin:v1"}, nil, controllers.Config{Namespace: "ops", Image: "quoin:v1", Concurrency: 10, MaxRollouts: 10, Region: "local", SQLPort: 5432}},
		"flags take precedence": {map[string]string{"POD_NAMESPACE": "ops", "QUOIN_IMAGE": "quoin:v1"},
			[]string{"--namespace=custom", "--quoin-image", "quoin:v2", "-concurrency", "1", "--max-concurrent-rollouts=0", "--allow-insecure-git", "--warm-up", "--sql-port=15432", "--repository-url=https://quoin:8443", "--watch-namespaces=a,b"},
			controllers.Config{Namespace: "custom", WatchNamespaces: []string{"a", "b"}, Image: "quoin:v2", Concurrency: 1, AllowInsecureGit: true, WarmUp: true, Region: "local", SQLPort: 15432, RepositoryURL: "https://quoin:8443"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			for key, value := range tc.env {
				t.Setenv(key, value)
			}
			f, err := parseControllerFlags(tc.args, io.Discard)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, f.config); diff != "" {
				t.Errorf("configuration (-want +got):\n%s", diff)
			}
			if !f.leaderElect || f.metricsAddress != ":8443" || f.probeAddress != ":8081" || f.kubeconfig != "" {
				t.Errorf("flags are %+v", f)
			}
		})
	}
	if _, err := parseControllerFlags([]string{"-h"}, io.Discard); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("got %v", err)
	}
}

// TestStartErrors checks that errors at startup are logged and that the exit code is 1.
func TestStartErrors(t *testing.T) {
	t.Setenv("KUBECONFIG", "")
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	t.Setenv("QUOIN_IMAGE", "quoin:test")
	malformed := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(malformed, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		args []string
		want string
	}{
		"not in a pod":         {nil, "no --kubeconfig and not in a pod"},
		"missing kubeconfig":   {[]string{"--kubeconfig", "/nowhere/kubeconfig"}, `read kubeconfig "/nowhere/kubeconfig"`},
		"malformed kubeconfig": {[]string{"--kubeconfig", malformed}, malformed},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var stderr bytes.Buffer
			if code := runControllers(t.Context(), tc.args, io.Discard, &stderr); code != 1 {
				t.Errorf("exit code %d, want 1", code)
			}
			var line struct{ Level, Msg, Err string }
			if err := json.Unmarshal(stderr.Bytes(), &line); err != nil || line.Level != "ERROR" || !strings.Contains(line.Err, tc.want) {
				t.Errorf("logs %s (%v), want an error with %s", stderr.String(), err, tc.want)
			}
		})
	}
}

func TestLogLevelAndFormat(t *testing.T) {
	cases := map[string]struct {
		flags logFlags
		want  []string
	}{
		"info":        {logFlags{"info", "text"}, []string{"level=INFO msg=Started"}},
		"debug":       {logFlags{"debug", "text"}, []string{"level=INFO msg=Started", "msg=Detail"}},
		"upper case":  {logFlags{"INFO", "text"}, []string{"level=INFO msg=Started"}},
		"errors only": {logFlags{"error", "text"}, nil},
		"json":        {logFlags{"info", "json"}, []string{`"level":"INFO","msg":"Started"`}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			logger, err := tc.flags.logger(&out)
			if err != nil {
				t.Fatal(err)
			}
			logger.Info("Started")
			logger.V(4).Info("Detail")
			lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
			if out.Len() == 0 {
				lines = nil
			}
			if len(lines) != len(tc.want) {
				t.Fatalf("%d lines, want %d:\n%s", len(lines), len(tc.want), out.String())
			}
			for i, part := range tc.want {
				if !strings.Contains(lines[i], part) {
					t.Errorf("line %d is %q, without %q", i, lines[i], part)
				}
			}
		})
	}
}
