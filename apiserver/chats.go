package apiserver

import (
	"cmp"
	"context"
	"errors"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/access"
	"github.com/quoin-dev/quoin/apiserver/agentfiles"
	"github.com/quoin-dev/quoin/apiserver/agents"
	"github.com/quoin-dev/quoin/apiserver/auth"
	"github.com/quoin-dev/quoin/apiserver/chat"
	"github.com/quoin-dev/quoin/apiserver/datatokens"
	"github.com/quoin-dev/quoin/apiserver/directory"
	"github.com/quoin-dev/quoin/apiserver/evaluations"
	"github.com/quoin-dev/quoin/apiserver/metering"
	"github.com/quoin-dev/quoin/apiserver/recording"
	"github.com/quoin-dev/quoin/apiserver/rest"
	restagents "github.com/quoin-dev/quoin/apiserver/rest/agents"
	"github.com/quoin-dev/quoin/internal/agent/project"
	"github.com/quoin-dev/quoin/internal/content"
	chatstore "github.com/quoin-dev/quoin/internal/content/chat"
	"github.com/quoin-dev/quoin/internal/content/evaluation"
	"github.com/quoin-dev/quoin/internal/content/usage"
	"github.com/quoin-dev/quoin/internal/store"
	"github.com/quoin-dev/quoin/internal/telemetry"
)

// useChat sets the chats with agents. Their jobs run while the database is open; Agents is set before requests are served.
func (g *storedGroups) useChat(database *store.Database, c Config) error {
	g.chat = chat.New(chat.Options{
		Threads:   &chatstore.Threads{DB: g.content.Database, Record: recording.RecordTx},
		Retention: cmp.Or(c.ChatRetention, chat.DefaultRetention), Clock: clock.RealClock{}, Log: c.Log,
		Meter: &metering.Meter{Usage: &usage.Usage{DB: database}, Limits: c.ChatTokens, Clock: clock.RealClock{}, Metrics: metering.NewMetrics()},
	})
	database.WhileOpen(g.chat.Run)
	return telemetry.Register(metrics.Registry, append(g.chat.Collectors(), g.chat.Meter.Metrics.Collectors()...)...)
}

// useEvaluations sets the evaluations of agents, after the chats. Agents is set before requests are served.
func (g *storedGroups) useEvaluations(k8s cluster.Cluster, database *store.Database, c Config) error {
	g.evaluations = evaluations.New(evaluations.Options{
		Evaluations: &evaluation.Evaluations{DB: g.content.Database, Record: recordOfRequest},
		Orphans:     &evaluation.Evaluations{DB: database, Record: recordWithoutRequest(k8s.GetCache())},
		Threads:     g.chat.Threads, Retention: g.chat.Retention, Meter: g.chat.Meter, Clock: clock.RealClock{}, Log: c.Log,
	})
	database.WhileOpen(g.evaluations.Run)
	return telemetry.Register(metrics.Registry, g.evaluations.Collectors()...)
}

// newAgents returns what chats need of the agents of all accounts.
func newAgents(k8s cluster.Cluster, people *directory.Directory, roles *access.Roles, tokens *datatokens.Issuer, files restagents.Files, c Config) *agents.Service {
	return agents.New(agents.Options{
		Client: k8s.GetClient(), Live: k8s.GetAPIReader(), Namespace: c.Namespace,
		Users:      auth.NewActiveUsers(people, roles, k8s.GetAPIReader(), clock.RealClock{}),
		Attributes: people.Attributes, Files: configuredBy(files), FilesOf: configuredAt(files), Tokens: tokens, HTTP: c.Gateway.Client(c.Tracer), Clock: clock.RealClock{},
	})
}

// configuredBy returns a function that reads what files configure for an agent. Before production serves a commit there are no files.
func configuredBy(files restagents.Files) func(ctx context.Context, a *v1alpha1.Agent, d *v1alpha1.Deployment, branch string) (*project.Configured, error) {
	return func(ctx context.Context, a *v1alpha1.Agent, d *v1alpha1.Deployment, branch string) (*project.Configured, error) {
		s := *rest.ScopeFrom(ctx)
		s.Deployment = d
		var read *agentfiles.Read
		var err error
		if branch == "" {
			read, err = files.Served(ctx, d, s.Content())
		} else {
			read, err = files.OfBranch(ctx, d, s.Content(), branch)
		}
		if errors.Is(err, agentfiles.ErrNotServed) {
			return &project.Configured{}, nil
		}
		if err != nil {
			return nil, content.Prefixed("the files of the agent", err)
		}
		configured := read.For(agentfiles.ConfigName(a))
		return &configured, nil
	}
}

// configuredAt returns a function that reads what files configure for an agent at the commit that an environment serves.
func configuredAt(files restagents.Files) func(ctx context.Context, a *v1alpha1.Agent, d *v1alpha1.Deployment, e *v1alpha1.Environment) (*project.Configured, string, error) {
	return func(ctx context.Context, a *v1alpha1.Agent, d *v1alpha1.Deployment, e *v1alpha1.Environment) (*project.Configured, string, error) {
		s := *rest.ScopeFrom(ctx)
		s.Deployment = d
		read, err := files.OfEnvironment(ctx, d, s.Content(), e)
		if err != nil {
			return nil, "", content.Prefixed("the files of the agent", err)
		}
		configured := read.For(agentfiles.ConfigName(a))
		return &configured, read.Commit, nil
	}
}
