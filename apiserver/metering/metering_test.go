package metering

import (
	"context"
	"errors"
	"iter"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/quoin-dev/quoin/internal/agent"
	"github.com/quoin-dev/quoin/internal/agent/model"
	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/contenttest"
	"github.com/quoin-dev/quoin/internal/content/usage"
	"github.com/quoin-dev/quoin/internal/store"
)

// scripted is a model that answers with events, and then fails with err unless it is nil.
type scripted struct {
	model.Model
	events []model.Event
	err    error
}

func (s *scripted) Stream(context.Context, *model.Request) iter.Seq2[model.Event, error] {
	return func(yield func(model.Event, error) bool) {
		for _, e := range s.events {
			if !yield(e, nil) {
				return
			}
		}
		if s.err != nil {
			yield(model.Event{}, s.err)
		}
	}
}

// TestAnswersWithoutUsageAreUse: an answer that ends early counts for the limits of the day, although the provider has not sent its
// usage, and so does one of a server that never sends it.
func TestAnswersWithoutUsageAreUse(t *testing.T) {
	text := model.Event{Text: strings.Repeat("word", 30)}
	lost := errors.New("connection lost")
	for name, tc := range map[string]struct {
		model scripted
		// read is the number of events that are read.
		read int
		want usage.Spent
	}{
		"a complete answer":       {scripted{events: []model.Event{text, {Usage: &model.Usage{Input: 7, Output: 5}, Stop: model.StopEnd}}}, 2, usage.Spent{Account: 12, Caller: 12, User: 12}},
		"an aborted answer":       {scripted{events: []model.Event{text, text, {Usage: &model.Usage{Input: 7, Output: 5}, Stop: model.StopEnd}}}, 1, usage.Spent{Account: 40, Caller: 40, User: 40}},
		"a lost connection":       {scripted{events: []model.Event{text}, err: lost}, 2, usage.Spent{Account: 40, Caller: 40, User: 40}},
		"nothing was answered":    {scripted{err: lost}, 1, usage.Spent{}},
		"an answer without usage": {scripted{events: []model.Event{text, {Stop: model.StopEnd}}}, 2, usage.Spent{Account: 40, Caller: 40, User: 40}},
	} {
		t.Run(name, func(t *testing.T) {
			db := contenttest.Open(t, "sqlite://"+filepath.Join(t.TempDir(), "quoin.db"), usage.Owner)
			clk := clocktesting.NewFakeClock(time.Date(2026, 11, 27, 8, 0, 0, 0, time.UTC))
			meter := &Meter{Usage: &usage.Usage{DB: db}, Clock: clk, Limits: Limits{User: 10}}
			scope := content.Scope{Account: store.Account{UID: "a", Name: "demo"}, Deployment: store.Deployment{UID: "d", Namespace: "demo", Name: "sales"}}
			run := usage.Run{Source: usage.Chat, ID: "c/1", StartedAt: clk.Now(), Agent: 1, Endpoint: "local", Caller: "ApiKey:k", User: "ScimUser:ada"}
			metered := meter.Model(&tc.model, scope, nil, run)
			in := &model.Request{System: "system", Messages: []model.Message{{Role: model.User, Text: "How many orders are there today?.."}}} // 40 octets
			left := tc.read
			for range metered.Stream(t.Context(), in) {
				if left--; left == 0 {
					break
				}
			}
			spent, err := meter.Usage.Spent(t.Context(), "a", clk.Now(), "ApiKey:k", "ScimUser:ada")
			if diff := cmp.Diff(tc.want, spent); diff != "" || err != nil {
				t.Fatalf("tokens (-want +got):\n%s, %v", diff, err)
			}
			err = nil
			for _, err = range metered.Stream(t.Context(), in) {
				break
			}
			if reached := new(agent.LimitReached); errors.As(err, &reached) != (tc.want.User >= 10) {
				t.Errorf("the next request: %v", err)
			}
		})
	}
}
