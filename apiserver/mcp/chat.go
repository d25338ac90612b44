package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/agents"
	"github.com/quoin-dev/quoin/apiserver/auth"
	"github.com/quoin-dev/quoin/apiserver/chat"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/internal/agent/stream"
)

// autoAgent is the name of the agent that a deployment has for callers who choose none.
const autoAgent = "Auto"

// maxInput is the maximum length of a message, and maxChatID that of the id of a chat, in bytes.
const maxInput, maxChatID = 32 << 10, 256

// chatTool returns the tool chat.
func (s *Server) chatTool() *tool {
	return &tool{
		name: "chat", title: "Ask an agent",
		description: "Asks an agent of a deployment a question about its data. The agent queries with the rights of the user, and answers in words, with the queries that it has run. It can take minutes. " +
			"To ask again about the same, give the chatId of the answer.",
		properties: map[string]any{
			"input":   map[string]any{"type": "string", "minLength": 1, "maxLength": maxInput, "description": "The question."},
			"agentId": map[string]any{"type": []string{"integer", "null"}, "description": "Id of the agent, from listDeployments; null or absent for the agent Auto of the deployment."},
			"chatId":  map[string]any{"type": "string", "maxLength": maxChatID, "description": "The chat to continue; absent for a new one."},
		},
		required: []string{"input"}, locate: s.deploymentOfChat, run: s.chat,
	}
}

// chatArguments are the arguments of chat.
type chatArguments struct {
	Input   string          `json:"input"`
	AgentID json.RawMessage `json:"agentId"`
	ChatID  *string         `json:"chatId"`
}

// deploymentOfChat returns the deployment of a chat: that of the agent if no deployment is named.
func (s *Server) deploymentOfChat(ctx context.Context, scope *rest.Scope, given map[string]json.RawMessage) (*v1alpha1.Deployment, error) {
	id, err := number("agentId", given["agentId"])
	if err != nil {
		return nil, err
	}
	if id == 0 || isGiven(given[deploymentIDProperty]) {
		return s.deploymentOf(ctx, scope, given)
	}
	all, err := s.reached(scope)
	if err != nil {
		return nil, err
	}
	for _, d := range all {
		of, err := s.Agents.ForMCP(ctx, d)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(of, func(a *v1alpha1.Agent) bool { return a.Status.ID == id }) {
			return d, nil
		}
	}
	return nil, notOffered(id)
}

func notOffered(agent int64) error {
	return rest.Forbidden("Agent %d is not available via MCP for this account", agent)
}

// isGiven reports whether an argument has a value.
func isGiven(value json.RawMessage) bool { return len(value) > 0 && string(value) != "null" }

// number returns an id in an argument; 0 for none.
func number(name string, value json.RawMessage) (int64, error) {
	if !isGiven(value) {
		return 0, nil
	}
	text := string(value)
	// Models send numbers as texts, too.
	if unquoted, err := strconv.Unquote(text); err == nil {
		text = unquoted
	}
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil || id < 1 {
		return 0, rest.BadRequest("%s: %s is not a number; allowed: one of listDeployments", name, rest.Clip(text))
	}
	return id, nil
}

// choose returns the agent of a chat, in the deployment of the scope.
func (s *Server) choose(ctx context.Context, id int64) (*agents.Agent, error) {
	d := rest.ScopeFrom(ctx).Deployment
	all, err := s.Agents.ForMCP(ctx, d)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(all, func(a *v1alpha1.Agent) bool { return a.Status.ID == id })
	switch {
	case id == 0 && len(all) == 0:
		return nil, rest.NotFound("agentId: deployment %s has no agent that is available via MCP: use cubeMeta and cubeSqlApi", d.Labels[v1alpha1.LabelID])
	case id == 0:
		// That of the files of the model which is called auto, or the oldest.
		at = max(0, slices.IndexFunc(all, func(a *v1alpha1.Agent) bool { return cmp.Or(a.Spec.ConfigName, a.Name) == "auto" }))
	case at < 0:
		return nil, notOffered(id)
	}
	return s.Agents.Find(ctx, all[at].Status.ID)
}

// chatResult is the result of chat.
type chatResult struct {
	ChatID  string      `json:"chatId"`
	AgentID int64       `json:"agentId"`
	Answer  string      `json:"answer,omitempty"`
	Queries []chatQuery `json:"queries"`
	Error   string      `json:"error,omitempty"`
}

// chatQuery is a query that an agent has run. loadQueryResults has its rows.
type chatQuery struct {
	SQLQuery   string          `json:"sqlQuery,omitempty"`
	Query      json.RawMessage `json:"query,omitempty"`
	QueryTitle string          `json:"queryTitle,omitempty"`
	TotalRows  int             `json:"totalRows"`
	UUID       string          `json:"uuid"`
}

// chat runs the tool chat.
func (s *Server) chat(ctx context.Context, args json.RawMessage) (*outcome, error) {
	var in chatArguments
	if err := json.Unmarshal(args, &in); err != nil {
		return nil, rest.BadRequest("arguments: input and chatId are texts")
	}
	id, err := number("agentId", in.AgentID)
	if err != nil {
		return nil, err
	}
	switch p := rest.ScopeFrom(ctx).Principal; {
	case in.Input == "" || len(in.Input) > maxInput:
		return nil, rest.BadRequest("input: %d bytes; allowed: 1 to %d", len(in.Input), maxInput)
	case in.ChatID != nil && (*in.ChatID == "" || len(*in.ChatID) > maxChatID):
		return nil, rest.BadRequest("chatId: %d bytes; allowed: 1 to %d", len(*in.ChatID), maxChatID)
	case p.User == "" && p.Kind != auth.KindUser:
		return nil, rest.Forbidden("chat: a %s without an owner has no chats: use cubeMeta and cubeSqlApi, or sign in", p.Kind)
	}
	agent, err := s.choose(ctx, id)
	if err != nil {
		return nil, err
	}
	asker, err := s.Agents.Asker(ctx, agent, nil)
	if err != nil {
		return nil, err
	}
	m := chat.Message{Agent: agent, Asker: asker, Text: in.Input}
	if in.ChatID != nil {
		m.ChatID = *in.ChatID
	}
	answer, err := s.Chat.Start(ctx, m)
	if err != nil {
		return nil, err
	}
	messages, err := answer.Wait(ctx, func(l *stream.Line) { progress(ctx, l) })
	if err != nil {
		s.abort(ctx, m, answer.ChatID())
		return nil, err
	}
	if _, err := auth.Again(ctx); errors.Is(err, auth.ErrNoCredential) || errors.Is(err, auth.ErrForbidden) {
		return nil, rest.NewProblem(http.StatusUnauthorized, "the credential was revoked or has expired while the agent was answering")
	}
	return s.result(agent.ID, answer.ChatID(), messages)
}

// abortTimeout is how long the abort of a chat may take whose client has disconnected.
const abortTimeout = 10 * time.Second

// abort ends the run of a chat whose answer no one will read.
func (s *Server) abort(ctx context.Context, m chat.Message, chatID string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortTimeout)
	defer cancel()
	_ = s.Chat.Abort(ctx, m.Agent, m.Asker, chatID) // it ends by its own limits otherwise
}

// progress tells the client which tool the agent calls.
func progress(ctx context.Context, l *stream.Line) {
	if l.ToolCall != nil && l.ToolCall.Result == nil {
		notify(ctx, l.ToolCall.Name)
	}
}

// result returns the result of a run.
func (s *Server) result(agent int64, chatID string, messages *stream.Messages) (*outcome, error) {
	out, rows := chatResult{ChatID: chatID, AgentID: agent, Queries: []chatQuery{}, Error: messages.Err()}, 0
	for _, m := range messages.All() {
		switch {
		case m.ToolCall != nil && m.ToolCall.Result != nil:
			q := chatQuery{}
			if json.Unmarshal([]byte(*m.ToolCall.Result), &q) == nil && q.UUID != "" {
				out.Queries, rows = append(out.Queries, q), rows+q.TotalRows
			}
		case m.Role == stream.RoleAssistant && len(m.Path) > 0 && m.Path[0] == stream.PathFinal:
			out.Answer = m.Content
		}
	}
	value, err := json.Marshal(out)
	failed := ""
	if out.Error != "" {
		failed = "AgentError"
	}
	return &outcome{value: value, rows: rows, failed: failed}, err
}
