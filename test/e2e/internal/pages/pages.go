// Package pages runs the commands of pages of the documentation.
package pages

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// Page has the commands of a page, in the blocks with the language console. A command begins with "$ " and is continued
// by lines that begin with "> "; other lines are its output.
type Page struct {
	file     string
	sections map[string][]string
	shell    *Shell
}

// Open reads a page, whose commands run in a shell.
func Open(file string, shell *Shell) *Page {
	GinkgoHelper()
	text, err := os.ReadFile(file)
	Expect(err).NotTo(HaveOccurred())
	p := &Page{file: file, sections: map[string][]string{}, shell: shell}
	heading, console := "", false
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		commands := p.sections[heading]
		switch {
		case strings.HasPrefix(line, "```"):
			console = line == "```console"
		case !console:
			if title, ok := strings.CutPrefix(line, "## "); ok {
				heading = title
			}
		case strings.HasPrefix(line, "$ "):
			p.sections[heading] = append(commands, line[2:])
		case strings.HasPrefix(line, "> ") && len(commands) > 0:
			commands[len(commands)-1] += "\n" + line[2:]
		}
	}
	return p
}

// Run runs the commands below a heading, each of which must succeed, and returns their outputs.
func (p *Page) Run(heading string) []string {
	GinkgoHelper()
	commands := p.sections[heading]
	Expect(commands).NotTo(BeEmpty(), "%s has no commands below %q", p.file, heading)
	outputs := make([]string, len(commands))
	for i, command := range commands {
		output, status := p.shell.Run(command)
		Expect(status).To(BeZero(), "%s: %s\n%s", p.file, command, output)
		outputs[i] = output
	}
	return outputs
}

// Shell is a bash that runs commands one after the other.
type Shell struct {
	input  io.Writer
	output *bufio.Reader
}

// end follows the output of each command.
const end = "-- end of the output --"

// NewShell starts a bash in a folder, which ends with the journey.
func NewShell(folder string, env ...string) *Shell {
	GinkgoHelper()
	cmd := exec.Command("bash")
	cmd.Dir, cmd.Env = folder, append(os.Environ(), env...)
	input, err := cmd.StdinPipe()
	Expect(err).NotTo(HaveOccurred())
	output, err := cmd.StdoutPipe()
	Expect(err).NotTo(HaveOccurred())
	cmd.Stderr = cmd.Stdout
	Expect(cmd.Start()).To(Succeed())
	DeferCleanup(func() {
		_ = input.Close()
		_ = cmd.Process.Kill() // it may have exited
		_ = cmd.Wait()
	})
	return &Shell{input, bufio.NewReader(output)}
}

// Run runs a command and returns its output and exit status.
func (s *Shell) Run(command string) (output string, status int) {
	GinkgoHelper()
	_, err := fmt.Fprintf(s.input, "%s\nprintf '\\n%s %%d\\n' $?\n", command, end)
	Expect(err).NotTo(HaveOccurred())
	var text strings.Builder
	for {
		line, err := s.output.ReadString('\n')
		Expect(err).NotTo(HaveOccurred(), "the shell has ended: %s", text.String())
		if code, ok := strings.CutPrefix(line, end+" "); ok {
			_, err := fmt.Sscanf(code, "%d", &status)
			Expect(err).NotTo(HaveOccurred())
			fmt.Fprintf(GinkgoWriter, "$ %s\n%s", command, text.String())
			return strings.TrimRight(text.String(), "\n"), status
		}
		text.WriteString(line)
	}
}
