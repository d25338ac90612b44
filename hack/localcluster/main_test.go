package main

import (
	"slices"
	"testing"
)

func TestParseMixed(t *testing.T) {
	for _, args := range [][]string{
		{"cube", "v1", "v2", "--dir", "x", "--broken"},
		{"--broken", "cube", "--dir=x", "v1", "v2"},
		{"--dir", "x", "--broken", "cube", "v1", "v2"},
	} {
		flags := newFlagSet("test")
		dir, broken := flags.String("dir", "", ""), flags.Bool("broken", false, "")
		positional, err := parseMixed(flags, args)
		if err != nil || !slices.Equal(positional, []string{"cube", "v1", "v2"}) || *dir != "x" || !*broken {
			t.Errorf("%v: positional %v, dir %q, broken %t, error %v", args, positional, *dir, *broken, err)
		}
	}
	if err := parseFlags(newFlagSet("test"), []string{"stray"}); err == nil {
		t.Error("no error for a stray argument")
	}
}
