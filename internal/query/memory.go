package query

import (
	"errors"
	"io"
	"sync/atomic"
)

// ErrBusy means that the results of other queries take all the memory for results.
var ErrBusy = errors.New("the results of other queries take all the memory for results: try again later")

// holding is what one result takes of the memory for results.
type holding struct {
	runner *Runner
	bytes  int64
	users  atomic.Int64
}

// reset releases what is held, before another response is read and when the result is not used any more.
func (h *holding) reset() {
	if h == nil {
		return
	}
	h.runner.held.Add(-h.bytes)
	h.bytes = 0
}

// add takes memory for n more bytes.
func (h *holding) add(n int) error {
	h.bytes += int64(n)
	if held := h.runner.held.Add(int64(n)); h.runner.MaxHeld > 0 && held > h.runner.MaxHeld {
		return ErrBusy
	}
	return nil
}

// Release releases the memory of a result of Runner.Run, RunWith or RunPlan. Each caller calls it once, after the last use.
func (r *Result) Release() {
	if r.held != nil && r.held.users.Add(-1) == 0 {
		r.held.reset()
	}
}

// heldReader takes memory for what is read.
type heldReader struct {
	io.Reader
	held *holding
}

// Read implements io.Reader.
func (r *heldReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if r.held != nil {
		if busy := r.held.add(n); busy != nil {
			return 0, busy
		}
	}
	return n, err
}
