// Package chat is the AI API: people send messages to agents, and read the answers as streams of lines. The wire format is that of
// internal/agent/stream, and docs/decisions/0085 has the design.
//
// A message begins a run, which is not tied to the connection: this replica appends lines to the log of the thread, and a stream
// reads them, here or on another replica.
//
//	chat.go      the service, its background work
//	routes.go    the routes and their bodies
//	request.go   checks of a request that its schema does not express
//	run.go       runs: begin, abort, how they end
//	live.go      a run that this replica works on: lines in memory, and to the store
//	keep.go      lines of all runs of this replica are stored
//	expired.go   runs of replicas that were killed are ended
//	follow.go    reads the lines of a run, wherever it runs
//	history.go   messages of a thread
//	respond.go   streams
//	limits.go    runs in progress
//	metrics.go   metrics
package chat

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
	"github.com/quoin-dev/quoin/internal/content/chat"
	"github.com/quoin-dev/quoin/internal/store"
)

// Agents finds agents and prepares their answers; *agents.Service implements it.
type Agents interface {
	// Find returns an agent of the account by its number, on whose deployment the caller may chat.
	Find(ctx context.Context, id int64) (*agents.Agent, error)
	// Asker returns the person who asks: the one in the session, or the caller if it is nil.
	Asker(ctx context.Context, a *agents.Agent, session *agents.Session) (*agents.Asker, error)
	// Prepare returns an answer that has no Log. The context is that of the run.
	Prepare(ctx context.Context, q agents.Question) (*agent.Run, error)
}

// Options configure a service.
type Options struct {
	Agents Agents
	// Threads are the threads of all accounts; nil without a database.
	Threads *chat.Threads
	// Retention is how long a thread is kept after its last change.
	Retention time.Duration
	// Meter records and limits what answers use; nil for none.
	Meter *metering.Meter
	Clock clock.WithTickerAndDelayedExecution
	Log   *slog.Logger
}

// DefaultRetention is the default of Options.Retention.
const DefaultRetention = 90 * 24 * time.Hour

// Service has the runs of this replica.
type Service struct {
	Options
	// holder is this process in leases.
	holder  string
	runs    runs
	places  *agents.Places
	metrics *metrics
}

// New returns a service. Its jobs are registered with Run.
func New(o Options) *Service {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Service{Options: o, holder: uuid.NewString(), places: newPlaces(), metrics: newMetrics()}
	s.runs.all = map[runKey]*live{}
	return s
}

const (
	// expiredInterval is the time between two searches for runs of replicas that were killed.
	expiredInterval = 5 * time.Second
	// retentionInterval is the time between two deletions of old threads.
	retentionInterval = 10 * time.Minute
	// endTimeout is how long runs may take to end when the server stops.
	endTimeout = 8 * time.Second
)

// errStopping is the cause with which runs end when the server stops.
var errStopping = errors.New("the server is restarting: send the message again")

// Run ends runs of replicas that were killed and deletes old threads, until the context ends. Then it ends the runs of this replica.
func (s *Service) Run(ctx context.Context, in *store.Store) error {
	s.runs.open()
	defer s.stop()
	ended := make(chan error, 1)
	go func() { ended <- chat.RunExpiry(ctx, in, s.Retention, retentionInterval, s.Log) }()
	err := store.Repeat(ctx, expiredInterval, s.Log, "Runs of chats whose replica was killed could not be ended", s.endExpired)
	return errors.Join(err, <-ended)
}

// stop ends the runs of this replica.
func (s *Service) stop() {
	for _, l := range s.runs.close() {
		l.cancel(errStopping)
	}
	done := make(chan struct{})
	go func() {
		s.runs.working.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-s.Clock.After(endTimeout): // other replicas end the rest
	}
}

// runKey identifies a run.
type runKey struct {
	account string
	run     int64
}

// runs are those that this replica works on.
type runs struct {
	mu     sync.Mutex
	all    map[runKey]*live
	isOpen bool
	// kept is true while a goroutine stores the lines of runs.
	kept bool
	// working waits for the runs.
	working sync.WaitGroup
}

func (r *runs) open() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.isOpen = true
}

// close rejects further runs, and returns those in progress.
func (r *runs) close() (all []*live) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.isOpen = false
	for _, l := range r.all {
		all = append(all, l)
	}
	return all
}

// admits reports whether runs can begin.
func (r *runs) admits() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.isOpen
}

// add adds a run. added is false if the server stops, and first is true if nothing stores the lines of runs yet.
func (r *runs) add(account string, l *live) (added, first bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.isOpen {
		return false, false
	}
	r.working.Add(1)
	r.all[runKey{account, l.lease.Run}] = l
	first, r.kept = !r.kept, true
	return true, first
}

// list returns the runs. ended is true if there are none: then nothing stores their lines.
func (r *runs) list() (all []*live, ended bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kept = len(r.all) > 0
	for _, l := range r.all {
		all = append(all, l)
	}
	return all, !r.kept
}

func (r *runs) remove(account string, l *live) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.all, runKey{account, l.lease.Run})
	r.working.Done()
}

// find returns a run; nil if this replica does not work on it.
func (r *runs) find(account string, run int64) *live {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all[runKey{account, run}]
}
