package content

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"reflect"

	"github.com/danielgtaylor/huma/v2"
	"k8s.io/utils/ptr"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/queries"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/internal/content/access"
	"github.com/quoin-dev/quoin/internal/content/workspace"
	"github.com/quoin-dev/quoin/internal/query"
	"github.com/quoin-dev/quoin/internal/query/controls"
)

// Queries runs queries for the caller of a request.
type Queries interface {
	Respond(ctx context.Context, r queries.Request) (*huma.StreamResponse, error)
}

func (a *api) runsFamily() rest.Family {
	return rest.Family{Tag: "Runs", Description: "Results of reports: the rows that the caller may see. The operations are Quoin's own.", Routes: []rest.Route{
		rest.Handle(http.MethodPost, reportPath+"/run", "runReport", v1alpha1.PermissionReportRead, "Run the query of a report", a.runReport).WithDocument(describeRun),
		rest.Handle(http.MethodPost, workbookPath+"/dashboard/reports/{snapshotId}/run", "runDashboardReport", v1alpha1.PermissionWorkbookRead,
			"Run the query of a report as it is in the published dashboard of a workbook", a.runSnapshot).WithDocument(describeRun),
	}}
}

// RunInput is what to run a query with.
type RunInput struct {
	Controls *RunControls `json:"controls,omitempty" doc:"They narrow or change what is shown, and do not limit what the caller may see."`
	TimeZone *string      `json:"timezone,omitempty" nullable:"true" maxLength:"64" example:"Europe/Zurich" doc:"A name of the IANA time zone database. When absent, that of the dashboard's settings or of the report's meta, or else UTC. The timezone of a JSON query takes precedence."`
	Limit    *int         `json:"limit,omitempty" nullable:"true" minimum:"1" maximum:"1000000" doc:"How many rows at most. When absent, the query's own limit, or else the default of the data API."`
	Cache    *string      `json:"cache,omitempty" nullable:"true" enum:"stale-if-slow,stale-while-revalidate,must-revalidate,no-cache" doc:"Which cached results the data API may answer with; stale-if-slow when absent."`
}

// RunControls are the controls of a dashboard, with their values.
type RunControls struct {
	Filters         []RunFilter         `json:"filters,omitempty" nullable:"true" maxItems:"200"`
	TimeGrains      []RunTimeGrain      `json:"timeGrains,omitempty" nullable:"true" maxItems:"200"`
	MemberSwitchers []RunMemberSwitcher `json:"memberSwitchers,omitempty" nullable:"true" maxItems:"200"`
}

// TransformSchema implements huma.SchemaTransformer.
func (RunControls) TransformSchema(_ huma.Registry, s *huma.Schema) *huma.Schema {
	return rest.OrNull(s)
}

// RunFilter is a filter on a member.
type RunFilter struct {
	Member         string  `json:"member" maxLength:"257" example:"orders.status"`
	Operator       *string `json:"operator,omitempty" nullable:"true" enum:"equals,not_equals,greater_than,greater_than_or_equal,less_than,less_than_or_equal,contains,not_contains,starts_with,not_starts_with,ends_with,not_ends_with,is_null,is_not_null,is_empty,is_not_empty,between,custom" doc:"equals when absent. A filter without operator and value is cleared."`
	Value          any     `json:"value,omitempty" example:"\"shipped\"" doc:"A string, a number or a boolean, or an array of them."`
	StartInclusive *bool   `json:"startInclusive,omitempty" nullable:"true" doc:"Of between; true when absent."`
	EndInclusive   *bool   `json:"endInclusive,omitempty" nullable:"true" doc:"Of between; true when absent."`
	CaseSensitive  *bool   `json:"caseSensitive,omitempty" nullable:"true"`
}

// RunTimeGrain is the granularity of a time dimension.
type RunTimeGrain struct {
	Member string `json:"member" maxLength:"257" example:"orders.created_at"`
	Grain  string `json:"grain" maxLength:"128" example:"month"`
}

// RunMemberSwitcher replaces a member by another one of the same view.
type RunMemberSwitcher struct {
	Member   string `json:"member" maxLength:"257" example:"orders.count" doc:"The member of the report."`
	Selected string `json:"selected" maxLength:"128" example:"total_amount" doc:"The other member, without the view."`
}

// accepts is the Accept header of a request.
type accepts struct{ header string }

// Resolve implements huma.Resolver.
func (a *accepts) Resolve(hc huma.Context) []error {
	a.header = hc.Header("Accept")
	return nil
}

// RunReportInput has the parameters of a run of a report.
type RunReportInput struct {
	InReport
	accepts
	Body *RunInput
}

func (a *api) runReport(ctx context.Context, in *RunReportInput) (*huma.StreamResponse, error) {
	r, err := a.content.Report(ctx, rest.ScopeFrom(ctx).Content(), a.callerOf(ctx, access.Report), in.ReportID)
	if err != nil {
		return nil, err
	}
	return a.run(ctx, stored{name: r.Name, sql: r.SQLQuery, json: r.JSONQuery, meta: r.Meta, permission: v1alpha1.PermissionReportRead}, in.Body, in.header)
}

// RunSnapshotInput has the parameters of a run of a report of a dashboard.
type RunSnapshotInput struct {
	InWorkbook
	SnapshotID int64 `path:"snapshotId" minimum:"1" maximum:"9007199254740991" doc:"The id of a snapshot in reportSnapshots of the version that is shown."`
	accepts
	Body *RunInput
}

func (a *api) runSnapshot(ctx context.Context, in *RunSnapshotInput) (*huma.StreamResponse, error) {
	d, err := a.shownVersion(ctx, in.WorkbookID)
	if err != nil {
		return nil, err
	}
	for i := range d.Snapshots {
		if n := &d.Snapshots[i]; n.ID == in.SnapshotID {
			of := stored{name: n.Name, sql: n.SQLQuery, json: n.JSONQuery, meta: n.Meta, timeZone: zoneOfSettings(d.Config), permission: v1alpha1.PermissionWorkbookRead}
			return a.run(ctx, of, in.Body, in.header)
		}
	}
	return nil, rest.NotFound("snapshotId: version %d of the dashboard of workbook %d, which is shown, has no report snapshot %d", d.Number, in.WorkbookID, in.SnapshotID)
}

// shownVersion returns the version of the dashboard of a workbook that is shown.
func (a *api) shownVersion(ctx context.Context, workbook int64) (*workspace.Dashboard, error) {
	s := rest.ScopeFrom(ctx).Content()
	if _, err := a.content.Workbook(ctx, s, a.callerOf(ctx, access.Workbook), workbook); err != nil {
		return nil, err
	}
	d, err := a.content.Published(ctx, s, workbook)
	if err == nil && d == nil {
		return nil, rest.NotFound("workbook %d has no published dashboard", workbook)
	}
	return d, err
}

// stored is a query of a report, and what a run depends on besides.
type stored struct {
	name, sql, json, meta string
	// timeZone takes precedence over that of the meta; empty for none.
	timeZone   string
	permission v1alpha1.Permission
}

// run runs a stored query.
func (a *api) run(ctx context.Context, s stored, in *RunInput, accept string) (*huma.StreamResponse, error) {
	if s.sql == "" && s.json == "" {
		return nil, rest.Conflict("the report %q has no query", s.name)
	}
	if in == nil {
		in = &RunInput{}
	}
	q := query.Query{SQL: s.sql, TimeZone: cmp.Or(ptr.Deref(in.TimeZone, ""), s.timeZone, zoneOf(s.meta)), Cache: query.Cache(ptr.Deref(in.Cache, "")), First: ptr.Deref(in.Limit, 0)}
	if q.SQL == "" {
		q.JSON = json.RawMessage(s.json)
	}
	return a.queries.Respond(ctx, queries.Request{Query: q, Controls: in.Controls.values(), Accept: accept, Name: s.name, Permission: s.permission})
}

// values returns the controls for a query.
func (c *RunControls) values() controls.Controls {
	var out controls.Controls
	if c == nil {
		return out
	}
	for _, f := range c.Filters {
		out.Filters = append(out.Filters, controls.Filter{
			Member: f.Member, Operator: ptr.Deref(f.Operator, ""), Value: f.Value, StartInclusive: f.StartInclusive, EndInclusive: f.EndInclusive, CaseSensitive: f.CaseSensitive,
		})
	}
	for _, g := range c.TimeGrains {
		out.Grains = append(out.Grains, controls.Grain(g))
	}
	for _, s := range c.MemberSwitchers {
		out.Switchers = append(out.Switchers, controls.Switcher(s))
	}
	return out
}

// zoneOf returns the time zone in the meta of a report; empty if there is none.
func zoneOf(meta string) string {
	var in struct {
		TimeZone string `json:"timezone"`
	}
	_ = json.Unmarshal([]byte(meta), &in) // of another type: none
	return in.TimeZone
}

// zoneOfSettings returns the time zone in the settings of a dashboard; empty if there is none.
func zoneOfSettings(config string) string {
	var in struct {
		Settings json.RawMessage `json:"settings"`
	}
	_ = json.Unmarshal([]byte(config), &in)
	return zoneOf(string(in.Settings))
}

// ReportResult is a result in JSON.
type ReportResult struct {
	Columns      []ResultColumn  `json:"columns" doc:"In the order of the values in rows."`
	TimeZone     string          `json:"timeZone" example:"Europe/Zurich" doc:"Of the times, which have no offset."`
	LastRefresh  *string         `json:"lastRefresh,omitempty" format:"date-time" doc:"When the data were read from the database; absent if it is not known."`
	Stale        bool            `json:"stale" doc:"Whether the data API answered from its cache because fresh data would have taken too long."`
	LimitReached bool            `json:"limitReached" doc:"Whether there may be more rows, because of limit or of the default of the data API."`
	Controls     []ControlResult `json:"controls" doc:"An element for each control of the request."`
	Rows         [][]any         `json:"rows" doc:"Strings, numbers, booleans, times such as 2026-03-25T00:00:00.000, and nulls."`
}

// ResultColumn is a column of a result.
type ResultColumn struct {
	Name string `json:"name" example:"orders.status"`
	Type string `json:"type" enum:"string,integer,number,boolean,time"`
}

// ControlResult says whether a control was applied.
type ControlResult struct {
	Control string `json:"control" example:"filters[0]"`
	Member  string `json:"member" example:"orders.status"`
	Applied bool   `json:"applied"`
	Reason  string `json:"reason,omitempty" doc:"Why it was skipped, or how it was applied differently."`
}

// describeRun adds what the types of a run do not express: the formats of the response and its own statuses.
func describeRun(doc *huma.OpenAPI, op *huma.Operation) {
	schemas := doc.Components.Schemas
	text := &huma.Schema{Type: huma.TypeString}
	op.Responses["200"] = &huma.Response{
		Description: "The rows, in the format that Accept prefers; JSON when absent. A response that ends with an error after its first rows is not complete: its connection ends early, and the last line of CSV begins with #ERROR.",
		Headers: map[string]*huma.Param{queries.SkippedHeader: {
			Description: "A control that was not applied, with the reason; several times, in CSV and Arrow.", Schema: text, Example: `filters[0]; member=orders.status; reason="the query does not use the view"`,
		}},
		Content: map[string]*huma.MediaType{
			"application/json": {Schema: schemas.Schema(reflect.TypeFor[ReportResult](), true, "ReportResult"), Example: exampleResult},
			"text/csv":         {Schema: text, Example: "orders.status,orders.count\r\nshipped,12\r\n"},

			"application/vnd.apache.arrow.stream": {Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}},
		},
	}
	problem := op.Responses["400"].Content
	for status, description := range map[string]string{
		"400": "The request or the query is not valid, or the result is larger than allowed: the message is that of the data API.",
		"403": "The caller lacks a permission, or the data model does not let the caller see what the query reads.",
		"406": "None of the formats is accepted.",
		"429": "Too many queries of the caller, the account or the deployment are running: Retry-After.",
		"502": "The data API failed, for instance because the data model does not compile.",
		"503": "No pod of the deployment is ready, the server is busy (Retry-After), or it has no --gateway-address.",
		"504": "The query took longer than 10 minutes, and was cancelled.",
	} {
		op.Responses[status] = &huma.Response{Description: description, Content: problem}
	}
}

// exampleResult is an example in the document.
var exampleResult = ReportResult{
	Columns: []ResultColumn{{"orders.status", "string"}, {"orders.count", "integer"}}, TimeZone: "UTC", LastRefresh: ptr.To("2026-11-22T10:00:00Z"),
	Controls: []ControlResult{{Control: "filters[0]", Member: "orders.status", Applied: true}}, Rows: [][]any{{"shipped", 12}},
}
