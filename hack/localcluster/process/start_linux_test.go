package process

import "testing"

func TestParseStat(t *testing.T) {
	// The command name may contain spaces and parentheses.
	line := "4242 (a (strange) name) S 1 4242 4242 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 987654 1 2 3"
	state, ticks, err := parseStat(line)
	if err != nil || state != "S" || ticks != "987654" {
		t.Errorf("state %q, ticks %q, error %v", state, ticks, err)
	}
	for _, bad := range []string{"", "1 (x", "1 (x) S 1 2"} {
		if _, _, err := parseStat(bad); err == nil {
			t.Errorf("no error for %q", bad)
		}
	}
}
