package progress

import (
	"testing"
	"time"
)

func TestSeconds(t *testing.T) {
	for d, want := range map[time.Duration]string{1234 * time.Millisecond: "1.2 s", 171400 * time.Millisecond: "171 s"} {
		if got := Seconds(d); got != want {
			t.Errorf("%s: got %q, want %q", d, got, want)
		}
	}
}
