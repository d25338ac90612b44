package modeltree

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/fold"
)

// CheckPath returns an error, which names the rule, unless a path is that of a file: relative, with
// names separated by slashes.
func CheckPath(path string) error {
	if rule := pathRule(path); rule != "" {
		return content.Errorf(content.Invalid, "path %s: %s", quote(path), rule)
	}
	return nil
}

// quote returns a path for messages.
func quote(path string) string {
	if len(path) > MaxName {
		return fmt.Sprintf("%q...", path[:MaxName])
	}
	return fmt.Sprintf("%q", path)
}

// pathRule returns the rule that a path breaks, or "".
func pathRule(path string) string {
	switch {
	case path == "":
		return "it is empty"
	case len(path) > MaxPath:
		return fmt.Sprintf("it has %d bytes; allowed: %d", len(path), MaxPath)
	case path[0] == '/':
		return "it must be relative"
	}
	if rule := characterRule(path); rule != "" {
		return rule
	}
	names := strings.Split(path, "/")
	if len(names) > MaxDepth {
		return fmt.Sprintf("it has %d names; allowed: %d", len(names), MaxDepth)
	}
	for _, name := range names {
		if rule := nameRule(name); rule != "" {
			return rule
		}
		if len(name) > MaxName {
			return fmt.Sprintf("a name in it has %d bytes; allowed: %d", len(name), MaxName)
		}
	}
	return ""
}

// characterRule returns the rule that a character of a path breaks, or "".
func characterRule(path string) string {
	if !utf8.ValidString(path) {
		return "it must be valid UTF-8"
	}
	for _, r := range path {
		switch {
		case r == '\\':
			return `it must not contain a backslash; names are separated by "/"`
		case unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp):
			return fmt.Sprintf("it must not contain the control or format character %U", r)
		}
	}
	return ""
}

// nameRule returns the rule of Git that a name of a tree breaks, or "".
func nameRule(name string) string {
	switch {
	case name == "":
		return "it must not contain an empty name"
	case name == "." || name == "..":
		return fmt.Sprintf("it must not contain the name %q", name)
	case reserved(name):
		return fmt.Sprintf("it must not contain the name %q, which Git reserves", name)
	}
	return ""
}

// reserved reports whether a file system may take a name for .git: some ignore case, trailing dots
// and spaces, or format characters, or give short names.
func reserved(name string) bool {
	name, _, _ = strings.Cut(name, ":") // a stream of NTFS
	name = strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Cf, r) {
			return -1
		}
		return r
	}, name)
	name = strings.TrimRight(name, ". ")
	return strings.EqualFold(name, ".git") || strings.EqualFold(name, "git~1")
}

// CheckCase returns an error if two paths, or folders of them, differ only in case: file systems that
// ignore case cannot have both.
func CheckCase(paths []string) error {
	spelling := make(map[string]string, len(paths))
	for _, path := range paths {
		for end := range len(path) + 1 {
			if end < len(path) && path[end] != '/' {
				continue
			}
			part := path[:end]
			if other, found := spelling[fold.Case(part)]; found && other != part {
				return content.Errorf(content.Invalid, "path %s: it differs only in case from %s", quote(part), quote(other))
			}
			spelling[fold.Case(part)] = part
		}
	}
	return nil
}
