package scim_test

import (
	"testing"

	"github.com/quoin-dev/quoin/test/internal/scimtest"
)

var acme, globex = scimtest.Acme, scimtest.Globex

func TestMain(m *testing.M) { scimtest.Main(m) }
