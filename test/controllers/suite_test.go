// Package controllers_test runs all controllers against a real API server, one step at a
// time, and injects faults into their calls.
package controllers_test

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"testing"

	"github.com/quoin-dev/quoin/internal/apitest"
)

// TestMain starts the API server of all tests in the package. Tests run in parallel, each in a
// world of its own. They wait for the API server half of the time, so there are more of them
// than processors unless -parallel is set.
func TestMain(m *testing.M) {
	flag.Parse()
	isSet := false
	flag.Visit(func(f *flag.Flag) { isSet = isSet || f.Name == "test.parallel" })
	if !isSet {
		if err := flag.Set("test.parallel", fmt.Sprint(3*runtime.GOMAXPROCS(0))); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	}
	apitest.Main(m)
}
