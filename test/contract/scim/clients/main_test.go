package clients_test

import (
	"testing"

	"github.com/quoin-dev/quoin/test/internal/scimtest"
)

var acme = scimtest.Acme

func TestMain(m *testing.M) { scimtest.Main(m) }
