package process

import (
	"errors"
	"testing"
)

func TestLock(t *testing.T) {
	path := t.TempDir() + "/lock"
	unlock, err := TryLock(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := TryLock(path); !errors.Is(err, ErrLocked) {
		t.Errorf("second lock: %v", err)
	}
	unlock()
	unlock, err = TryLock(path)
	if err != nil {
		t.Fatal(err)
	}
	unlock()
}
