package warmup

import (
	"testing"

	"github.com/quoin-dev/quoin/internal/apitest"
)

func TestMain(m *testing.M) { apitest.Main(m) }
