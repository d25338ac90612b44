package session_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// Times of the recording: a command is typed, its output stays on the screen, and long waits are shortened.
const (
	typing, reading, longest = 40 * time.Millisecond, 2 * time.Second, 3 * time.Second
	columns, rows            = 150, 40
)

// recording is a session.
type recording struct {
	started time.Time
	// text is the session as Markdown, events the lines of the recording, at the time of the last one.
	text, events bytes.Buffer
	open         bool
	at           time.Duration
}

// add adds a step, and what it has printed after a time.
func (s *recording) add(st step, output string, took time.Duration) {
	if st.about != "" {
		if s.open {
			s.text.WriteString("```\n\n")
		}
		fmt.Fprintf(&s.text, "## %s\n\n```console\n", st.about)
		s.open = true
	}
	fmt.Fprintf(&s.text, "$ %s\n%s", st.command, output)
	s.event(reading, "$ ")
	for _, letter := range st.command {
		s.event(typing, string(letter))
	}
	s.event(typing, "\r\n")
	s.event(min(took, longest), strings.ReplaceAll(output, "\n", "\r\n"))
}

// event adds output to the recording, after a time.
func (s *recording) event(after time.Duration, output string) {
	s.at += after
	encoded, _ := json.Marshal([]any{float64(s.at.Milliseconds()) / 1000, "o", output}) // strings and numbers
	s.events.Write(append(encoded, '\n'))
}

// header begins the page.
const header = `# A session with kubectl quoin

Every command of the [plugin](plugin.md), on the cluster of ` + "`make up`" + ` with simulated nodes.
` + "`make session`" + ` records it; a test runs it and compares the output, without times and generated names.
Tokens are replaced.
[The same session with its times](plugin-session.cast): ` + "`asciinema play docs/plugin-session.cast`" + `.

`

// page returns the session as a page of the documentation.
func (s *recording) page() string { return header + s.text.String() + "```\n" }

// cast returns the recording in version 2 of the format of asciinema.
func (s *recording) cast() string {
	encoded, _ := json.Marshal(map[string]any{ // strings and numbers
		"version": 2, "width": columns, "height": rows, "timestamp": s.started.Unix(), "title": "kubectl quoin", "env": map[string]string{"SHELL": "/bin/bash", "TERM": "xterm-256color"},
	})
	return string(encoded) + "\n" + s.events.String()
}

// masks replace credentials.
var masks = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile(`sk-quoin-[\w-]+`), "sk-quoin-…"},
	{regexp.MustCompile(`eyJ[\w-]+\.[\w-]+\.[\w-]+`), "eyJ…"},
}

// mask replaces credentials, and removes spaces at the ends of lines.
func mask(text string) string {
	for _, m := range masks {
		text = m.pattern.ReplaceAllString(text, m.with)
	}
	return regexp.MustCompile(`(?m) +$`).ReplaceAllString(text, "")
}

// variables are the parts of the output that differ from run to run.
var variables = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile(`(localhost|127\.0\.0\.1):\d+`), "$1:PORT"},
	{regexp.MustCompile(`port=\d+`), "port=PORT"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\d(T\d\d:\d\d:\d\d(\.\d+)?Z| \d\d:\d\d:\d\d)?`), "TIME"},
	{regexp.MustCompile(`\d{8}T\d{6}Z`), "TIME"},
	{regexp.MustCompile(`v1\.\d+\.\d+\b`), "KUBERNETES"},
	{regexp.MustCompile(`sha256:[0-9a-f]{64}`), "HASH"},
	{regexp.MustCompile(`-[0-9a-f]{7,10}-[0-9a-z]{5}\b`), "-POD"},
	{regexp.MustCompile(`Cursor":"[^"]*`), `Cursor":"CURSOR`},
	{regexp.MustCompile(`valid until \S+`), "valid until TIME"},
	{regexp.MustCompile(`yes +\S+\n(aggregated)`), "yes  HOST\n$1"},
	{regexp.MustCompile(`─+`), "─"},
	{regexp.MustCompile(` {2,}`), "  "},
	{regexp.MustCompile(`  (\d+[dhms]){1,2}( |$|\n)`), "  AGE$2"},
	{regexp.MustCompile(`(?m) +$`), ""},
	// A version that the other channel has proven may be scanned before or after.
	{regexp.MustCompile(`(?m)^(release  1\.2\.\d)  1\.2\.\d  True`), "$1  True"},
}

// normalized returns the session without what differs from run to run.
func normalized(text string) string {
	for _, v := range variables {
		text = v.pattern.ReplaceAllString(text, v.with)
	}
	// The order of pods in a tree is that of their names.
	lines := strings.Split(podBranch.ReplaceAllString(text, "$1─ "), "\n")
	for i := range lines {
		end := i
		for end < len(lines) && podLine.MatchString(lines[end]) {
			end++
		}
		slices.Sort(lines[i:end])
	}
	return strings.Join(lines, "\n")
}

// podLine is a pod in a tree without generated names, podBranch its branch.
var (
	podLine   = regexp.MustCompile(`^ +[│ ]*─ \S+-POD `)
	podBranch = regexp.MustCompile(`(?m)^( +[│ ]*)[├└]─ `)
)

// TestEveryCommand: each command of the plugin is part of the session.
func TestEveryCommand(t *testing.T) {
	program := t.TempDir() + "/kubectl-quoin"
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./cmd/quoin")
	build.Dir = root
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	help, err := exec.CommandContext(t.Context(), program, "-h").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, help)
	}
	var found int
	for _, match := range regexp.MustCompile(`(?m)^  ([a-z]+) +[A-Z]`).FindAllStringSubmatch(string(help), -1) {
		name := match[1]
		if name == "help" || name == "completion" {
			continue
		}
		found++
		if !slices.ContainsFunc(steps, func(s step) bool { return strings.HasPrefix(s.command, "kubectl quoin "+name) }) {
			t.Errorf("no step of the session runs kubectl quoin %s", name)
		}
	}
	if found < 15 {
		t.Errorf("found %d commands in the help, want at least 15:\n%s", found, help)
	}
}
