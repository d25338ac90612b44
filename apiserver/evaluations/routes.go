package evaluations

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/chat"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/internal/content/evaluation"
)

const (
	inDeployment    = "/api/v1/deployments/{deploymentId}"
	evaluationsPath = inDeployment + "/evaluations"
	evaluationPath  = evaluationsPath + "/{evaluationId}"
)

// Families returns the routes. They are the same whatever the options are.
func (s *Service) Families() []rest.Family {
	const permission = v1alpha1.PermissionDeploymentAgentRead
	return []rest.Family{{
		Tag:         "Agent evaluations",
		Description: "Evaluations of agents: questions of the data model's files whose answers are known, and recorded chats that are replayed. They run as the caller, after the response.",
		Routes: []rest.Route{
			rest.Handle(http.MethodPost, evaluationsPath, "startEvaluation", permission, "Start an evaluation of an agent on the questions of the data model's files", s.startEvaluation).
				WithStatus(http.StatusAccepted).WithDocument(describeStart),
			rest.Handle(http.MethodPost, inDeployment+"/chat-replays", "startChatReplay", permission, "Replay a recorded chat, on its recorded tool results or with queries; the response is an evaluation", s.startReplay).
				WithStatus(http.StatusAccepted).WithDocument(describeReplay),
			rest.Handle(http.MethodGet, evaluationsPath, "listEvaluations", permission, "List the evaluations and replays, the newest first", s.list),
			rest.Handle(http.MethodGet, evaluationPath, "getEvaluation", permission, "Get an evaluation", s.get),
			rest.Handle(http.MethodGet, evaluationPath+"/results", "listEvaluationResults", permission, "List the results of an evaluation, by number", s.results),
			rest.Handle(http.MethodDelete, evaluationPath, "cancelEvaluation", permission, "Cancel an evaluation in progress; what was finished remains", s.cancel).
				WithStatus(http.StatusNoContent).WithDocument(describeCancel),
		},
	}}
}

// StartInput selects what is evaluated.
type StartInput struct {
	rest.InDeployment
	Body StartBody
}

// StartBody is the body of an evaluation.
type StartBody struct {
	BranchName    *string `json:"branchName,omitempty" nullable:"true" minLength:"1" maxLength:"244" doc:"The branch whose environment is queried, and whose commit there has the questions; that of production when absent."`
	AgentName     *string `json:"agentName,omitempty" nullable:"true" minLength:"1" maxLength:"253" example:"analyst" doc:"The agent: the name of its object, its name in agents/config.yml, or its displayName. When absent, the only one of the deployment, or the one that the files call auto."`
	QuestionFile  *string `json:"questionFile,omitempty" nullable:"true" minLength:"1" maxLength:"1024" example:"agents/eval_questions/orders.yml" doc:"Only the questions of this file: its path in the data model, or the end of it. All of the agent's space when absent."`
	ModelEndpoint *string `json:"modelEndpoint,omitempty" nullable:"true" minLength:"1" maxLength:"63" example:"claude" doc:"Another ModelEndpoint that the account may use; that of the agent when absent."`
	MaxTokens     *int64  `json:"maxTokens,omitempty" nullable:"true" minimum:"1000" maximum:"100000000" doc:"The tokens that all answers may use, of requests and answers together; 5,000,000 when absent."`
}

// ReplayInput selects a chat.
type ReplayInput struct {
	rest.InDeployment
	Body ReplayBody
}

// ReplayBody is the body of a replay.
type ReplayBody struct {
	AgentID         int64              `json:"agentId" minimum:"1" maximum:"9007199254740991" doc:"The agent of the chat."`
	ChatID          string             `json:"chatId" minLength:"1" maxLength:"128" doc:"A chat of the caller, or of the person of sessionSettings."`
	ToolResults     string             `json:"toolResults" enum:"recorded,live" doc:"recorded: tools return what they have returned in the chat, and nothing is queried; a call that is not in the recording ends the answer, with the verdict review. live: tools query as the caller, or as the person of sessionSettings."`
	ModelEndpoint   *string            `json:"modelEndpoint,omitempty" nullable:"true" minLength:"1" maxLength:"63" example:"claude" doc:"Another ModelEndpoint that the account may use; that of the agent when absent."`
	BranchName      *string            `json:"branchName,omitempty" nullable:"true" minLength:"1" maxLength:"244" doc:"The branch whose environment is queried, with toolResults live; that of production when absent."`
	MaxTokens       *int64             `json:"maxTokens,omitempty" nullable:"true" minimum:"1000" maximum:"100000000" doc:"The tokens that all answers may use, of requests and answers together; 5,000,000 when absent."`
	SessionSettings *chat.SessionInput `json:"sessionSettings,omitempty" doc:"The person whose chat it is, as in a message. It is required for a key without an owner."`
}

// Output is an evaluation.
type Output struct{ Body Evaluation }

func (s *Service) startEvaluation(ctx context.Context, in *StartInput) (*Output, error) {
	return output(s.evaluate(ctx, &in.Body))
}

func (s *Service) startReplay(ctx context.Context, in *ReplayInput) (*Output, error) {
	return output(s.replay(ctx, &in.Body))
}

func output(e *evaluation.Evaluation, err error) (*Output, error) {
	if err != nil {
		return nil, problem(err)
	}
	body, err := shown(e)
	return &Output{body}, err
}

// problem returns the response of an error of the content store.
func problem(err error) error {
	switch {
	case errors.Is(err, evaluation.ErrUnknown):
		return rest.NotFound("evaluationId: %s", evaluation.ErrUnknown)
	case errors.Is(err, evaluation.ErrEnded):
		return rest.Conflict("evaluationId: %s", evaluation.ErrEnded)
	}
	return err
}

// InEvaluation is the path of an evaluation.
type InEvaluation struct {
	rest.InDeployment
	EvaluationID int64 `path:"evaluationId" minimum:"1" maximum:"9007199254740991"`
}

// find returns the evaluation of a path.
func (s *Service) find(ctx context.Context, id int64) (*evaluation.Evaluation, error) {
	if s == nil || s.Evaluations == nil {
		return nil, errNoDatabase
	}
	found, err := s.Evaluations.Find(ctx, rest.ScopeFrom(ctx).Content(), id)
	return found, problem(err)
}

// ofUser begins the owner of an evaluation on behalf of a user of the account.
const ofUser = "ScimUser:"

// isOf reports whether the caller has started an evaluation, or whether it has run on behalf of the caller.
func isOf(ctx context.Context, e *evaluation.Evaluation) bool {
	scope := rest.ScopeFrom(ctx)
	p := scope.Principal
	switch {
	case e.Owner == scope.Caller(), p.User != "" && e.Owner == ofUser+p.User: // with all keys and sessions
		return true
	case e.Caller != scope.Caller():
		return false
	}
	// The name of a key can be that of a deleted one, which another user had. Only Admin starts an evaluation on behalf of another user.
	return !strings.HasPrefix(e.Owner, ofUser) || p.MayOn(v1alpha1.PermissionAdmin, scope.Deployment.Name)
}

func (s *Service) get(ctx context.Context, in *InEvaluation) (*Output, error) {
	return output(s.find(ctx, in.EvaluationID))
}

// ListInput selects a page.
type ListInput struct {
	rest.InDeployment
	rest.CursorPage
}

func (s *Service) list(ctx context.Context, in *ListInput) (*rest.List[Evaluation], error) {
	if s == nil || s.Evaluations == nil {
		return nil, errNoDatabase
	}
	scope := rest.ScopeFrom(ctx).Content()
	return rest.PaginateStored(ctx, in.CursorPage, func(ctx context.Context, after *int64, limit int) (out rest.StoredPage[Evaluation], err error) {
		last := int64(0)
		if after != nil {
			last = *after
		}
		page, err := s.Evaluations.List(ctx, scope, last, limit)
		if err != nil {
			return out, err
		}
		out.HasNext, out.HasPrevious = page.HasNext, page.HasPrevious
		for i := range page.Items {
			e, err := shown(&page.Items[i])
			if err != nil {
				return out, err
			}
			out.Items = append(out.Items, e)
		}
		return out, nil
	}, func(e Evaluation) int64 { return e.ID })
}

// ResultsInput selects a page.
type ResultsInput struct {
	InEvaluation
	rest.CursorPage
}

func (s *Service) results(ctx context.Context, in *ResultsInput) (*rest.List[Result], error) {
	e, err := s.find(ctx, in.EvaluationID)
	if err != nil {
		return nil, err
	}
	mine := isOf(ctx, e)
	return rest.PaginateStored(ctx, in.CursorPage, func(ctx context.Context, after *int, limit int) (out rest.StoredPage[Result], err error) {
		last := 0
		if after != nil {
			last = *after
		}
		page, err := s.Evaluations.Results(ctx, rest.ScopeFrom(ctx).Content(), e.ID, last, limit)
		if err != nil {
			return out, err
		}
		out.HasNext, out.HasPrevious = page.HasNext, page.HasPrevious
		for i := range page.Items {
			var r Result
			if err := json.Unmarshal(page.Items[i].Body, &r); err != nil {
				return out, err
			}
			if !mine {
				r.hide()
			}
			out.Items = append(out.Items, r)
		}
		return out, nil
	}, func(r Result) int { return r.ID })
}

// cancel ends an evaluation of the caller. Those of others need DeploymentUpdate.
func (s *Service) cancel(ctx context.Context, in *InEvaluation) (*struct{}, error) {
	e, err := s.find(ctx, in.EvaluationID)
	if err != nil {
		return nil, err
	}
	scope := rest.ScopeFrom(ctx)
	if !isOf(ctx, e) {
		if err := scope.Require(v1alpha1.PermissionDeploymentUpdate); err != nil {
			return nil, err
		}
	}
	if err := s.Evaluations.Cancel(ctx, scope.Content(), e.ID, scope.Caller()); err != nil {
		return nil, problem(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if j := s.jobs[jobKey{string(scope.Account.UID), e.ID}]; j != nil { // others learn of it when they renew the lease
		j.cancel(&errCancelled{scope.Caller()})
	}
	return nil, nil
}

func describeStart(_ *huma.OpenAPI, op *huma.Operation) {
	rest.DescribeResponses(op, map[string]string{
		"202": "The evaluation has started. Its status is completed or failed at the end.",
		"403": "The caller does not hold DeploymentRead or SqlRunnerRead on the deployment, or is a key without an owner and without DeploymentUpdate.",
		"404": "There is no such deployment, branch, agent, model endpoint or file with questions.",
		"409": "There are no questions for the agent, or more than 200; the agent is suspended, or the environment serves no commit.",
		"429": "Too many evaluations of the person, the caller or the account are in progress: Retry-After.",
		"502": "The Git repository of the data model does not answer.",
		"503": "The model of the agent or the environment is not available.",
	})
}

func describeReplay(_ *huma.OpenAPI, op *huma.Operation) {
	rest.DescribeResponses(op, map[string]string{
		"202": "The replay has started: an evaluation with a result for each message.",
		"403": "The chat is another user's, or the caller may not ask on behalf of the person of sessionSettings or on the deployment.",
		"404": "There is no such deployment, branch, agent, model endpoint, user or chat.",
		"409": "The chat has no answers, or more than 200, or the agent is suspended.",
		"429": "Too many evaluations of the person, the caller or the account are in progress: Retry-After.",
		"502": "The Git repository of the data model does not answer.",
		"503": "The model of the agent or the environment is not available.",
	})
}

func describeCancel(_ *huma.OpenAPI, op *huma.Operation) {
	rest.DescribeResponses(op, map[string]string{
		"204": "It ends as failed within some seconds.", "403": "Another caller has started it, and the caller does not hold DeploymentUpdate.", "409": "It has ended.",
	})
}
