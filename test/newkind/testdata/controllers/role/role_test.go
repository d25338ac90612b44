package role

import (
	"testing"

	"github.com/quoin-dev/quoin/internal/reconciler"
)

func TestWork(t *testing.T) {
	if got, want := work(t.Context(), nil), reconciler.Done("The role can be assigned"); got != want {
		t.Errorf("outcome %+v, want %+v", got, want)
	}
}
