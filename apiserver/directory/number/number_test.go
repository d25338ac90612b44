package number_test

import (
	"fmt"
	"testing"

	"github.com/quoin-dev/quoin/apiserver/directory/number"
)

// TestNumbersAreStable has numbers that clients have stored: they must never change.
func TestNumbersAreStable(t *testing.T) {
	for _, test := range []struct {
		resourceType, id string
		want             int64
	}{
		{"User", "ada", 7727677431128863},
		{"Group", "ada", 8418161932589102},
		{"User", "019365f2-7d2e-7c3c-9f3a-0123456789ab", 6853109115459396},
		{"User", "", 18406938159824},
	} {
		if got := number.Of(test.resourceType, test.id); got != test.want {
			t.Errorf("%s %q: %d, want %d", test.resourceType, test.id, got, test.want)
		}
	}
}

func TestNumbersDiffer(t *testing.T) {
	seen := map[int64]string{}
	for i := range 100_000 {
		for _, resourceType := range []string{"User", "Group"} {
			name := fmt.Sprintf("%s/%d", resourceType, i)
			n := number.Of(resourceType, fmt.Sprint(i))
			if n < 1 || n > number.Max {
				t.Fatalf("%s: %d is out of range", name, n)
			}
			if other, known := seen[n]; known {
				t.Fatalf("%s and %s have the number %d", name, other, n)
			}
			seen[n] = name
		}
	}
}
