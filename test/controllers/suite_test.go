// Package controllers_test runs all controllers against a real API server, one call at a
// time, and lets things go wrong at every one of them.
package controllers_test

import (
	"testing"

	"github.com/quoin-dev/quoin/internal/apitest"
)

// TestMain starts the API server of all tests in the package; each test has a namespace of its own.
func TestMain(m *testing.M) { apitest.Main(m) }
