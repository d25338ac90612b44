// Package metering records what the answers of agents use after each request to a model, and limits it by day. Chats and evaluations
// share the limits.
package metering

import (
	"context"
	"fmt"
	"iter"
	"time"

	"k8s.io/utils/clock"
	crlog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/agent"
	"github.com/quoin-dev/quoin/internal/agent/model"
	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/usage"
)

// storeTimeout is how long recording may take.
const storeTimeout = 20 * time.Second

// Limits are the tokens that may be used in a day (UTC), of requests and answers together; 0 for no limit. An answer that has
// begun reaches a limit with its next request to the model.
type Limits struct {
	// Account is the limit of an account, Caller that of a key or another caller, and User that of a person.
	Account, Caller, User int64
}

// Meter records and limits.
type Meter struct {
	// Usage has what is recorded.
	Usage *usage.Usage
	Limits
	Clock clock.PassiveClock
	// Metrics count what is recorded; nil for none.
	Metrics *Metrics
}

// Model returns the model of one answer, whose requests come one after the other. It records what they use in the run, at a price
// that may be nil, and sends none beyond the limits of the day. Without a Meter, or without its Usage, it is the model itself.
func (m *Meter) Model(of model.Model, scope content.Scope, price *v1alpha1.ModelPrice, run usage.Run) model.Model {
	if m == nil || m.Usage == nil {
		return of
	}
	return &metered{Model: of, meter: m, scope: scope, price: price, run: run}
}

// metered is the model of one answer.
type metered struct {
	model.Model
	meter *Meter
	scope content.Scope
	price *v1alpha1.ModelPrice
	run   usage.Run
}

// Stream implements model.Model.
func (m *metered) Stream(ctx context.Context, in *model.Request) iter.Seq2[model.Event, error] {
	return func(yield func(model.Event, error) bool) {
		if err := m.check(ctx); err != nil {
			yield(model.Event{}, err)
			return
		}
		var used model.Usage
		answered := 0 // octets
		for e, err := range m.Model.Stream(ctx, in) {
			if e.Usage != nil {
				used = used.Add(*e.Usage)
			}
			answered += octets(e)
			m.count(e)
			if e.Stop != "" {
				// Before the end, so that what follows is checked with it.
				m.record(ctx, usedOrEstimated(used, in, answered))
				used, answered = model.Usage{}, 0
			}
			if !yield(e, err) || err != nil {
				break
			}
		}
		if used = usedOrEstimated(used, in, answered); used != (model.Usage{}) {
			m.record(ctx, used)
		}
	}
}

// usedOrEstimated returns the usage that a provider has sent; of an answer without, because it was aborted or the server sends none, it
// returns an estimate.
func usedOrEstimated(used model.Usage, in *model.Request, answered int) model.Usage {
	if used == (model.Usage{}) && answered > 0 {
		return estimate(in, answered)
	}
	return used
}

// count counts tool calls.
func (m *metered) count(e model.Event) {
	if e.ToolCall != nil {
		m.run.Amounts.ToolCalls++
	}
}

// check returns an error if a limit of the day is reached.
func (m *metered) check(ctx context.Context) error {
	limits := m.meter.Limits
	if limits == (Limits{}) {
		return nil
	}
	spent, err := m.meter.Usage.Spent(ctx, m.scope.Account.UID, m.meter.Clock.Now(), m.run.Caller, m.run.User)
	if err != nil {
		return err
	}
	for _, l := range []struct {
		of           string
		spent, limit int64
	}{{"the user", spent.User, limits.User}, {"the API key", spent.Caller, limits.Caller}, {"the account", spent.Account, limits.Account}} {
		if l.limit > 0 && l.spent >= l.limit {
			return &agent.LimitReached{Message: fmt.Sprintf("the limit of %d tokens a day of %s is reached; it begins again at midnight UTC", l.limit, l.of)}
		}
	}
	return nil
}

// record adds a request to the usage of the run. A failure is logged only: the next request records the sums again.
func (m *metered) record(ctx context.Context, used model.Usage) {
	a := &m.run.Amounts
	a.InputTokens += used.Input
	a.CachedTokens += used.CachedInput
	a.OutputTokens += used.Output
	a.Requests++
	a.Duration = m.meter.Clock.Since(m.run.StartedAt)
	before := a.Cost
	err := m.cost()
	if err == nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
		defer cancel()
		err = m.meter.Usage.Record(ctx, m.scope, m.run)
	}
	m.meter.Metrics.used(m.scope.Account.Name, m.run.Agent, used, m.run.Currency, a.Cost-before)
	if err != nil {
		crlog.FromContext(ctx).Error(err, "The usage of an agent could not be recorded", "run", m.run.ID)
	}
}

// cost sets what the run has cost.
func (m *metered) cost() (err error) {
	if m.price == nil {
		return nil
	}
	price := usage.Price{
		Input: string(m.price.InputPerMillionTokens), CachedInput: string(m.price.CachedInputPerMillionTokens), Output: string(m.price.OutputPerMillionTokens),
	}
	m.run.Currency = m.price.Currency
	m.run.Amounts.Cost, err = price.Cost(m.run.Amounts)
	return err
}
