// Package evaluations evaluates agents: it asks them questions with known answers, and replays recorded chats. An evaluation runs in
// the replica that has received the request, after the response, as the person who has started it (docs/decisions/0094).
//
//	evaluations.go  the service, its background work
//	routes.go       the routes and their bodies
//	wire.go         what they show
//	start.go        starts evaluations
//	run.go          runs of this replica: items in parallel, the lease, the end
//	question.go     asks a question and grades the result
//	replay.go       replays a message
//	collect.go      the lines of an answer
//	limits.go       evaluations in progress, and what one may use
//	metrics.go      metrics
package evaluations

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
	"k8s.io/utils/clock"

	"github.com/quoin-dev/quoin/apiserver/agents"
	"github.com/quoin-dev/quoin/apiserver/metering"
	"github.com/quoin-dev/quoin/internal/agent"
	"github.com/quoin-dev/quoin/internal/agent/project"
	"github.com/quoin-dev/quoin/internal/content/chat"
	"github.com/quoin-dev/quoin/internal/content/evaluation"
	"github.com/quoin-dev/quoin/internal/store"
)

// Agents finds agents and prepares their answers; *agents.Service implements it.
type Agents interface {
	// Named returns an agent of the deployment of the scope by its name, and Find one of the account by its number.
	Named(ctx context.Context, name string) (*agents.Agent, error)
	Find(ctx context.Context, id int64) (*agents.Agent, error)
	// WithEndpoint returns an agent with the model of another endpoint.
	WithEndpoint(ctx context.Context, a *agents.Agent, name string) (*agents.Agent, error)
	// Caller returns the caller, who may write SQL, as the one who asks; Asker the person in a session, or the caller if it is nil.
	Caller(ctx context.Context) (*agents.Asker, error)
	Asker(ctx context.Context, a *agents.Agent, session *agents.Session) (*agents.Asker, error)
	// Configured returns what the files configure for an agent at the commit that the environment of a branch serves, and the commit.
	Configured(ctx context.Context, a *agents.Agent, branch string) (*project.Configured, string, error)
	// Check returns an error if the one who asks may not ask any more.
	Check(ctx context.Context, asker *agents.Asker) error
	// Prepare returns an answer that has no Log. The context is that of the run.
	Prepare(ctx context.Context, q agents.Question) (*agent.Run, error)
}

// Options configure a service.
type Options struct {
	Agents Agents
	// Evaluations are those of all accounts; nil without a database. Orphans are the same, and record events without a request.
	Evaluations, Orphans *evaluation.Evaluations
	// Threads are the recorded chats.
	Threads *chat.Threads
	// Retention is how long an evaluation is kept after its end.
	Retention time.Duration
	// Meter records and limits what answers use; nil for none.
	Meter *metering.Meter
	Clock clock.WithTickerAndDelayedExecution
	Log   *slog.Logger
}

// Service has the evaluations of this replica.
type Service struct {
	Options
	// holder is this process in leases.
	holder  string
	places  *agents.Places
	metrics *metrics

	mu      sync.Mutex
	isOpen  bool
	jobs    map[jobKey]*job
	working sync.WaitGroup
}

// New returns a service. Its jobs are registered with Run.
func New(o Options) *Service {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Service{Options: o, holder: uuid.NewString(), places: newPlaces(), metrics: newMetrics(), jobs: map[jobKey]*job{}}
}

const (
	// orphansInterval is the time between two searches for evaluations of replicas that were killed.
	orphansInterval = 5 * time.Second
	// orphansBatch is the number of them that are taken over at once.
	orphansBatch = 20
	// retentionInterval is the time between two deletions of old evaluations.
	retentionInterval = 10 * time.Minute
	// endTimeout is how long evaluations may take to end when the server stops.
	endTimeout = 8 * time.Second
	// orphaned is the failure of an evaluation whose replica was killed.
	orphaned = "the server that evaluated has ended: start the evaluation again"
)

// errStopping is the cause with which evaluations end when the server stops.
var errStopping = errors.New("the server is restarting: start the evaluation again")

// Run ends evaluations of replicas that were killed and deletes old ones, until the context ends. Then it ends those of this replica.
func (s *Service) Run(ctx context.Context, in *store.Store) error {
	s.mu.Lock()
	s.isOpen = true
	s.mu.Unlock()
	defer s.stop()
	expired := make(chan error, 1)
	go func() { expired <- evaluation.RunExpiry(ctx, in, s.Retention, retentionInterval, s.Log) }()
	err := store.Repeat(ctx, orphansInterval, s.Log, "Evaluations whose replica was killed could not be ended", s.endOrphans)
	return errors.Join(err, <-expired)
}

// endOrphans ends evaluations of replicas that were killed. Their results remain.
func (s *Service) endOrphans(ctx context.Context) error {
	for {
		leases, failed := s.Orphans.TakeOver(ctx, orphansBatch, s.holder)
		for _, lease := range leases {
			failed = errors.Join(failed, s.Orphans.End(ctx, lease, orphaned))
			s.metrics.ended(lease.Kind, evaluation.Failed)
		}
		if failed != nil || len(leases) < orphansBatch {
			return failed
		}
	}
}

// stop ends the evaluations of this replica.
func (s *Service) stop() {
	s.mu.Lock()
	s.isOpen = false
	for _, j := range s.jobs {
		j.cancel(errStopping)
	}
	s.mu.Unlock()
	done := make(chan struct{})
	go func() {
		s.working.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-s.Clock.After(endTimeout): // other replicas end the rest
	}
}
