// Package deadlinetest records the deadlines that handlers set, in tests.
package deadlinetest

import (
	"net/http/httptest"
	"time"
)

// Recorder is a response that records the deadlines of its connection. Its methods are called by http.ResponseController.
type Recorder struct {
	*httptest.ResponseRecorder
	// ReadDeadline and WriteDeadline are those that were set last.
	ReadDeadline, WriteDeadline time.Time
	// ReadChanges is the number of times that the deadline for reads was set.
	ReadChanges int
}

// NewRecorder returns a response without deadlines.
func NewRecorder() *Recorder { return &Recorder{ResponseRecorder: httptest.NewRecorder()} }

// SetReadDeadline records a deadline.
func (r *Recorder) SetReadDeadline(deadline time.Time) error {
	r.ReadDeadline = deadline
	r.ReadChanges++
	return nil
}

// SetWriteDeadline records a deadline.
func (r *Recorder) SetWriteDeadline(deadline time.Time) error {
	r.WriteDeadline = deadline
	return nil
}
