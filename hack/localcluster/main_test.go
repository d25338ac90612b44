package main

import (
	"errors"
	"slices"
	"testing"
	"time"
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

func TestSeconds(t *testing.T) {
	for d, want := range map[time.Duration]string{1234 * time.Millisecond: "1.2 s", 171400 * time.Millisecond: "171 s"} {
		if got := seconds(d); got != want {
			t.Errorf("%s: got %q, want %q", d, got, want)
		}
	}
}

func TestLock(t *testing.T) {
	path := t.TempDir() + "/lock"
	unlock, err := tryLock(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tryLock(path); !errors.Is(err, errLocked) {
		t.Errorf("second lock: %v", err)
	}
	unlock()
	unlock, err = tryLock(path)
	if err != nil {
		t.Fatal(err)
	}
	unlock()
}
