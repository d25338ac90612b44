package githttp

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/quoin-dev/quoin/internal/serving/deadlinetest"
)

// TestLateFailure: a request that fails after the timeout of the server for responses has a response.
func TestLateFailure(t *testing.T) {
	w := deadlinetest.NewRecorder()
	newResponse(w, action{service: receivePack}).fail(httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil), rejection("the pack is damaged"))
	if w.Code != http.StatusBadRequest || time.Until(w.WriteDeadline) <= 0 {
		t.Errorf("status %d, deadline %s", w.Code, w.WriteDeadline)
	}
}
