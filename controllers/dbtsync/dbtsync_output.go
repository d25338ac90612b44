package dbtsync

import (
	"regexp"
	"slices"
	"strings"
)

// logTime is the time at the start of each entry that dbt writes.
var logTime = regexp.MustCompile(`(?m)^\d\d:\d\d:\d\d\s+`)

// errorEntry begins the entries of errors, and chatter those that do not say why dbt has failed. dbt writes warnings
// before the error, and a summary of its deprecations after it.
var (
	errorEntry = "Encountered an error"
	chatter    = []string{"[WARNING]", "Running with dbt=", "Registered adapter: ", "Unable to do partial parsing"}
)

// causeOf returns why dbt has failed: of the end of its output, the errors, or else what is not known to be something
// else.
func causeOf(output string) string {
	entries := logTime.Split(output, -1)
	isError := func(entry string) bool { return strings.HasPrefix(entry, errorEntry) }
	other := func(entry string) bool {
		return strings.TrimSpace(entry) == "" || slices.ContainsFunc(chatter, func(begin string) bool { return strings.HasPrefix(entry, begin) })
	}
	chosen := slices.Clone(entries)
	if slices.ContainsFunc(entries, isError) {
		chosen = slices.DeleteFunc(chosen, func(entry string) bool { return !isError(entry) })
	} else {
		chosen = slices.DeleteFunc(chosen, other)
	}
	if len(chosen) == 0 {
		chosen = entries
	}
	for i, entry := range chosen {
		chosen[i] = strings.TrimSpace(strings.TrimPrefix(entry, errorEntry+":\n"))
	}
	return strings.TrimSpace(strings.Join(chosen, "\n"))
}
