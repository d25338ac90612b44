package main

import (
	"bytes"
	"strconv"
)

// metric reads a metric without labels.
func metric(text []byte, name string) float64 {
	for line := range bytes.Lines(text) {
		if rest, ok := bytes.CutPrefix(line, []byte(name)); ok {
			value, _ := strconv.ParseFloat(string(bytes.TrimSpace(rest)), 64)
			return value
		}
	}
	return 0
}
