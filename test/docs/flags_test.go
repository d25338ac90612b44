package docs_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

var (
	bareFlag     = regexp.MustCompile(`^--([a-z][a-z0-9-]*)(?:[= ].*)?$`)
	quoinCommand = regexp.MustCompile(`^(?:bin/)?quoin ([a-z][a-z-]*)((?: -[^|;&]*)?)$`)
	flagArgument = regexp.MustCompile(`(?:^|\s)--?([a-z][a-z0-9-]*)`)
	flagOfHelp   = regexp.MustCompile(`(?m)^  -([a-z][a-z0-9-]*)`)
	summary      = regexp.MustCompile(`(?m)^  ([a-z][a-z-]*) +\S`)
	// kubectl quoin: a command, and what follows it up to a pipe.
	kubectlQuoin = regexp.MustCompile(`(?:^|[$(] ?|: )kubectl quoin ([a-z]+)\b([^|;&)]*)`)
	flagOfPlugin = regexp.MustCompile(`(?m)^ {2,6}(?:-[a-zA-Z], )?--([a-z][a-z0-9-]*)`)
	longFlag     = regexp.MustCompile(`(?:^|\s)--([a-z][a-z0-9-]*)`)
	flagOfTable  = regexp.MustCompile("`--([a-z][a-z0-9-]*)`")
)

// The plugin is a subcommand with commands of its own.
const (
	pluginSubcommand = "ctl"
	pluginCommand    = "kubectl quoin "
)

// otherFlags are flags of other programs that the documentation names on their own.
var otherFlags = map[string][]string{
	"cosign":         {"insecure-ignore-tlog", "key", "signing-config"},
	"etcd":           {"max-request-bytes", "quota-backend-bytes"},
	"helm":           {"reset-then-reuse-values", "reuse-values", "set", "take-ownership"},
	"kube-apiserver": {"audit-policy-file", "audit-webhook-config-file", "etcd-compaction-interval", "etcd-servers-overrides", "event-ttl", "proxy-client-cert-file", "requestheader-client-ca-file", "watch-cache"},
	"velero":         {"exclude-resources", "status-include-resources"},
}

// unknownFlags checks flags that stand alone in a code span, and commands of quoin with their flags.
func unknownFlags(t *testing.T, p page) []problem {
	t.Helper()
	known := quoinFlags(t)
	var problems []problem
	for _, s := range p.spans {
		if match := bareFlag.FindStringSubmatch(s.text); match != nil && !isFlag(known, match[1]) {
			problems = append(problems, problem{s.line, "flag --" + match[1] + " does not exist"})
		}
	}
	for _, s := range p.code() {
		if match := quoinCommand.FindStringSubmatch(s.text); match != nil {
			problems = append(problems, unknownArguments(known, s.line, match[1], match[2])...)
		}
		for _, match := range kubectlQuoin.FindAllStringSubmatch(s.text, -1) {
			problems = append(problems, unknownPluginArguments(known, s.line, match[1], match[2])...)
		}
	}
	return problems
}

// unknownPluginArguments checks the command and the flags of a command of the plugin. Those after -- are
// of another program.
func unknownPluginArguments(known map[string][]string, line int, command, arguments string) []problem {
	flags, found := known[pluginCommand+command]
	if !found {
		return []problem{{line, fmt.Sprintf("kubectl quoin has no command %q", command)}}
	}
	arguments, _, _ = strings.Cut(arguments, " -- ")
	var problems []problem
	for _, name := range submatches(longFlag, arguments) {
		if !slices.Contains(flags, name) && command != "keys" && command != "export" {
			problems = append(problems, problem{line, fmt.Sprintf("kubectl quoin %s has no flag --%s", command, name)})
		}
	}
	return problems
}

// isFlag reports whether any subcommand of quoin or one of the other programs has the flag.
func isFlag(known map[string][]string, name string) bool {
	for _, flags := range known {
		if slices.Contains(flags, name) {
			return true
		}
	}
	for _, flags := range otherFlags {
		if slices.Contains(flags, name) {
			return true
		}
	}
	return false
}

// unknownArguments checks the subcommand and the flags of a command of quoin. Those after -- are of another
// program.
func unknownArguments(known map[string][]string, line int, subcommand, arguments string) []problem {
	flags, found := known[subcommand]
	if !found {
		return []problem{{line, fmt.Sprintf("quoin has no subcommand %q", subcommand)}}
	}
	arguments, _, _ = strings.Cut(arguments, " -- ")
	var problems []problem
	for _, name := range submatches(flagArgument, arguments) {
		if !slices.Contains(flags, name) && name != "h" {
			problems = append(problems, problem{line, fmt.Sprintf("quoin %s has no flag --%s", subcommand, name)})
		}
	}
	return problems
}

// quoinFlags returns the flags of every subcommand of quoin, as -h prints them.
func quoinFlags(t *testing.T) map[string][]string {
	t.Helper()
	known, err := helpOfQuoin()
	if err != nil {
		t.Fatal(err)
	}
	return known
}

var helpOfQuoin = sync.OnceValues(func() (map[string][]string, error) {
	folder, err := os.MkdirTemp("", "quoin-docs")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	program := filepath.Join(folder, "quoin")
	build := exec.Command("go", "build", "-o", program, "./cmd/quoin")
	build.Dir = root
	if output, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, output)
	}
	known := map[string][]string{}
	for _, subcommand := range submatches(summary, output(program)) {
		known[subcommand] = submatches(flagOfHelp, output(program, subcommand, "-h"))
	}
	for _, command := range submatches(summary, output(program, pluginSubcommand, "-h")) {
		known[pluginCommand+command] = submatches(flagOfPlugin, output(program, pluginSubcommand, command, "-h"))
	}
	if len(known["controller"]) == 0 {
		return nil, fmt.Errorf("found no flags of quoin controller in the help of %d subcommands", len(known))
	}
	return known, nil
})

// output returns what a program prints, whatever its exit code: usage errors exit with 2.
func output(program string, args ...string) string {
	var text bytes.Buffer
	command := exec.Command(program, args...)
	command.Stdout, command.Stderr = &text, &text
	_ = command.Run()
	return text.String()
}

// TestTablesOfFlags: the tables have the flags of their process, and no others. Limits of the gateway are on its page.
func TestTablesOfFlags(t *testing.T) {
	known := quoinFlags(t)
	text := readFile(t, "docs/operations/install.md")
	for title, subcommand := range map[string]string{"controller": "controller", "API server": "apiserver", "gateway": "gateway"} {
		_, section, found := strings.Cut(text, "\n## Flags of the "+title+"\n")
		if !found {
			t.Fatalf("no flags of the %s", title)
		}
		section, _, _ = strings.Cut(section, "\n## ")
		for row := range strings.Lines(section) {
			cell, _, _ := strings.Cut(strings.TrimPrefix(row, "| "), " |")
			for _, name := range submatches(flagOfTable, cell) {
				if strings.HasPrefix(row, "| `--") && !slices.Contains(known[subcommand], name) {
					t.Errorf("quoin %s has no flag --%s", subcommand, name)
				}
			}
		}
		if subcommand == "gateway" {
			section += readFile(t, "docs/gateway.md")
		}
		for _, name := range known[subcommand] {
			if !strings.Contains(section, "`--"+name+"`") {
				t.Errorf("the flag --%s of quoin %s is missing", name, subcommand)
			}
		}
	}
}
