package query

// ReadStream is for fuzzing.
var ReadStream = readStream

// Waiting returns the number of callers that wait for a run.
func Waiting(r *Runner) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.running {
		n += s.waiting
	}
	return n
}
