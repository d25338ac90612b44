package agents

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/agent"
	"github.com/quoin-dev/quoin/internal/agent/project"
	"github.com/quoin-dev/quoin/internal/agent/semantic"
	"github.com/quoin-dev/quoin/internal/query"
)

// Question is a message to an agent.
type Question struct {
	Agent             *Agent
	Asker             *Asker
	ChatID, MessageID string
	// Branch that is queried; empty for that of production.
	Branch string
	// Evaluation is the number of the evaluation that asks; 0 for a chat.
	Evaluation int64
	// Files configure the agent, instead of those of the branch; nil for these.
	Files *project.Configured
	// OnTable is called with the whole results of queries; it may be nil.
	OnTable func(*semantic.Table)
	// Recorded is true if nothing may be queried: the caller replaces the tools.
	Recorded bool
}

const (
	// parallelCalls is the number of tool calls of an answer at a time.
	parallelCalls = 4
	// bytesOfToken is how many bytes of a conversation count as a token. Those of JSON and of languages with other letters are
	// shorter than those of English, and a conversation that is too long for the model is cut further.
	bytesOfToken = 3
)

// Prepare returns the answer to a question, without its log. ctx is that of the run, which goes on after the request: it has the
// scope and the credential of the caller.
func (s *Service) Prepare(ctx context.Context, q Question) (*agent.Run, error) {
	if err := q.Agent.Available(); err != nil {
		return nil, err
	}
	m, err := s.model(ctx, q.Agent.Endpoint)
	if err != nil {
		return nil, err
	}
	if q.Branch, err = s.ofProduction(ctx, q.Agent.Deployment, q.Branch); err != nil {
		return nil, err
	}
	target := noTarget
	if !q.Recorded {
		if target, err = s.target(ctx, q.Asker, q.Branch); err != nil {
			return nil, err
		}
	}
	r := &agent.Run{
		Model: ofAccount{m, q.Agent.Namespace}, Limits: limitsOf(q.Agent), Audit: &calls{question: q}, Fence: fenceOf(q), NewID: uuid.NewString,
		OnInternal: func(tool string, err error) {
			log.FromContext(ctx).Error(err, "A tool of an agent failed", "tool", tool, "agent", q.Agent.Name, "namespace", q.Agent.Namespace)
		},
	}
	return r, s.equip(ctx, q, r, target)
}

// noTarget is where nothing can be queried.
var noTarget = query.Target{Token: func(context.Context) (string, error) {
	return "", errors.New("a run on recorded results has tried to query")
}}

// limitsOf returns the limits of the answers of an agent.
func limitsOf(a *Agent) agent.Limits {
	l, e := ptr.Deref(a.Spec.Limits, v1alpha1.AgentLimits{}), &a.Endpoint.Spec
	answer := ptr.Deref(e.MaxOutputTokens, v1alpha1.DefaultModelMaxOutputTokens)
	return agent.Limits{
		Turns:    int(ptr.Deref(l.Turns, v1alpha1.DefaultAgentTurns)),
		Calls:    int(ptr.Deref(l.ToolCalls, v1alpha1.DefaultAgentToolCalls)),
		Parallel: parallelCalls,
		Tokens:   ptr.Deref(l.Tokens, v1alpha1.DefaultAgentTokens),
		Answer:   answer,
		Rows:     int(ptr.Deref(l.Rows, v1alpha1.DefaultAgentRows)),
		Time:     time.Duration(ptr.Deref(l.Seconds, v1alpha1.DefaultAgentSeconds)) * time.Second,
		Context:  int(max(ptr.Deref(e.ContextTokens, v1alpha1.DefaultModelContextTokens)-answer, 1) * bytesOfToken),
	}
}

// fenceKey is the secret that marks of data are made of.
var fenceKey = []byte(rand.Text())

// fenceOf returns the marks of data in a thread. They are the same for the whole thread on a replica, so that the provider's cache
// of the beginning of the conversation is used.
func fenceOf(q Question) agent.Fence {
	sum := hmac.New(sha256.New, fenceKey)
	sum.Write([]byte(string(q.Agent.UID) + "/" + strconv.Itoa(len(q.ChatID)) + "/" + q.ChatID + "/" + q.Asker.Owner))
	return agent.FenceOf(strings.TrimRight(base32.StdEncoding.EncodeToString(sum.Sum(nil)[:16]), "="))
}
