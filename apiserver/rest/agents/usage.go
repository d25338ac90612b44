package agents

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/utils/ptr"

	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/internal/content/usage"
)

// defaultDays is the number of days of a report without from.
const defaultDays = 30

// ListUsageInput selects the days and the sums, and the page of the list.
type ListUsageInput struct {
	rest.InDeployment
	rest.CursorPage
	From rest.Optional[string] `query:"from" maxLength:"10" pattern:"^[0-9]{4}-[0-9]{2}-[0-9]{2}$" patternDescription:"a date such as 2026-11-01" doc:"The first day, UTC; when absent, so that there are 30 days."`
	To   rest.Optional[string] `query:"to" maxLength:"10" pattern:"^[0-9]{4}-[0-9]{2}-[0-9]{2}$" patternDescription:"a date such as 2026-11-30" doc:"The last day, UTC; today when absent. At most 400 days are summed up."`
	By   []string              `query:"by,explode" enum:"day,agent,endpoint,caller,user,source" maxItems:"6" doc:"What the sums are divided by; day and agent when absent. They are always divided by currency."`
}

// AgentUsage is the sum of the runs of a group.
type AgentUsage struct {
	Day      *string `json:"day,omitempty" nullable:"true" format:"date" example:"2026-11-23"`
	AgentID  *int64  `json:"agentId,omitempty" nullable:"true"`
	Endpoint *string `json:"endpoint,omitempty" nullable:"true" doc:"The name of the ModelEndpoint."`
	Caller   *string `json:"caller,omitempty" nullable:"true" example:"ApiKey:1f0c" doc:"The key, the session or the account that asked."`
	User     *string `json:"user,omitempty" nullable:"true" example:"ScimUser:ada" doc:"The user on whose behalf it asked; empty if there is none."`
	Source   *string `json:"source,omitempty" nullable:"true" enum:"chat,mcp,evaluation"`

	Currency          string  `json:"currency" example:"USD" doc:"Empty for endpoints without a price."`
	Cost              string  `json:"cost" example:"0.012500" doc:"A decimal number."`
	Runs              int64   `json:"runs" doc:"Answers to a message or a question."`
	Requests          int64   `json:"requests" doc:"Requests to the model."`
	ToolCalls         int64   `json:"toolCalls"`
	InputTokens       int64   `json:"inputTokens" doc:"Cached ones are a part of them."`
	CachedInputTokens int64   `json:"cachedInputTokens"`
	OutputTokens      int64   `json:"outputTokens"`
	Seconds           float64 `json:"seconds"`

	position string
}

func (a *api) listUsage(ctx context.Context, in *ListUsageInput) (*rest.List[AgentUsage], error) {
	if a.Usage == nil {
		return nil, rest.Unavailable("the usage of agents is not available: quoin apiserver has no --database-url")
	}
	r, err := a.usageRequest(in)
	if err != nil {
		return nil, err
	}
	sums, err := a.Usage.Report(ctx, rest.ScopeFrom(ctx).Content(), r)
	if err != nil {
		return nil, err
	}
	shown := make([]AgentUsage, len(sums))
	for i := range sums {
		shown[i] = shownUsage(&sums[i], r.By)
	}
	slices.SortFunc(shown, func(x, y AgentUsage) int { return cmp.Compare(x.position, y.position) })
	return rest.PaginateByCursor(ctx, in.CursorPage, shown, func(x AgentUsage) string { return x.position })
}

// usageRequest returns the request of a report.
func (a *api) usageRequest(in *ListUsageInput) (r usage.Request, err error) {
	r.To = a.Clock.Now().UTC()
	if in.To.IsSet {
		if r.To, err = dayOf("to", in.To.Value); err != nil {
			return r, err
		}
	}
	r.From = r.To.AddDate(0, 0, 1-defaultDays)
	if in.From.IsSet {
		if r.From, err = dayOf("from", in.From.Value); err != nil {
			return r, err
		}
	}
	r.By = []usage.Dimension{usage.ByDay, usage.ByAgent}
	if len(in.By) > 0 {
		r.By = nil
	}
	for _, by := range in.By {
		r.By = append(r.By, usage.Dimension(by))
	}
	return r, nil
}

// dayOf parses a date.
func dayOf(field, text string) (time.Time, error) {
	day, err := time.Parse(time.DateOnly, text)
	if err != nil || day.Year() < 1971 {
		return day, rest.BadRequest("%s: %q; allowed: a date such as 2026-11-01, not before 1971", field, rest.Clip(text))
	}
	return day, nil
}

// shownUsage returns a sum as documented, with the dimensions that were asked for.
func shownUsage(s *usage.Sum, by []usage.Dimension) AgentUsage {
	a := s.Amounts
	out := AgentUsage{
		Currency: s.Currency, Cost: fmt.Sprintf("%d.%06d", a.Cost/1e6, a.Cost%1e6), Runs: s.Runs, Requests: a.Requests, ToolCalls: a.ToolCalls,
		InputTokens: a.InputTokens, CachedInputTokens: a.CachedTokens, OutputTokens: a.OutputTokens, Seconds: a.Duration.Seconds(),
		position: fmt.Sprintf("%s\x00%016d\x00%s\x00%s\x00%s\x00%s\x00%s", s.Day.Format(time.DateOnly), s.Agent, s.Endpoint, s.Caller, s.User, s.Source, s.Currency),
	}
	for _, d := range by {
		switch d {
		case usage.ByDay:
			out.Day = ptr.To(s.Day.Format(time.DateOnly))
		case usage.ByAgent:
			out.AgentID = &s.Agent
		case usage.ByEndpoint:
			out.Endpoint = &s.Endpoint
		case usage.ByCaller:
			out.Caller = &s.Caller
		case usage.ByUser:
			out.User = &s.User
		case usage.BySource:
			out.Source = ptr.To(string(s.Source))
		}
	}
	return out
}
