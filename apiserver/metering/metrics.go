package metering

import (
	"strconv"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quoin-dev/quoin/internal/agent/model"
)

// maxAgents is the number of agents that have series of their own on a replica: those that have answered first.
const maxAgents = 1000

// Metrics are those of each agent. Keys and users have no series: the table of usage has them.
type Metrics struct {
	tokens, cost *prometheus.CounterVec

	mu    sync.Mutex
	known map[[2]string]bool
}

// NewMetrics returns metrics that are not registered.
func NewMetrics() *Metrics {
	return &Metrics{
		known: map[[2]string]bool{},
		tokens: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "quoin_agent_tokens_total", Help: "Tokens of models by agent, and by kind: input, cached_input (a part of input), output.",
		}, []string{"account", "agent", "kind"}),
		cost: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "quoin_agent_cost_total", Help: "What agents have cost, with the prices of their model endpoints.",
		}, []string{"account", "agent", "currency"}),
	}
}

// Collectors returns the metrics.
func (m *Metrics) Collectors() []prometheus.Collector {
	return []prometheus.Collector{m.tokens, m.cost}
}

// used adds what a request to the model has used; cost is in millionths of the currency.
func (m *Metrics) used(account string, number int64, tokens model.Usage, currency string, cost int64) {
	if m == nil {
		return
	}
	agent := strconv.FormatInt(number, 10)
	if !m.has(account, agent) {
		return
	}
	m.tokens.WithLabelValues(account, agent, "input").Add(float64(tokens.Input))
	m.tokens.WithLabelValues(account, agent, "cached_input").Add(float64(tokens.CachedInput))
	m.tokens.WithLabelValues(account, agent, "output").Add(float64(tokens.Output))
	if currency != "" {
		m.cost.WithLabelValues(account, agent, currency).Add(float64(cost) / 1e6)
	}
}

// has reports whether an agent has series.
func (m *Metrics) has(account, agent string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := [2]string{account, agent}
	if !m.known[key] && len(m.known) < maxAgents {
		m.known[key] = true
	}
	return m.known[key]
}
