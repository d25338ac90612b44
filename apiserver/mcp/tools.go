package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/recording"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/serving"
)

// CalledTool is the name of the event of a tool call.
var CalledTool = audit.Declare("Called MCP tool")

// tool is a tool of the endpoint.
type tool struct {
	name, title, description string
	// properties are the properties of the input by name, as JSON schemas, and required the names of those that are required.
	properties map[string]any
	required   []string
	// locate, if it is not nil, returns the deployment of a call from its arguments; run has it in the scope of its context. The tool
	// then has the property deploymentId.
	locate func(ctx context.Context, scope *rest.Scope, given map[string]json.RawMessage) (*v1alpha1.Deployment, error)
	// run runs a call. args has only properties of the tool, without deploymentId. An error is a *rest.Problem or one that is not
	// shown.
	run func(ctx context.Context, args json.RawMessage) (*outcome, error)
}

// outcome is the result of a call.
type outcome struct {
	// value is the result, a JSON object.
	value json.RawMessage
	// rows is the number of rows of data in it.
	rows int
	// failed is the class of a failure that the client is told in value; empty for a success.
	failed string
}

const deploymentIDProperty = "deploymentId"

// schema returns the JSON schema of the input.
func (t *tool) schema() map[string]any {
	properties := map[string]any{}
	for name, of := range t.properties {
		properties[name] = of
	}
	if t.locate != nil {
		properties[deploymentIDProperty] = map[string]any{
			"type": "integer", "minimum": 1, "description": "Id of the deployment, from listDeployments. Optional if there is only one.",
		}
	}
	out := map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
	if len(t.required) > 0 {
		out["required"] = t.required
	}
	return out
}

// add adds a tool to the server of the protocol.
func (s *Server) add(server *mcp.Server, t *tool) {
	closed := false
	definition := &mcp.Tool{
		Name: t.name, Title: t.title, Description: t.description, InputSchema: t.schema(),
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: &closed},
	}
	server.AddTool(definition, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return s.call(withProgress(ctx, r), t, r.Params.Arguments), nil
	})
}

type progressKey struct{}

// withProgress returns a context with which notify tells the client what a call does, if the client has asked for it.
func withProgress(ctx context.Context, r *mcp.CallToolRequest) context.Context {
	token, steps := r.Params.GetProgressToken(), 0.0
	if token == nil {
		return ctx
	}
	return context.WithValue(ctx, progressKey{}, func(message string) {
		steps++
		// A client that has disconnected needs no notification.
		_ = r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Progress: steps, Message: message})
	})
}

// notify tells the client what a call does.
func notify(ctx context.Context, message string) {
	if tell, ok := ctx.Value(progressKey{}).(func(string)); ok {
		tell(message)
	}
}

type requestKey struct{}

// withRequest returns a context in which calls end when the request does: the protocol continues calls of disconnected clients, whose
// results would be lost.
func withRequest(ctx context.Context) context.Context {
	return context.WithValue(ctx, requestKey{}, ctx)
}

// untilRequestEnds returns a context that ends with that of withRequest, too.
func untilRequestEnds(ctx context.Context) (context.Context, context.CancelFunc) {
	request, _ := ctx.Value(requestKey{}).(context.Context)
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(request, cancel)
	return ctx, func() { stop(); cancel() }
}

// call runs a tool call, between the events of its attempt and of its outcome.
func (s *Server) call(ctx context.Context, t *tool, args json.RawMessage) *mcp.CallToolResult {
	ctx, cancel := untilRequestEnds(ctx)
	defer cancel()
	serving.Annotate(ctx, "tool", t.name)
	args, scope, err := s.prepare(ctx, t, args)
	if err != nil {
		return failure(ctx, t, err)
	}
	ctx = scope.With(ctx)
	e, err := begin(ctx, t, args)
	if err != nil {
		return failure(ctx, t, err)
	}
	out, err := guarded(ctx, t, args)
	if recorded := end(ctx, e, out, err); recorded != nil {
		// Without the event of its outcome, a result is not shown.
		return failure(ctx, t, recorded)
	}
	if err != nil {
		return failure(ctx, t, err)
	}
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: string(out.value)}}, StructuredContent: out.value, IsError: out.failed != ""}
}

// guarded runs a tool. A panic is an error, and a rejection of the content store is the problem that REST makes of it.
func guarded(ctx context.Context, t *tool, args json.RawMessage) (out *outcome, err error) {
	defer func() {
		if p := recover(); p != nil {
			log.FromContext(ctx).Error(fmt.Errorf("panic: %v", p), "A tool has failed", "tool", t.name, "stack", string(debug.Stack()))
			out, err = nil, fmt.Errorf("panic: %v", p)
		}
	}()
	out, err = t.run(ctx, args)
	var rejected *content.Error
	if errors.As(err, &rejected) {
		err = rest.ProblemOf(ctx, err)
	}
	return out, err
}

// failure returns the result of a call that has failed. The model of the client reads it.
func failure(ctx context.Context, t *tool, err error) *mcp.CallToolResult {
	var shown *rest.Problem
	message := "the tool has failed: try again later"
	switch {
	case errors.As(err, &shown):
		message = shown.Message
	case ctx.Err() != nil:
		message = "the call has ended: it has taken too long, or the client has disconnected"
	case errors.Is(err, audit.ErrUnavailable):
		message = "the call cannot be recorded in the audit log now: try again later"
	default:
		log.FromContext(ctx).Error(err, "A tool of MCP has failed", "tool", t.name)
	}
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: message}}, IsError: true}
}

// prepare checks the arguments of a call and returns them without deploymentId, with the scope in which the tool runs.
func (s *Server) prepare(ctx context.Context, t *tool, args json.RawMessage) (json.RawMessage, *rest.Scope, error) {
	scope := *rest.ScopeFrom(ctx)
	given := map[string]json.RawMessage{}
	if len(bytes.TrimSpace(args)) > 0 {
		if err := json.Unmarshal(args, &given); err != nil {
			return nil, nil, rest.BadRequest("arguments: not a JSON object")
		}
	}
	allowed := t.names()
	for name := range given {
		if !slices.Contains(allowed, name) {
			return nil, nil, rest.BadRequest("%s: there is no such argument; allowed: %s", rest.Clip(name), strings.Join(allowed, ", "))
		}
	}
	for _, name := range t.required {
		if _, ok := given[name]; !ok {
			return nil, nil, rest.BadRequest("%s: missing", name)
		}
	}
	if t.locate != nil {
		var err error
		if scope.Deployment, err = t.locate(ctx, &scope, given); err != nil {
			return nil, nil, err
		}
		delete(given, deploymentIDProperty)
	}
	prepared, err := json.Marshal(given)
	return prepared, &scope, err
}

// names returns the names of the arguments.
func (t *tool) names() []string {
	var names []string
	for name := range t.properties {
		names = append(names, name)
	}
	slices.Sort(names)
	if t.locate != nil {
		names = append(names, deploymentIDProperty)
	}
	return names
}

// deploymentOf returns the deployment that the argument deploymentId names.
func (s *Server) deploymentOf(_ context.Context, scope *rest.Scope, given map[string]json.RawMessage) (*v1alpha1.Deployment, error) {
	return s.deployment(scope, given[deploymentIDProperty])
}

// deployment returns the deployment with an id, which the account offers and the caller may read: the only one without an id. Those that
// the account does not offer and those that do not exist are the same for the caller.
func (s *Server) deployment(scope *rest.Scope, id json.RawMessage) (*v1alpha1.Deployment, error) {
	all, err := s.reached(scope)
	if err != nil {
		return nil, err
	}
	ids := make([]string, len(all))
	for i, d := range all {
		ids[i] = d.Labels[v1alpha1.LabelID]
	}
	text := string(id)
	if text == "" || text == "null" {
		if len(all) == 1 {
			return all[0], nil
		}
		return nil, rest.BadRequest("%s: missing; allowed: %s", deploymentIDProperty, strings.Join(ids, ", "))
	}
	// Models send numbers as texts, too.
	if unquoted, err := strconv.Unquote(text); err == nil {
		text = unquoted
	}
	if number, err := strconv.ParseInt(text, 10, 64); err != nil || number < 1 {
		return nil, rest.BadRequest("%s: %s is not the id of a deployment; allowed: %s", deploymentIDProperty, rest.Clip(text), strings.Join(ids, ", "))
	}
	if i := slices.Index(ids, text); i >= 0 {
		return all[i], nil
	}
	return nil, rest.Forbidden("Deployment %s is not available via MCP for this account", text)
}

// reached returns the deployments that the account offers and the caller may read, by number.
func (s *Server) reached(scope *rest.Scope) ([]*v1alpha1.Deployment, error) {
	all, err := s.Deployments(scope.Namespace(), scope.Principal, v1alpha1.PermissionDeploymentRead)
	if err != nil {
		return nil, err
	}
	names := offered(scope.Account)
	var reached []*v1alpha1.Deployment
	for _, d := range all {
		if slices.Contains(names, d.Name) {
			reached = append(reached, d)
		}
	}
	return reached, nil
}

// maxRecorded is the maximum length of the arguments in an event in bytes.
const maxRecorded = 8 << 10

// begin records that a call is attempted. A call that cannot be recorded does not run.
func begin(ctx context.Context, t *tool, args json.RawMessage) (audit.Event, error) {
	scope := rest.ScopeFrom(ctx)
	id, err := uuid.NewV7()
	if err != nil {
		return audit.Event{}, fmt.Errorf("make the id of an event: %w", err)
	}
	shown := args
	if len(shown) > maxRecorded {
		shown = json.RawMessage(strconv.Quote(fmt.Sprintf("%d bytes", len(args))))
	}
	e := audit.Event{ID: id, Time: time.Now(), Name: CalledTool, Object: audit.Object{Kind: "Tool", Name: t.name}, Outcome: audit.Attempted}
	if e.Changes, err = json.Marshal(map[string]any{"arguments": shown}); err != nil {
		return audit.Event{}, err
	}
	if scope.Deployment != nil {
		e.Deployment = recording.DeploymentOf(scope.Deployment)
	}
	return e, recording.Do(ctx, e)
}

// recordTimeout is how long the event of an outcome may take after the request has ended.
const recordTimeout = 10 * time.Second

// end records the outcome of a call.
func end(ctx context.Context, e audit.Event, out *outcome, err error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	var shown *rest.Problem
	e.Outcome = audit.Failed
	switch {
	case errors.As(err, &shown):
		e.Reason = strconv.Itoa(shown.GetStatus())
	case err != nil:
		e.Reason = "InternalError"
	case out.failed != "":
		e.Reason = out.failed
	default:
		e.Outcome = audit.Succeeded
	}
	if err == nil {
		changes := map[string]json.RawMessage{}
		if err := json.Unmarshal(e.Changes, &changes); err != nil {
			return err
		}
		changes["rows"] = json.RawMessage(strconv.Itoa(out.rows))
		if e.Changes, err = json.Marshal(changes); err != nil {
			return err
		}
	}
	return recording.Do(ctx, e)
}
