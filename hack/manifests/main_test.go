package main

import "testing"

func TestFilesAreCurrent(t *testing.T) {
	if err := run("../..", true); err != nil {
		t.Error(err)
	}
}
