package processors

import (
	"testing"

	"github.com/quoin-dev/quoin/internal/processors/processorstest"
)

func TestPreemptible(t *testing.T) {
	usual := processorstest.LockThread(t) // the slices are those of one thread
	end := Preemptible()
	during := processorstest.Slice(t)
	end()
	if during != longSlice {
		t.Errorf("the time slice is %d ns, want %d", during, longSlice)
	}
	if usual >= longSlice {
		t.Errorf("the default time slice is %d ns, want less than %d", usual, longSlice)
	}
	if after := processorstest.Slice(t); after != usual {
		t.Errorf("afterwards the time slice is %d ns, want %d as before", after, usual)
	}
}
