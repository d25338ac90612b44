package project

import (
	"bytes"
)

// frontMatter divides a Markdown file. The YAML is between a first line "---" and the next such line; before is the number of lines
// before it. Comments in HTML before it are skipped. ok is false if the file begins otherwise or the second line is absent.
func frontMatter(text []byte) (yaml []byte, before int, body []byte, ok bool) {
	text = bytes.TrimPrefix(text, []byte("\uFEFF"))
	rest := text
	for {
		trimmed := bytes.TrimLeft(rest, " \t\r\n")
		if !bytes.HasPrefix(trimmed, []byte("<!--")) {
			break
		}
		end := bytes.Index(trimmed, []byte("-->"))
		if end < 0 {
			return nil, 0, nil, false
		}
		rest = trimmed[end+len("-->"):]
	}
	rest = bytes.TrimLeft(rest, " \t\r\n")
	line, rest, found := bytes.Cut(rest, []byte("\n"))
	if !found || !isFence(line) {
		return nil, 0, nil, false
	}
	start := len(text) - len(rest)
	before = bytes.Count(text[:start], []byte("\n"))
	for at := rest; ; {
		line, next, more := bytes.Cut(at, []byte("\n"))
		if isFence(line) {
			return rest[:len(rest)-len(at)], before, next, true
		}
		if !more {
			return nil, 0, nil, false
		}
		at = next
	}
}

func isFence(line []byte) bool { return string(bytes.TrimRight(line, " \t\r")) == "---" }
