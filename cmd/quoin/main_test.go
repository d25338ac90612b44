package main

import (
	"bytes"
	"encoding/json"
	"runtime"
	"strings"
	"testing"
)

// Help is an answer, not an error: it is on stdout, with exit code 0, and has all subcommands.
func TestUsage(t *testing.T) {
	for _, args := range [][]string{{"--help"}, {"-h"}, {"-help"}, {"help"}} {
		var stdout, stderr bytes.Buffer
		if code := run(t.Context(), args, &stdout, &stderr); code != 0 || stderr.Len() > 0 {
			t.Errorf("%v: exit code %d, stderr %s", args, code, &stderr)
		}
		for name, sub := range subcommands {
			if !strings.Contains(stdout.String(), "\n  "+name+" ") || !strings.Contains(stdout.String(), sub.summary) {
				t.Errorf("%v: no line for %s: %s", args, name, &stdout)
			}
		}
	}
}

// Invalid usage is an error: the help is on stderr, with exit code 2.
func TestInvalidUsage(t *testing.T) {
	for _, args := range [][]string{nil, {"unknown"}, {"version", "-o", "yaml"}, {"version", "extra"}, {"help", "unknown"}} {
		var stdout, stderr bytes.Buffer
		if code := run(t.Context(), args, &stdout, &stderr); code != 2 || stdout.Len() > 0 || stderr.Len() == 0 {
			t.Errorf("%v: exit code %d, stdout %s, stderr %s", args, code, &stdout, &stderr)
		}
	}
}

func TestVersion(t *testing.T) {
	set(t, &version, "v1.2.3")
	set(t, &commit, "0123456789abcdef")
	set(t, &date, "2026-11-22T10:00:00Z")
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), []string{"version"}, &stdout, &stderr); code != 0 || stderr.Len() > 0 {
		t.Fatalf("exit code %d, stderr %s", code, &stderr)
	}
	platform := runtime.GOOS + "/" + runtime.GOARCH
	want := "quoin v1.2.3\n  commit    0123456789abcdef\n  date      2026-11-22T10:00:00Z\n  go        " + runtime.Version() + "\n  platform  " + platform + "\n"
	if stdout.String() != want {
		t.Errorf("prints %q, want %q", stdout.String(), want)
	}
	stdout.Reset()
	if code := run(t.Context(), []string{"version", "-o", "json"}, &stdout, &stderr); code != 0 {
		t.Fatalf("exit code %d, stderr %s", code, &stderr)
	}
	var got map[string]string
	if err := json.Unmarshal(stdout.Bytes(), &got); err != nil || got["version"] != "v1.2.3" || got["commit"] != commit || got["date"] != date || got["goVersion"] != runtime.Version() || got["platform"] != platform {
		t.Errorf("%v: %s", err, &stdout)
	}
}

// Without values of the linker, the version is that of the module, and the rest is unknown rather than missing.
func TestVersionWithoutLinkerValues(t *testing.T) {
	set(t, &version, "")
	set(t, &commit, "")
	set(t, &date, "")
	if b := readBuild(); b.Version == "" || b.Commit == "" || b.Date == "" {
		t.Errorf("%+v", b)
	}
}

func set(t *testing.T, variable *string, value string) {
	t.Helper()
	before := *variable
	t.Cleanup(func() { *variable = before })
	*variable = value
}
