package rest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2"
)

// TestRetryAfter: a response names the time of the next try in full seconds, if there is one.
func TestRetryAfter(t *testing.T) {
	for after, want := range map[time.Duration]string{0: "", time.Millisecond: "1", 5 * time.Second: "5", 5001 * time.Millisecond: "6"} {
		var headers huma.HeadersError
		if err := fmt.Errorf("begin: %w", Unavailable("busy").Later(after)); !errors.As(err, &headers) || headers.GetHeaders().Get("Retry-After") != want {
			t.Errorf("%s: %v", after, headers)
		}
	}
}
