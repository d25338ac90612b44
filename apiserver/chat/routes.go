package chat

import (
	"context"
	"net/http"
	"reflect"
	"regexp"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/agents"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/internal/agent/stream"
)

const (
	agentPath  = "/api/v1/public/{accountName}/agents/{agentId}/chat"
	streamPath = agentPath + "/stream-chat-state"
	abortPath  = agentPath + "/abort"
	// maxBody is the largest body of a message in bytes, with its images.
	maxBody = 8 << 20
)

var streamPattern = regexp.MustCompile(`^/api/v1/public/[^/]+/agents/[^/]+/chat/stream-chat-state$`)

// IsStream reports whether the response of a request may be a stream, which has a limit of its own.
func IsStream(r *http.Request) bool {
	return r.Method == http.MethodPost && streamPattern.MatchString(r.URL.Path)
}

// BodyLimit returns the maximum size of the body of a request; 0 for the default.
func BodyLimit(r *http.Request) int64 {
	if IsStream(r) {
		return maxBody
	}
	return 0
}

// Families returns the routes. They are the same whatever the options are.
func (s *Service) Families() []rest.Family {
	return []rest.Family{{Tag: "AI API", Description: "Chats with agents, which answer from the data of a deployment with what the person who asks may see.", Routes: []rest.Route{
		rest.Handle(http.MethodPost, streamPath, "streamChatState", v1alpha1.PermissionDeploymentAgentRead, "Send a message to an agent, or read a chat, as a stream of lines", s.stream).
			WithMaxBody(maxBody).WithDocument(describeStream),
		rest.Handle(http.MethodPost, abortPath, "abortChat", v1alpha1.PermissionDeploymentAgentRead, "End the answer that is in progress; what was said remains", s.abort).
			WithStatus(http.StatusNoContent).WithDocument(describeAbort),
	}}}
}

// InAgent has the parameters of the address of an agent.
type InAgent struct {
	AccountName string `path:"accountName" maxLength:"63" doc:"The name of the account, which is that of the host."`
	AgentID     string `path:"agentId" pattern:"^[1-9][0-9]{0,15}$" doc:"The number of the agent."`
}

// StreamInput is a message, or a request for a chat.
type StreamInput struct {
	InAgent
	Body StreamBody
}

// StreamBody is the body of a message.
type StreamBody struct {
	Input            *string           `json:"input,omitempty" nullable:"true" minLength:"1" maxLength:"32768" doc:"A message. When absent, the response is the chat as it is, with the answer in progress."`
	ChatID           *string           `json:"chatId,omitempty" nullable:"true" minLength:"1" maxLength:"128" doc:"The id of a chat: one that a response had, or a new one that the client chooses. When absent, the message begins a new chat."`
	MessageID        *string           `json:"messageId,omitempty" nullable:"true" maxLength:"64" pattern:"^[0-9]{13,}-message$" example:"1795316968000-message" doc:"The idempotency key of the message. The same one is answered once: another request reads the answer in progress, or has it again."`
	ActiveBranchName *string           `json:"activeBranchName,omitempty" nullable:"true" maxLength:"255" doc:"The branch whose environment is queried; that of production when absent."`
	IsDefaultBranch  *bool             `json:"isDefaultBranch,omitempty" nullable:"true" doc:"Whether production is queried. When absent, true without activeBranchName and false with it."`
	IsDevMode        *bool             `json:"isDevMode,omitempty" nullable:"true" doc:"Accepted and not used."`
	AgentID          *float64          `json:"agentId,omitempty" nullable:"true" doc:"The number of the agent; it must be that of the path."`
	Context          *string           `json:"context,omitempty" nullable:"true" enum:"chat,workbook,model,dashboard,external,mcp,ai-widget,onboarding,explore,connection_setup,slack_dm,published-dashboard" doc:"Where the message was written. Accepted and not used."`
	Images           []ImageInput      `json:"images,omitempty" nullable:"true" maxItems:"4" doc:"Images that the model sees with this message only; 5 MiB together."`
	WorkbookID       *float64          `json:"workbookId,omitempty" nullable:"true" doc:"Accepted and not used."`
	WorkbookContext  *WorkbookContext  `json:"workbookContext,omitempty" doc:"What the workbook shows, which the model sees as data."`
	DashboardContext *DashboardContext `json:"dashboardContext,omitempty" doc:"What the dashboard shows, which the model sees as data."`
	CubeCredentials  any               `json:"cubeCredentials,omitempty" secret:"true" doc:"Accepted and not used."`
	SessionSettings  *SessionInput     `json:"sessionSettings,omitempty" doc:"On whose behalf a program asks. It is required for a key without an owner. Without it, people ask for themselves."`
}

// ImageInput is an image.
type ImageInput struct {
	MimeType string  `json:"mimeType" enum:"image/png,image/jpeg,image/gif,image/webp"`
	Data     string  `json:"data" doc:"Base64."`
	Name     *string `json:"name,omitempty" nullable:"true" maxLength:"255"`
}

// WorkbookContext is what a workbook shows.
type WorkbookContext struct {
	Charts  []ChartContext  `json:"charts,omitempty" nullable:"true" maxItems:"100"`
	Filters []FilterContext `json:"filters,omitempty" nullable:"true" maxItems:"100"`
}

// TransformSchema implements huma.SchemaTransformer.
func (WorkbookContext) TransformSchema(_ huma.Registry, s *huma.Schema) *huma.Schema {
	return rest.OrNull(s)
}

// ChartContext is a chart.
type ChartContext struct {
	WidgetID       string   `json:"widgetId" maxLength:"255"`
	SQL            string   `json:"sql" maxLength:"65536"`
	BaseSQL        *string  `json:"baseSql,omitempty" nullable:"true" maxLength:"65536"`
	Title          *string  `json:"title,omitempty" nullable:"true" maxLength:"1024"`
	ReportID       *float64 `json:"reportId,omitempty" nullable:"true"`
	LogicalFilters any      `json:"logicalFilters,omitempty"`
}

// FilterContext is a filter.
type FilterContext struct {
	WidgetID     string  `json:"widgetId" maxLength:"255"`
	SemanticView *string `json:"semanticView" nullable:"true" maxLength:"255"`
	Filter       any     `json:"filter,omitempty"`
}

// DashboardContext is what a dashboard shows.
type DashboardContext struct {
	PublicID    string            `json:"publicId" maxLength:"255"`
	Title       *string           `json:"title,omitempty" nullable:"true" maxLength:"1024"`
	Widgets     []any             `json:"widgets,omitempty" nullable:"true" maxItems:"200"`
	Snapshots   []SnapshotContext `json:"snapshots,omitempty" nullable:"true" maxItems:"200"`
	ViewerState *ViewerState      `json:"viewerState,omitempty"`
}

// TransformSchema implements huma.SchemaTransformer.
func (DashboardContext) TransformSchema(_ huma.Registry, s *huma.Schema) *huma.Schema {
	return rest.OrNull(s)
}

// SnapshotContext is a widget with its data.
type SnapshotContext struct {
	WidgetID string  `json:"widgetId" maxLength:"255"`
	SQLQuery *string `json:"sqlQuery,omitempty" nullable:"true" maxLength:"65536"`
	Data     []any   `json:"data,omitempty" nullable:"true" maxItems:"10000"`
	Spec     any     `json:"spec,omitempty"`
}

// ViewerState has the values of the controls.
type ViewerState struct {
	FilterState    any `json:"filterState,omitempty"`
	TimeGrainState any `json:"timeGrainState,omitempty"`
}

// TransformSchema implements huma.SchemaTransformer.
func (ViewerState) TransformSchema(_ huma.Registry, s *huma.Schema) *huma.Schema {
	return rest.OrNull(s)
}

// SessionInput names the person on whose behalf a program asks.
type SessionInput struct {
	ExternalID          *string          `json:"externalId,omitempty" nullable:"true" maxLength:"200" doc:"The id of a person in the caller's application. Letters are lower case, and white space around it is removed. This or internalId is required."`
	InternalID          *string          `json:"internalId,omitempty" nullable:"true" maxLength:"255" doc:"The user name of a user of the account. It needs the permission Admin on the deployment. groups, roles, userAttributes and securityContext must be absent."`
	Email               *string          `json:"email,omitempty" nullable:"true" maxLength:"320" doc:"Of an external person. Accepted and not used."`
	Groups              *[]string        `json:"groups,omitempty" nullable:"true" maxItems:"200" doc:"The groups of an external person for access policies."`
	Roles               *[]string        `json:"roles,omitempty" nullable:"true" maxItems:"200" doc:"Roles of an external person. Accepted and not used: a message needs none."`
	UserAttributes      []AttributeInput `json:"userAttributes,omitempty" nullable:"true" maxItems:"200" doc:"User attributes of an external person, which the account must have."`
	SecurityContext     rest.ExactObject `json:"securityContext,omitempty" nullable:"true" secret:"true" doc:"The security context of an external person, for the data model."`
	PublicDashboardID   *string          `json:"publicDashboardId,omitempty" nullable:"true" maxLength:"255" doc:"Accepted and not used."`
	IsEphemeral         *bool            `json:"isEphemeral,omitempty" nullable:"true" enum:"true" doc:"External persons are not kept as users of the account."`
	EphemeralTTLSeconds *float64         `json:"ephemeralTtlSeconds,omitempty" nullable:"true" minimum:"0" doc:"Accepted and not used."`
}

// TransformSchema implements huma.SchemaTransformer.
func (SessionInput) TransformSchema(_ huma.Registry, s *huma.Schema) *huma.Schema {
	return rest.OrNull(s)
}

// AttributeInput is the value of a user attribute.
type AttributeInput struct {
	Name  string     `json:"name" minLength:"1" maxLength:"63"`
	Value rest.Exact `json:"value,omitempty" doc:"A string, a number, a boolean, an array of strings or of numbers, or null for none. The type is that of the attribute."`
}

// stream serves a message or a chat.
func (s *Service) stream(ctx context.Context, in *StreamInput) (*huma.StreamResponse, error) {
	a, asker, err := s.asker(ctx, in.InAgent, in.Body.SessionSettings)
	if err != nil {
		return nil, err
	}
	if in.Body.Input == nil {
		chatID, err := in.Body.chat()
		if err != nil {
			return nil, err
		}
		answer, err := s.Open(ctx, a, asker, chatID)
		return respond(answer), err
	}
	m, err := in.Body.message()
	if err != nil {
		return nil, err
	}
	m.Agent, m.Asker = a, asker
	answer, err := s.Start(ctx, m)
	return respond(answer), err
}

// asker returns the agent of a path and the person who asks.
func (s *Service) asker(ctx context.Context, in InAgent, session *SessionInput) (*agents.Agent, *agents.Asker, error) {
	if name := rest.ScopeFrom(ctx).Account.Name; in.AccountName != name {
		return nil, nil, rest.NotFound("accountName: %q is not the account of this host", rest.Clip(in.AccountName))
	}
	if s == nil || s.Threads == nil {
		return nil, nil, rest.Unavailable("chats need a database: quoin apiserver has no --database-url")
	}
	a, err := s.Agents.Find(ctx, agentNumber(in.AgentID))
	if err != nil {
		return nil, nil, err
	}
	settings, err := session.Settings()
	if err != nil {
		return nil, nil, err
	}
	asker, err := s.Agents.Asker(ctx, a, settings)
	return a, asker, err
}

// respond returns the response that streams an answer; nil for none.
func respond(a *Answer) *huma.StreamResponse {
	if a == nil {
		return nil
	}
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		_, w := humago.Unwrap(hc)
		a.Serve(hc.Context(), w)
	}}
}

// AbortInput names a chat.
type AbortInput struct {
	InAgent
	Body struct {
		ChatID          string        `json:"chatId" minLength:"1" maxLength:"128"`
		SessionSettings *SessionInput `json:"sessionSettings,omitempty"`
	}
}

func (s *Service) abort(ctx context.Context, in *AbortInput) (*struct{}, error) {
	a, asker, err := s.asker(ctx, in.InAgent, in.Body.SessionSettings)
	if err != nil {
		return nil, err
	}
	return nil, s.Abort(ctx, a, asker, in.Body.ChatID)
}

// describeStream adds what the types do not express.
func describeStream(doc *huma.OpenAPI, op *huma.Operation) {
	op.Responses["200"] = &huma.Response{
		Description: "Lines of JSON, each of which is sent when it is there: __cutoff__ with the id of the chat, the message, lines of the agent and of its tools, and __state__ with the messages of the chat. A line with isDelta is appended to the message of its id, another one replaces it. The answer is the last line whose graphPath begins with final. A line {\"error\": …} ends a response that has failed. Empty lines keep the connection alive.",
		Content:     map[string]*huma.MediaType{stream.ContentType: {Schema: doc.Components.Schemas.Schema(reflect.TypeFor[stream.Line](), true, "ChatLine")}},
	}
	rest.DescribeResponses(op, map[string]string{
		"403": "The chat is another user's, or the caller may not ask on behalf of the person of sessionSettings or on the agent's deployment.",
		"404": "The account is not that of the host, or there is no such agent, user, branch or chat.",
		"409": "Another answer of the chat is in progress (Streaming for thread is in progress), the agent is suspended, or the chat is too long.",
		"429": "Too many answers of the person, the caller or the account are in progress: Retry-After.",
		"502": "The Git repository of the data model does not answer.",
		"503": "The model of the agent is not available, or the server is busy: Retry-After.",
	})
}

func describeAbort(_ *huma.OpenAPI, op *huma.Operation) {
	rest.DescribeResponses(op, map[string]string{
		"204": "The answer ends, or there is none in progress.", "403": "The chat is another user's.", "404": "There is no such agent or chat.",
	})
}
