package project

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode/utf8"
)

// File is a file with its path from the root of the data model.
type File struct {
	Path string
	// Size in bytes; Text may be absent if the size exceeds MaxFileBytes.
	Size int64
	Text []byte
}

// kind is what a file configures.
type kind int

const (
	ignored kind = iota
	configFile
	ruleFile
	skillFile
	queryFile
	questionFile
)

// folders are those whose Markdown files are read.
var folders = map[string]kind{
	"rules": ruleFile, "skills": skillFile, "certified_queries": queryFile, "certified-queries": queryFile, "queries": queryFile,
}

const (
	configName    = "config"
	questionsName = "eval_questions"
)

// Folder returns the folder of the files, from the value of FolderVariable.
func Folder(variable string) (string, error) {
	if variable == "" {
		return DefaultFolder, nil
	}
	folder := path.Clean("/" + variable)[1:]
	switch {
	case len(variable) > 1024, !utf8.ValidString(variable), strings.ContainsAny(variable, "\\\x00"):
		return "", fmt.Errorf("%s: it is not a path; allowed: a folder in the data model, of at most 1024 bytes", FolderVariable)
	case slices.Contains(strings.Split(variable, "/"), ".."):
		return "", fmt.Errorf("%s: %q contains \"..\"; allowed: a folder in the data model", FolderVariable, clip(variable))
	case folder == "":
		return "", fmt.Errorf("%s: %q is the root; allowed: a folder in the data model", FolderVariable, clip(variable))
	}
	return folder, nil
}

// IsRead reports whether Parse reads a file. The path is relative to the folder of the files.
func IsRead(name string) bool { return kindOf(name) != ignored }

// kindOf returns what a file configures.
func kindOf(name string) kind {
	first, rest, inFolder := strings.Cut(name, "/")
	extension := path.Ext(name)
	isYAML := extension == ".yml" || extension == ".yaml"
	switch base := strings.TrimSuffix(first, extension); {
	case !inFolder && isYAML && base == configName:
		return configFile
	case !inFolder && isYAML && base == questionsName, inFolder && isYAML && first == questionsName && rest != extension:
		return questionFile
	case inFolder && extension == ".md":
		return folders[first]
	}
	return ignored
}

// clip returns the beginning of a text that is shown in a message.
func clip(text string) string {
	const most = 100
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	return string([]rune(text)[:most]) + "..."
}
