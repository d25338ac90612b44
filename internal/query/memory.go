package query

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"
)

// ErrBusy means that the results of other queries take all the memory for results.
var ErrBusy = errors.New("the results of other queries take all the memory for results: try again later")

// memory is what results take of the memory for results.
type memory struct {
	mu  sync.Mutex
	all int64
	// accounts has the parts of accounts that have results.
	accounts map[string]int64
}

// take adds bytes of an account, and returns what all results and those of the account take then.
func (m *memory) take(account string, bytes int64) (all, ofAccount int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.accounts == nil {
		m.accounts = map[string]int64{}
	}
	m.all += bytes
	ofAccount = m.accounts[account] + bytes
	if m.accounts[account] = ofAccount; ofAccount == 0 {
		delete(m.accounts, account)
	}
	return m.all, ofAccount
}

// holding is what one result takes of the memory for results.
type holding struct {
	runner  *Runner
	account string
	bytes   int64
	users   atomic.Int64
}

// reset releases what is held, before another response is read and when the result is not used any more.
func (h *holding) reset() {
	if h == nil {
		return
	}
	h.runner.held.take(h.account, -h.bytes)
	h.bytes = 0
}

// add takes memory for n more bytes.
func (h *holding) add(n int) error {
	h.bytes += int64(n)
	all, ofAccount := h.runner.held.take(h.account, int64(n))
	if most := h.runner.MaxHeld; most > 0 && all > most {
		return ErrBusy
	}
	if most := h.runner.MaxHeldOfAccount; most > 0 && ofAccount > most {
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
