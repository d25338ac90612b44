package docs_test

import (
	"regexp"
	"strings"
)

// page is a Markdown file, taken apart as far as the checks need it.
type page struct {
	file     string    // relative to the root of the repository
	prose    []snippet // lines outside code blocks, with code spans blanked out
	headings []snippet
	spans    []snippet // code spans
	commands []snippet // commands of sh and console blocks, continuation lines joined, comments removed
}

// snippet is a piece of text and the line on which it starts.
type snippet struct {
	line int
	text string
}

var (
	fence    = regexp.MustCompile("^ *```(\\w*)")
	heading  = regexp.MustCompile("^#{1,6} +(.*)$")
	codeSpan = regexp.MustCompile("`([^`]+)`")
	hereDoc  = regexp.MustCompile(`<<-?'?"?(\w+)`)
	comment  = regexp.MustCompile(`(^|\s)#.*$`)
)

// parsePage reads the constructs of Markdown that the documentation uses.
func parsePage(file, text string) page {
	p := page{file: file}
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		if match := fence.FindStringSubmatch(lines[i]); match != nil {
			end := i + 1
			for end < len(lines) && !fence.MatchString(lines[end]) {
				end++
			}
			p.addBlock(match[1], lines[i+1:end], i+2)
			i = end
			continue
		}
		if match := heading.FindStringSubmatch(lines[i]); match != nil {
			p.headings = append(p.headings, snippet{i + 1, match[1]})
		}
		for _, match := range codeSpan.FindAllStringSubmatch(lines[i], -1) {
			p.spans = append(p.spans, snippet{i + 1, match[1]})
		}
		p.prose = append(p.prose, snippet{i + 1, codeSpan.ReplaceAllString(lines[i], "``")})
	}
	return p
}

// addBlock collects the commands of a code block whose first line has the number first.
func (p *page) addBlock(language string, lines []string, first int) {
	if language != "sh" && language != "console" {
		return
	}
	for i := 0; i < len(lines); i++ {
		command := strings.TrimSpace(lines[i])
		if language == "console" {
			var isCommand bool
			if command, isCommand = strings.CutPrefix(command, "$ "); !isCommand {
				continue
			}
		}
		at := first + i
		for strings.HasSuffix(command, `\`) && i+1 < len(lines) {
			i++
			command = strings.TrimSuffix(command, `\`) + " " + strings.TrimSpace(lines[i])
		}
		if match := hereDoc.FindStringSubmatch(command); match != nil {
			for i+1 < len(lines) && strings.TrimSpace(lines[i]) != match[1] {
				i++
			}
		}
		if command = comment.ReplaceAllString(command, ""); command != "" {
			p.commands = append(p.commands, snippet{at, command})
		}
	}
}

// code returns the commands of the blocks and the code spans.
func (p *page) code() []snippet {
	return append(append([]snippet{}, p.commands...), p.spans...)
}
