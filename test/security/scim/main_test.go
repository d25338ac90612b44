package security_test

import (
	"testing"

	"github.com/quoin-dev/quoin/test/contract/scim/internal/suite"
)

var acme, globex = suite.Acme, suite.Globex

func TestMain(m *testing.M) { suite.Main(m) }
