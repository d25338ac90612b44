package main

import (
	"errors"
	"testing"
)

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
