package content

import (
	"context"
	"encoding/json"
	"time"

	"k8s.io/utils/ptr"

	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/internal/content/access"
	"github.com/quoin-dev/quoin/internal/content/workspace"
)

// Dashboard is a version of a published dashboard, as documented. The documented fields createdBy, fromSharedWorkspace,
// restrictDataDownload and useBoardDashboards are absent.
type Dashboard struct {
	ID              int64            `json:"id" minimum:"1"`
	PublicID        string           `json:"publicId" pattern:"^[0-9A-Za-z]{12}$" patternDescription:"12 letters and digits" example:"q3Rev0lutio1" doc:"Unique in the account; it is that of all versions."`
	WorkbookID      int64            `json:"workbookId" minimum:"1"`
	DeploymentID    int64            `json:"deploymentId" minimum:"1"`
	VersionID       int64            `json:"versionId" minimum:"1"`
	VersionNumber   int64            `json:"versionNumber" minimum:"1"`
	Status          string           `json:"status" enum:"published"`
	AllowEmbed      bool             `json:"allowEmbed" doc:"Whether sessions that are signed for embedding may show it."`
	Title           *string          `json:"title,omitempty" nullable:"true"`
	Description     *string          `json:"description,omitempty" nullable:"true"`
	Config          StoredObject     `json:"config" doc:"Its charts refer to reports by reportId and reportPublicId."`
	ReportSnapshots []ReportSnapshot `json:"reportSnapshots" doc:"The reports as they were when the version was published."`
}

// ReportSnapshot is a report as it was when a version was published, as documented. What follows meta is taken from it.
type ReportSnapshot struct {
	ID                int64                `json:"id" minimum:"1"`
	ReportID          int64                `json:"reportId" minimum:"1"`
	VersionNumber     int64                `json:"versionNumber" minimum:"1" doc:"Counts the states of the report that were published."`
	Name              string               `json:"name"`
	Title             *string              `json:"title,omitempty" nullable:"true"`
	SQLQuery          *string              `json:"sqlQuery,omitempty" nullable:"true"`
	Meta              StoredObject         `json:"meta"`
	Kind              *string              `json:"kind,omitempty" nullable:"true" enum:"vega,table,kpi,html,map,sankey"`
	Spec              *StoredValue         `json:"spec,omitempty"`
	PythonCode        *string              `json:"pythonCode,omitempty" nullable:"true"`
	FillMissingRows   *StoredObject        `json:"fillMissingRows,omitempty" nullable:"true"`
	PeriodComparisons []StoredObject       `json:"periodComparisons,omitempty" nullable:"true"`
	Preferences       *SnapshotPreferences `json:"preferences,omitempty"`
}

// SnapshotPreferences are how the columns of a result are shown.
type SnapshotPreferences struct {
	ColumnFormats StoredObject `json:"columnFormats"`
}

// shownSnapshot returns a snapshot as documented. Parts of the meta that are null or absent are left out.
func shownSnapshot(by *access.Caller, n *workspace.Snapshot) ReportSnapshot {
	out := ReportSnapshot{
		ID: n.ID, ReportID: n.ReportID, VersionNumber: n.Number, Name: n.Name, Title: rest.NilIfEmpty(n.Title), SQLQuery: rest.NilIfEmpty(n.SQLQuery), Meta: StoredObject(n.Meta),
	}
	if hidesQueries(by) {
		out.SQLQuery = nil
	}
	var meta struct {
		Kind, PythonCode               *string
		Spec                           json.RawMessage
		FillMissingRows, ColumnFormats json.RawMessage
		PeriodComparisons              []json.RawMessage
	}
	if err := json.Unmarshal([]byte(n.Meta), &meta); err != nil { // the schema of the meta permits only these types
		return out
	}
	present := func(part json.RawMessage) bool { return len(part) > 0 && string(part) != "null" }
	out.Kind, out.PythonCode = meta.Kind, meta.PythonCode
	if present(meta.Spec) {
		out.Spec = ptr.To(StoredValue(meta.Spec))
	}
	if present(meta.FillMissingRows) {
		out.FillMissingRows = ptr.To(StoredObject(meta.FillMissingRows))
	}
	if present(meta.ColumnFormats) {
		out.Preferences = &SnapshotPreferences{StoredObject(meta.ColumnFormats)}
	}
	for _, c := range meta.PeriodComparisons {
		out.PeriodComparisons = append(out.PeriodComparisons, StoredObject(c))
	}
	return out
}

// shownDashboard returns a dashboard as documented; nil for nil.
func shownDashboard(ctx context.Context, by *access.Caller, d *workspace.Dashboard) *Dashboard {
	if d == nil {
		return nil
	}
	out := &Dashboard{
		ID: d.ID, PublicID: d.PublicID, WorkbookID: d.WorkbookID, DeploymentID: deploymentID(ctx), VersionID: d.VersionID, VersionNumber: d.Number,
		Status: "published", AllowEmbed: d.AllowEmbed, Title: rest.NilIfEmpty(d.Title), Description: rest.NilIfEmpty(d.Description),
		Config: StoredObject(d.Config), ReportSnapshots: make([]ReportSnapshot, len(d.Snapshots)),
	}
	for i := range d.Snapshots {
		out.ReportSnapshots[i] = shownSnapshot(by, &d.Snapshots[i])
	}
	return out
}

// DashboardOutput is a dashboard.
type DashboardOutput struct{ Body Dashboard }

func dashboardOutput(ctx context.Context, by *access.Caller, d *workspace.Dashboard, err error) (*DashboardOutput, error) {
	if err != nil {
		return nil, err
	}
	return &DashboardOutput{*shownDashboard(ctx, by, d)}, nil
}

// PublishInput is the body of a publication. Absent fields stay.
type PublishInput struct {
	InWorkbook
	Body struct {
		WorkbookID  int64                 `json:"workbookId" minimum:"1" maximum:"9007199254740991" doc:"The workbook of the path."`
		DashboardID *int64                `json:"dashboardId,omitempty" nullable:"true" minimum:"1" maximum:"9007199254740991" doc:"The dashboard of the workbook."`
		Config      rest.Nullable[Object] `json:"config,omitempty" doc:"The draft of the workbook when absent or null. Each widget has an id, and each chart a report of the workbook."`
		Title       *string               `json:"title,omitempty" nullable:"true" maxLength:"255" doc:"When absent, that of the config, or else of the version before."`
		Description *string               `json:"description,omitempty" nullable:"true" maxLength:"4096" doc:"When absent, that of the config, or else of the version before."`
		AllowEmbed  *bool                 `json:"allowEmbed,omitempty" nullable:"true"`
	}
}

func (a *api) publishDashboard(ctx context.Context, in *PublishInput) (*DashboardOutput, error) {
	b := &in.Body
	if b.WorkbookID != in.WorkbookID {
		return nil, rest.BadRequest("workbookId: %d is not %d, the workbook in the path", b.WorkbookID, in.WorkbookID)
	}
	by := a.callerOf(ctx, access.Workbook)
	d, err := a.content.Publish(ctx, rest.ScopeFrom(ctx).Content(), by, in.WorkbookID, workspace.Publication{
		DashboardID: ptr.Deref(b.DashboardID, 0), Config: ptr.Deref(b.Config.Value, Object{}).Object, Title: b.Title, Description: b.Description, AllowEmbed: b.AllowEmbed,
	})
	return dashboardOutput(ctx, &by, d, err)
}

// WidgetThreadInput is the chat of an AI widget.
type WidgetThreadInput struct {
	InWorkbook
	Body struct {
		WidgetID string  `json:"widgetId" minLength:"1" maxLength:"128" doc:"A widget of the published dashboard, of the type AI."`
		ThreadID string  `json:"threadId" minLength:"1" maxLength:"255" doc:"The chat that answers the prompt of the widget. It is not checked."`
		Checksum *string `json:"checksum,omitempty" nullable:"true" maxLength:"255" doc:"That of what the answer was made of."`
	}
}

func (a *api) setWidgetThread(ctx context.Context, in *WidgetThreadInput) (*DashboardOutput, error) {
	by := a.callerOf(ctx, access.Workbook)
	d, err := a.content.SetWidgetThread(ctx, rest.ScopeFrom(ctx).Content(), by, in.WorkbookID, workspace.WidgetThread{
		WidgetID: in.Body.WidgetID, ThreadID: in.Body.ThreadID, Checksum: ptr.Deref(in.Body.Checksum, ""),
	})
	return dashboardOutput(ctx, &by, d, err)
}

// DashboardVersion is a version of a dashboard in a list.
type DashboardVersion struct {
	VersionID     int64         `json:"versionId" minimum:"1"`
	VersionNumber int64         `json:"versionNumber" minimum:"1"`
	Title         *string       `json:"title,omitempty" nullable:"true"`
	Description   *string       `json:"description,omitempty" nullable:"true"`
	User          ResourceOwner `json:"user" doc:"Who has published it."`
	CreatedAt     time.Time     `json:"createdAt"`
}

// ListVersionsInput are the parameters of the list.
type ListVersionsInput struct {
	InWorkbook
	rest.CursorPage
}

func (a *api) listDashboardVersions(ctx context.Context, in *ListVersionsInput) (*rest.List[DashboardVersion], error) {
	by := a.callerOf(ctx, access.Workbook)
	fetch := func(ctx context.Context, after *int64, limit int) (rest.StoredPage[DashboardVersion], error) {
		page, err := a.content.Versions(ctx, rest.ScopeFrom(ctx).Content(), by, in.WorkbookID, pageAfter(after, limit))
		out := rest.StoredPage[DashboardVersion]{HasNext: page.HasNext, HasPrevious: page.HasPrevious}
		for i := range page.Items {
			d := &page.Items[i]
			out.Items = append(out.Items, DashboardVersion{
				VersionID: d.VersionID, VersionNumber: d.Number, Title: rest.NilIfEmpty(d.Title), Description: rest.NilIfEmpty(d.Description),
				User: a.shownOwner(ctx, d.Owner), CreatedAt: d.CreatedAt,
			})
		}
		return out, err
	}
	return rest.PaginateStored(ctx, in.CursorPage, fetch, func(v DashboardVersion) int64 { return v.VersionNumber })
}

// InVersion has the path parameters of a version.
type InVersion struct {
	InWorkbook
	VersionNumber int64 `path:"versionNumber" minimum:"1" maximum:"9007199254740991" doc:"Number of the version."`
}

func (a *api) getDashboardVersion(ctx context.Context, in *InVersion) (*DashboardOutput, error) {
	by := a.callerOf(ctx, access.Workbook)
	d, err := a.content.DashboardVersion(ctx, rest.ScopeFrom(ctx).Content(), by, in.WorkbookID, in.VersionNumber)
	return dashboardOutput(ctx, &by, d, err)
}

func (a *api) restoreDashboardVersion(ctx context.Context, in *InVersion) (*DashboardOutput, error) {
	by := a.callerOf(ctx, access.Workbook)
	d, err := a.content.Restore(ctx, rest.ScopeFrom(ctx).Content(), by, in.WorkbookID, in.VersionNumber)
	return dashboardOutput(ctx, &by, d, err)
}
