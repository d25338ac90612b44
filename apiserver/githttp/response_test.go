package githttp

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// deadlined records the deadline of a response.
type deadlined struct {
	*httptest.ResponseRecorder
	deadline time.Time
}

// SetWriteDeadline is called by http.ResponseController.
func (d *deadlined) SetWriteDeadline(deadline time.Time) error {
	d.deadline = deadline
	return nil
}

// TestLateFailure: a request that fails after the timeout of the server for responses has a response.
func TestLateFailure(t *testing.T) {
	w := &deadlined{ResponseRecorder: httptest.NewRecorder()}
	newResponse(w, action{service: receivePack}).fail(httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil), rejection("the pack is damaged"))
	if w.Code != http.StatusBadRequest || time.Until(w.deadline) <= 0 {
		t.Errorf("status %d, deadline %s", w.Code, w.deadline)
	}
}
