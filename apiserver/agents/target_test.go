package agents

import (
	"context"
	"errors"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/quoin-dev/quoin/apiserver/auth"
	"github.com/quoin-dev/quoin/internal/agent"
)

// TestRevokedCredentialEndsRun: the next query of a run whose caller is no longer authenticated ends it.
func TestRevokedCredentialEndsRun(t *testing.T) {
	clk := clocktesting.NewFakePassiveClock(time.Now())
	s := New(Options{Clock: clk})
	tokens := &tokens{service: s, asker: &Asker{}, checked: clk.Now()}
	clk.SetTime(clk.Now().Add(checkInterval))
	ctx := auth.WithAgain(t.Context(), func(context.Context) (*auth.Principal, error) { return nil, auth.ErrNoCredential })
	_, err := tokens.token(ctx)
	var ended *agent.Ended
	if !errors.As(err, &ended) || !errors.Is(err, errEnded) {
		t.Errorf("the error is %v", err)
	}
}
