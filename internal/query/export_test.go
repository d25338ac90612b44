package query

import "io"

// ReadStream reads a result, for fuzzing.
func ReadStream(body io.Reader, limits Limits) (*Result, error) {
	result := &Result{Rows: [][]any{}}
	if err := readStream(body, limits, 0, result); err != nil {
		return nil, err
	}
	return result, nil
}

// Held returns the bytes of results that have not been released.
func Held(r *Runner) int64 {
	all, _ := r.held.take("", 0)
	return all
}

// Waiting returns the number of callers that wait for a run.
func Waiting(r *Runner) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.running {
		n += s.waiting
	}
	return n
}
