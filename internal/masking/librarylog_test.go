package masking_test

import (
	"log"
	"testing"

	"github.com/quoin-dev/quoin/internal/masking"
)

func TestLibraryLogHidesTheTextOfServers(t *testing.T) {
	var got string
	logger := log.New(masking.LibraryLog(func(message string) { got = message }), "", 0)
	for given, want := range map[string]string{
		"http: superfluous response.WriteHeader call":                                     "http: superfluous response.WriteHeader call",
		`Unsolicited response received on idle HTTP channel starting with "x"; err=<nil>`: "Unsolicited response received on idle HTTP channel starting with [HIDDEN]",
		`net/http: malformed HTTP response "hunter2"`:                                     "net/http: malformed [HIDDEN]",
		"connect with password=hunter2":                                                   "connect with password=[HIDDEN]",
	} {
		logger.Print(given)
		if got != want {
			t.Errorf("%q is logged as %q, want %q", given, got, want)
		}
	}
}
