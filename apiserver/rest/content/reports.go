package content

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"k8s.io/utils/ptr"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/internal/content/access"
	"github.com/quoin-dev/quoin/internal/content/workspace"
	"github.com/quoin-dev/quoin/internal/store"
)

const (
	reportsPath = "/api/v1/deployments/{deploymentId}/reports"
	reportPath  = reportsPath + "/{reportId}"
)

func (a *api) reportsFamily() rest.Family {
	const read, edit = v1alpha1.PermissionReportRead, v1alpha1.PermissionReportEdit
	return rest.Family{Tag: "Reports", Description: "Reports of a deployment, and the spreadsheets that have their results.", Routes: []rest.Route{
		rest.Handle(http.MethodGet, reportsPath, "getReports", read, "List the reports of a deployment", a.listReports),
		rest.Handle(http.MethodPost, reportsPath, "createReport", edit, "Create a report", a.createReport),
		rest.Handle(http.MethodPut, reportsPath+"/by-public-id/{publicId}", "upsertReportByPublicId", edit,
			"Update the report with a public id, or create it; the same request again changes nothing", a.upsertReport).Preferred(),
		rest.Handle(http.MethodGet, reportPath, "getReport", read, "Get a report", a.getReport),
		rest.Handle(http.MethodPut, reportPath, "updateReport", edit, "Update a report", a.updateReport),
		rest.Handle(http.MethodDelete, reportPath, "deleteReport", edit, "Delete a report", a.deleteReport),
		rest.Handle(http.MethodPut, reportPath+"/connect-workbook", "connectReportToWorkbook", read, "Store where a spreadsheet has the result of a report", a.connectReport),
		rest.Handle(http.MethodDelete, reportPath+"/connect-workbook", "disconnectReportFromWorkbook", read, "Remove one placement of a report, if it exists", a.disconnectReport),
		rest.Handle(http.MethodPut, reportPath+"/refresh", "refreshReport", read, "Record that the result of a report was read again", a.refreshReport),
		rest.Handle(http.MethodGet, "/api/v1/deployments/{deploymentId}/report-folders", "getReportFolders", read,
			"List the folders of a deployment by id, with the number of reports directly in each", a.listReportFolders),
	}}
}

// Report is a report, as documented. The documented fields description and rolesWithAccess are absent.
type Report struct {
	ID           int64         `json:"id" minimum:"1" doc:"Unique in the account."`
	PublicID     string        `json:"publicId" pattern:"^[0-9A-Za-z]{12}$" patternDescription:"12 letters and digits" example:"q3Rev0lutio1" doc:"Unique in the account; it does not change."`
	DeploymentID int64         `json:"deploymentId" minimum:"1"`
	Type         string        `json:"type" enum:"REPORT"`
	Name         string        `json:"name"`
	Title        *string       `json:"title,omitempty" nullable:"true"`
	WorkbookID   *int64        `json:"workbookId,omitempty" nullable:"true" doc:"Absent outside of workbooks."`
	FolderID     *int64        `json:"folderId,omitempty" nullable:"true" doc:"Absent at the root and in a workbook."`
	FolderPath   []FolderEntry `json:"folderPath" doc:"The folders that contain it, or its workbook, from the root."`
	JSONQuery    *string       `json:"jsonQuery,omitempty" nullable:"true" example:"{\"measures\":[\"orders.count\"]}" doc:"A query of the data API as text."`
	SQLQuery     *string       `json:"sqlQuery,omitempty" nullable:"true" doc:"A query in SQL, which is used if there are both. Absent for people who may only read content."`
	PivotItems   *PivotItems   `json:"pivotItems,omitempty"`
	Meta         StoredObject  `json:"meta" doc:"How the result is shown."`
	Source       *string       `json:"source,omitempty" nullable:"true" enum:"GOOGLE_SHEETS,EXCEL,PLAYGROUND,D3"`
	Version      int64         `json:"version" minimum:"1" doc:"Number of changes."`
	CanEdit      bool          `json:"canEdit" doc:"Whether the caller has the level edit on it."`
	CanManage    bool          `json:"canManage" doc:"Whether the caller may delete it: has the level manage, or edit and the permission ReportManage."`

	CurrentQueryChecksum string        `json:"currentQueryChecksum" doc:"SHA-256 of the queries and the pivot items."`
	Placements           []Placement   `json:"externalWorkbookPlacements" doc:"The spreadsheets that have its result, by id."`
	ExternalWorkbookID   *string       `json:"externalWorkbookId,omitempty" nullable:"true" doc:"That of the newest placement, as resultLocation and endResultCell."`
	ResultLocation       *string       `json:"resultLocation,omitempty" nullable:"true"`
	EndResultCell        *string       `json:"endResultCell,omitempty" nullable:"true"`
	CreatedBy            int64         `json:"createdBy" minimum:"1" doc:"The owner, as in user."`
	UserID               int64         `json:"userId" minimum:"1"`
	User                 ResourceOwner `json:"user"`
	RefreshedBy          int64         `json:"refreshedBy" minimum:"1" doc:"As in refreshedByUser."`
	RefreshedByUser      ResourceOwner `json:"refreshedByUser" doc:"The owner before the first refresh."`
	CreatedAt            time.Time     `json:"createdAt"`
	UpdatedAt            time.Time     `json:"updatedAt"`
}

// PivotItems are how a table shows the result of a report.
type PivotItems struct {
	Rows               []string `json:"rows" maxItems:"1000"`
	Columns            []string `json:"columns" maxItems:"1000"`
	Measures           []string `json:"measures" maxItems:"1000"`
	Filters            []string `json:"filters" maxItems:"1000"`
	MeasuresAxis       *string  `json:"measuresAxis,omitempty" nullable:"true" enum:"columns,rows"`
	MeasuresPosition   *string  `json:"measuresPosition,omitempty" nullable:"true" enum:"before,after"`
	DisplayScale       *string  `json:"displayScale,omitempty" nullable:"true" enum:"model,absolute,thousands,millions,billions"`
	ShowRowTotals      *bool    `json:"showRowTotals,omitempty" nullable:"true"`
	ShowColumnTotals   *bool    `json:"showColumnTotals,omitempty" nullable:"true"`
	ShowAppliedFilters *bool    `json:"showAppliedFilters,omitempty" nullable:"true"`
}

// ReportOutput is a report.
type ReportOutput struct{ Body Report }

func (a *api) shownReport(ctx context.Context, by *access.Caller, r *workspace.Report, path []workspace.Place, placements []workspace.Placement) Report {
	owner, refreshedBy := a.shownOwner(ctx, r.Owner), a.shownOwner(ctx, r.RefreshedBy)
	out := Report{
		ID: r.ID, PublicID: r.PublicID, DeploymentID: deploymentID(ctx), Type: "REPORT", Name: r.Name, Title: rest.NilIfEmpty(r.Title),
		FolderPath: shownPath(path), JSONQuery: rest.NilIfEmpty(r.JSONQuery), SQLQuery: rest.NilIfEmpty(r.SQLQuery), PivotItems: shownPivotItems(r),
		Meta: StoredObject(r.Meta), Source: rest.NilIfEmpty(r.Source), Version: r.Version, CurrentQueryChecksum: r.Checksum,
		CanEdit:    r.Level >= access.Edit,
		CanManage:  r.Level >= by.ToManageReports(),
		Placements: make([]Placement, len(placements)), CreatedBy: owner.ID, UserID: owner.ID, User: owner, RefreshedBy: refreshedBy.ID, RefreshedByUser: refreshedBy,
		CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt,
	}
	if r.WorkbookID != 0 {
		out.WorkbookID = &r.WorkbookID
	}
	if r.FolderID != workspace.Root {
		out.FolderID = &r.FolderID
	}
	if hidesQueries(by) {
		out.SQLQuery = nil
	}
	var newest *workspace.Placement
	for i := range placements {
		p := &placements[i]
		out.Placements[i] = a.shownPlacement(ctx, r, p)
		if newest == nil || p.PlacedAt.After(newest.PlacedAt) {
			newest = p
		}
	}
	if newest != nil {
		out.ExternalWorkbookID, out.ResultLocation, out.EndResultCell = &newest.ExternalWorkbook, &newest.ResultLocation, rest.NilIfEmpty(newest.EndResultCell)
	}
	return out
}

// reportOutput returns a report with its path and its placements.
func (a *api) reportOutput(ctx context.Context, by *access.Caller, r *workspace.Report, err error) (*ReportOutput, error) {
	if err != nil {
		return nil, err
	}
	path, err := a.content.Path(ctx, rest.ScopeFrom(ctx).Content(), r.PathID)
	if err != nil {
		return nil, err
	}
	placements, err := a.content.Placements(ctx, rest.ScopeFrom(ctx).Content(), r.ID)
	if err != nil {
		return nil, err
	}
	return &ReportOutput{a.shownReport(ctx, by, r, path, placements)}, nil
}

// ListReportsInput are the parameters of the list.
type ListReportsInput struct {
	rest.InDeployment
	rest.CursorPage
	WorkbookID         rest.Optional[int64]  `query:"workbookId" minimum:"1" maximum:"9007199254740991" doc:"The workbook whose reports are listed."`
	FolderID           rest.Optional[int64]  `query:"folderId" minimum:"0" maximum:"9007199254740991" doc:"The folder whose reports outside of workbooks are listed, 0 for the root."`
	ExternalWorkbookID rest.Optional[string] `query:"externalWorkbookId" maxLength:"1024" doc:"A spreadsheet that has results of the reports."`
	Search             rest.Optional[string] `query:"search" maxLength:"255" doc:"A part of the name, case-insensitive."`
	SortBy             rest.Optional[string] `query:"sortBy" enum:"name,createdAt,updatedAt,lastViewedAt" doc:"By id when absent. lastViewedAt is when the user of the caller has read it last: not together with first and after."`
	SortDirection      rest.Optional[string] `query:"sortDirection" enum:"ASC,DESC" doc:"ASC when absent."`
	Limit              rest.Optional[int]    `query:"limit" minimum:"1" maximum:"1000" doc:"How many reports at most; 20 when absent and page is not. Not together with first and after. If the reports of the page have more than 8 MiB together, it is a 400."`
	Page               rest.Optional[int]    `query:"page" minimum:"1" maximum:"1000000" doc:"Which page, from 1. Not together with first and after."`
}

// ReportsOutput is a page of reports, in both documented shapes.
type ReportsOutput struct {
	Body struct {
		Data     []Report      `json:"data"`
		Items    []Report      `json:"items"`
		Count    int           `json:"count" minimum:"0" doc:"Number of reports on all pages."`
		PageInfo rest.PageInfo `json:"pageInfo"`
	}
}

// reportKey is the position of a report in its list: what it is ordered by, as text or a number, and the id.
type reportKey struct {
	Name *string `json:"n,omitempty"`
	At   *int64  `json:"t,omitempty"`
	ID   int64   `json:"i"`
}

// keyOf returns the position of a report in a list with an order.
func keyOf(order string, r *workspace.Report) reportKey {
	switch order {
	case workspace.ByName:
		return reportKey{Name: ptr.To(workspace.NameKey(r.Name)), ID: r.ID}
	case workspace.ByCreatedAt:
		return reportKey{At: ptr.To(r.CreatedAt.UnixMicro()), ID: r.ID}
	case workspace.ByUpdatedAt:
		return reportKey{At: ptr.To(r.UpdatedAt.UnixMicro()), ID: r.ID}
	}
	return reportKey{ID: r.ID}
}

// values returns the values of the columns that the list is ordered by. A cursor is bound to the order of its list.
func (k reportKey) values() []any {
	switch {
	case k.Name != nil:
		return []any{*k.Name, k.ID}
	case k.At != nil:
		return []any{*k.At, k.ID}
	}
	return []any{k.ID}
}

// sortByViewed is the order for which there are no cursors.
const sortByViewed = "lastViewedAt"

// filter returns what a request selects.
func (in *ListReportsInput) filter() (workspace.ReportFilter, error) {
	f := workspace.ReportFilter{
		ExternalWorkbook: in.ExternalWorkbookID.Value, Search: in.Search.Value, Order: in.SortBy.Value, Descending: in.SortDirection.Value == "DESC",
	}
	if in.FolderID.IsSet {
		f.FolderID = &in.FolderID.Value
	}
	if in.WorkbookID.IsSet {
		f.WorkbookID = &in.WorkbookID.Value
	}
	if f.Order == sortByViewed {
		if f.Order = workspace.ByViewedAt; in.First.IsSet || in.After.IsSet {
			return f, rest.BadRequest("sortBy: lastViewedAt cannot go together with first and after: use limit and page")
		}
	}
	if !in.Limit.IsSet && !in.Page.IsSet {
		return f, nil
	}
	if in.First.IsSet || in.After.IsSet {
		return f, rest.BadRequest("limit and page cannot go together with first and after: use one style of paging")
	}
	f.Whole = true
	if in.First.Value, in.First.IsSet = 20, true; in.Limit.IsSet {
		in.First.Value = in.Limit.Value
	}
	if in.Page.IsSet {
		f.Offset = (in.Page.Value - 1) * in.First.Value
	}
	return f, nil
}

func (a *api) listReports(ctx context.Context, in *ListReportsInput) (*ReportsOutput, error) {
	filter, err := in.filter()
	if err != nil {
		return nil, err
	}
	filter.Viewer = viewerOf(ctx)
	var found workspace.ReportList
	by := a.callerOf(ctx, access.Report)
	fetch := func(ctx context.Context, after *reportKey, limit int) (page rest.StoredPage[workspace.Report], err error) {
		request := store.PageRequest{Limit: limit}
		if after != nil {
			request.After = after.values()
		}
		found, err = a.content.Reports(ctx, rest.ScopeFrom(ctx).Content(), by, filter, request)
		return rest.StoredPage[workspace.Report]{Items: found.Items, HasNext: found.HasNext, HasPrevious: found.HasPrevious}, err
	}
	list, err := rest.PaginateStored(ctx, in.CursorPage, fetch, func(r workspace.Report) reportKey { return keyOf(filter.Order, &r) })
	if err != nil {
		return nil, err
	}
	out := &ReportsOutput{}
	out.Body.Items = make([]Report, len(list.Body.Items))
	for i := range list.Body.Items {
		r := &list.Body.Items[i]
		out.Body.Items[i] = a.shownReport(ctx, &by, r, found.Paths[r.PathID], found.Placements[r.ID])
	}
	out.Body.Data, out.Body.Count, out.Body.PageInfo = out.Body.Items, found.Total, list.Body.PageInfo
	if filter.Order == workspace.ByViewedAt {
		out.Body.PageInfo.StartCursor, out.Body.PageInfo.EndCursor = nil, nil
	}
	return out, nil
}

// ReportFolder is a folder with the number of its reports.
type ReportFolder struct {
	ID           int64  `json:"id" minimum:"1"`
	Name         string `json:"name"`
	ReportsCount int    `json:"reportsCount" minimum:"0"`
}

// ListReportFoldersInput are the parameters of the list.
type ListReportFoldersInput struct {
	rest.InDeployment
	rest.CursorPage
}

func (a *api) listReportFolders(ctx context.Context, in *ListReportFoldersInput) (*rest.List[ReportFolder], error) {
	by := a.callerOf(ctx, access.Report)
	fetch := func(ctx context.Context, after *int64, limit int) (rest.StoredPage[ReportFolder], error) {
		page, err := a.content.ReportFolders(ctx, rest.ScopeFrom(ctx).Content(), by, pageAfter(after, limit))
		out := rest.StoredPage[ReportFolder]{HasNext: page.HasNext, HasPrevious: page.HasPrevious}
		for _, f := range page.Items {
			out.Items = append(out.Items, ReportFolder{f.ID, f.Name, f.Reports})
		}
		return out, err
	}
	return rest.PaginateStored(ctx, in.CursorPage, fetch, func(f ReportFolder) int64 { return f.ID })
}

// InReport has the path parameters of a report.
type InReport struct {
	rest.InDeployment
	ReportID int64 `path:"reportId" minimum:"1" maximum:"9007199254740991" doc:"id of the report."`
}

func (a *api) getReport(ctx context.Context, in *InReport) (*ReportOutput, error) {
	by := a.callerOf(ctx, access.Report)
	r, err := a.content.Report(ctx, rest.ScopeFrom(ctx).Content(), by, in.ReportID)
	if err == nil {
		a.noteView(ctx, workspace.ReportItem, r.ID)
	}
	return a.reportOutput(ctx, &by, r, err)
}

func (a *api) deleteReport(ctx context.Context, in *InReport) (*rest.SuccessOutput, error) {
	if err := a.content.DeleteReport(ctx, rest.ScopeFrom(ctx).Content(), a.callerOf(ctx, access.Report), in.ReportID); err != nil {
		return nil, err
	}
	return rest.Success(), nil
}

// placementID returns the number of a placement; 0 if a body names none, -1 for one that cannot exist.
func placementID(text *string) int64 {
	if ptr.Deref(text, "") == "" {
		return 0
	}
	id, err := strconv.ParseInt(*text, 10, 64)
	if err != nil || id <= 0 {
		return -1
	}
	return id
}
