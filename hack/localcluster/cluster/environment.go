package cluster

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
)

// Variable is a line of <dir>/env.
type Variable struct{ Name, Value string }

// SetEnvironment sets variables in <dir>/env, which shells and tests read, and
// keeps the other variables.
func (c *Cluster) SetEnvironment(variables ...Variable) error {
	values, err := ReadEnvironment(c.Path("env"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for name := range values {
		if !slices.ContainsFunc(variables, func(v Variable) bool { return v.Name == name }) {
			variables = append(variables, Variable{name, values[name]})
		}
	}
	slices.SortFunc(variables, func(a, b Variable) int { return strings.Compare(a.Name, b.Name) })
	// Renamed, so that a test that waits for the file reads a complete one.
	partial := c.Path(".env.partial")
	if err := os.WriteFile(partial, []byte(environmentText(variables)), 0o600); err != nil {
		return err
	}
	return os.Rename(partial, c.Path("env"))
}

// environmentText renders variables as lines that POSIX shells and
// ReadEnvironment can read.
func environmentText(variables []Variable) string {
	var text strings.Builder
	for _, v := range variables {
		fmt.Fprintf(&text, "export %s=%s\n", v.Name, shellQuote(v.Value))
	}
	return text.String()
}

// shellQuote puts values in single quotes unless they are plain, so that
// programs can parse plain values easily.
func shellQuote(value string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_-./:@%+,", r)
	}
	if value != "" && strings.IndexFunc(value, func(r rune) bool { return !plain(r) }) < 0 {
		return value
	}
	return "'" + strings.ReplaceAll(value, "'", `'\''`) + "'"
}

// ReadEnvironment parses a file in the format of environmentText.
func ReadEnvironment(path string) (map[string]string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	values := map[string]string{}
	for line := range strings.Lines(string(text)) {
		assignment, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "export ")
		if !ok {
			continue
		}
		name, value, _ := strings.Cut(assignment, "=")
		if quoted, ok := strings.CutPrefix(value, "'"); ok {
			value = strings.ReplaceAll(strings.TrimSuffix(quoted, "'"), `'\''`, "'")
		}
		values[name] = value
	}
	return values, nil
}
