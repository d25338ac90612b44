package clients_test

import (
	"testing"

	"github.com/quoin-dev/quoin/test/contract/scim/internal/suite"
)

var acme = suite.Acme

func TestMain(m *testing.M) { suite.Main(m) }
