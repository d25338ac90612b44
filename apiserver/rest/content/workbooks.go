package content

import (
	"context"
	"net/http"
	"time"

	"k8s.io/utils/ptr"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/internal/content/access"
	"github.com/quoin-dev/quoin/internal/content/workspace"
	"github.com/quoin-dev/quoin/internal/store"
)

const (
	workbooksPath = "/api/v1/deployments/{deploymentId}/workbooks"
	workbookPath  = workbooksPath + "/{workbookId}"
)

func (a *api) workbooksFamily() rest.Family {
	const read, edit = v1alpha1.PermissionWorkbookRead, v1alpha1.PermissionWorkbookEdit
	return rest.Family{Tag: "Workbooks", Description: "Workbooks of a deployment, with their dashboards.", Routes: []rest.Route{
		rest.Handle(http.MethodGet, workbooksPath, "getWorkbooks", read, "List the workbooks of a deployment, or of a folder, by id", a.listWorkbooks),
		rest.Handle(http.MethodPost, workbooksPath, "createWorkbook", edit, "Create a workbook", a.createWorkbook),
		rest.Handle(http.MethodPut, workbooksPath+"/by-slug/{slug}", "upsertWorkbookBySlug", edit,
			"Update the workbook with a slug, or create it; the same request again changes nothing", a.upsertWorkbook).Preferred(),
		rest.Handle(http.MethodGet, workbookPath, "getWorkbook", read, "Get a workbook", a.getWorkbook),
		rest.Handle(http.MethodPut, workbookPath, "updateWorkbook", edit, "Update a workbook; the meta is replaced as a whole", a.updateWorkbook),
		rest.Handle(http.MethodDelete, workbookPath, "deleteWorkbook", edit, "Delete a workbook", a.deleteWorkbook),
		rest.Handle(http.MethodPut, workbookPath+"/dashboard", "updateWorkbookDashboard", edit, "Set the draft of the dashboard", a.updateDashboard),
		rest.Handle(http.MethodPost, workbookPath+"/dashboard/ai-widget-thread", "updatePublishedDashboardAiWidgetThread", edit,
			"Set the chat of an AI widget of the published dashboard, and of the draft; the same chat again changes nothing", a.setWidgetThread),
		rest.Handle(http.MethodPut, workbookPath+"/favorite", "setWorkbookFavorite", read, "Mark a workbook as a favorite of the caller", a.setFavorite),
		rest.Handle(http.MethodDelete, workbookPath+"/favorite", "removeWorkbookFavorite", read, "Remove the mark of a workbook, if it has one", a.removeFavorite),
		rest.Handle(http.MethodPost, workbookPath+"/duplicate", "duplicateWorkbook", edit, "Copy a workbook", a.duplicateWorkbook),
		rest.Handle(http.MethodPost, workbookPath+"/publish", "publishDashboard", edit,
			"Publish the dashboard of a workbook; the same content again makes no new version", a.publishDashboard),
		rest.Handle(http.MethodGet, workbookPath+"/versions", "listDashboardVersions", read, "List the published versions of the dashboard, the newest first", a.listDashboardVersions),
		rest.Handle(http.MethodGet, workbookPath+"/versions/{versionNumber}", "getDashboardVersion", read, "Get a published version of the dashboard", a.getDashboardVersion),
		rest.Handle(http.MethodPost, workbookPath+"/versions/{versionNumber}/restore", "restoreDashboardVersion", edit,
			"Publish a version again, and make the draft and the reports what they were then", a.restoreDashboardVersion),
	}}
}

// Workbook is a workbook, as documented.
type Workbook struct {
	ID               int64         `json:"id" minimum:"1" doc:"Unique in the account."`
	DeploymentID     int64         `json:"deploymentId" minimum:"1"`
	Type             string        `json:"type" enum:"WORKBOOK"`
	Name             string        `json:"name"`
	Slug             *string       `json:"slug,omitempty" nullable:"true" example:"sales" doc:"Unique in the deployment."`
	FolderID         *int64        `json:"folderId,omitempty" nullable:"true" doc:"Absent at the root."`
	FolderPath       []FolderEntry `json:"folderPath" doc:"The folders that contain it, from the root."`
	Meta             StoredObject  `json:"meta" doc:"What clients store. The property dashboardDraft is the draft of the dashboard."`
	CalculatedFields StoredObject  `json:"calculatedFields" doc:"Empty."`
	DashboardDraft   *StoredObject `json:"dashboardDraft,omitempty" nullable:"true" doc:"That of meta. Both are absent for callers who may not edit the workbook."`

	PublishedDashboard *Dashboard    `json:"publishedDashboard,omitempty" doc:"Absent in lists, and before the dashboard is published."`
	DashboardPublished *StoredObject `json:"dashboardPublished,omitempty" nullable:"true" doc:"The config of publishedDashboard."`
	IsFavorite         bool          `json:"isFavorite" doc:"Whether the caller has marked it."`
	CreatedBy          int64         `json:"createdBy" minimum:"1" doc:"The owner, as in user."`
	UserID             int64         `json:"userId" minimum:"1"`
	User               ResourceOwner `json:"user"`
	CreatedAt          time.Time     `json:"createdAt"`
	UpdatedAt          time.Time     `json:"updatedAt"`
}

// WorkbookOutput is a workbook.
type WorkbookOutput struct{ Body Workbook }

// shownWorkbook returns a workbook as documented, without the draft for a caller who may not edit it.
func (a *api) shownWorkbook(ctx context.Context, by *access.Caller, wb *workspace.Workbook, path []workspace.Place) (Workbook, error) {
	if wb.Level < access.Edit && !by.Access.All {
		if err := wb.HideDraft(); err != nil {
			return Workbook{}, err
		}
	}
	owner := a.shownOwner(ctx, wb.Owner)
	out := Workbook{
		ID: wb.ID, DeploymentID: deploymentID(ctx), Type: "WORKBOOK", Name: wb.Name, Slug: rest.NilIfEmpty(wb.Slug), FolderPath: shownPath(path),
		Meta: StoredObject(wb.Meta), CalculatedFields: "{}", DashboardDraft: (*StoredObject)(wb.Draft()),
		CreatedBy: owner.ID, UserID: owner.ID, User: owner, CreatedAt: wb.CreatedAt, UpdatedAt: wb.UpdatedAt,
	}
	if wb.FolderID != workspace.Root {
		out.FolderID = &wb.FolderID
	}
	return out, nil
}

// workbookOutput returns a workbook with its path and its dashboard.
func (a *api) workbookOutput(ctx context.Context, by *access.Caller, wb *workspace.Workbook, err error) (*WorkbookOutput, error) {
	if err != nil {
		return nil, err
	}
	path, err := a.content.Path(ctx, rest.ScopeFrom(ctx).Content(), wb.FolderID)
	if err != nil {
		return nil, err
	}
	published, err := a.content.Published(ctx, rest.ScopeFrom(ctx).Content(), wb.ID)
	if err != nil {
		return nil, err
	}
	marked, err := a.content.Favorites(ctx, rest.ScopeFrom(ctx).Content(), viewerOf(ctx), wb.ID)
	if err != nil {
		return nil, err
	}
	shown, err := a.shownWorkbook(ctx, by, wb, path)
	shown.IsFavorite = marked[wb.ID]
	if shown.PublishedDashboard = shownDashboard(ctx, by, published); published != nil {
		shown.DashboardPublished = &shown.PublishedDashboard.Config
	}
	return &WorkbookOutput{shown}, err
}

// ListWorkbooksInput are the parameters of the list.
type ListWorkbooksInput struct {
	rest.InDeployment
	rest.CursorPage
	FolderID rest.Optional[int64] `query:"folderId" minimum:"0" maximum:"9007199254740991" doc:"The folder whose workbooks are listed, 0 for the root; all of the deployment when absent."`
}

// WorkbooksOutput is a page of workbooks, in both documented shapes.
type WorkbooksOutput struct {
	Body struct {
		Data     []Workbook    `json:"data"`
		Items    []Workbook    `json:"items"`
		Count    int           `json:"count" minimum:"0" doc:"Number of workbooks on all pages."`
		PageInfo rest.PageInfo `json:"pageInfo"`
	}
}

func (a *api) listWorkbooks(ctx context.Context, in *ListWorkbooksInput) (*WorkbooksOutput, error) {
	var found workspace.List[workspace.Workbook]
	by := a.callerOf(ctx, access.Workbook)
	var of *int64
	if in.FolderID.IsSet {
		of = &in.FolderID.Value
	}
	fetch := func(ctx context.Context, after *int64, limit int) (page rest.StoredPage[workspace.Workbook], err error) {
		found, err = a.content.Workbooks(ctx, rest.ScopeFrom(ctx).Content(), by, of, pageAfter(after, limit))
		return rest.StoredPage[workspace.Workbook]{Items: found.Items, HasNext: found.HasNext, HasPrevious: found.HasPrevious}, err
	}
	list, err := rest.PaginateStored(ctx, in.CursorPage, fetch, func(wb workspace.Workbook) int64 { return wb.ID })
	if err != nil {
		return nil, err
	}
	ids := make([]int64, len(list.Body.Items))
	for i := range list.Body.Items {
		ids[i] = list.Body.Items[i].ID
	}
	marked, err := a.content.Favorites(ctx, rest.ScopeFrom(ctx).Content(), viewerOf(ctx), ids...)
	if err != nil {
		return nil, err
	}
	out := &WorkbooksOutput{}
	out.Body.Items = make([]Workbook, len(list.Body.Items))
	for i := range list.Body.Items {
		wb := &list.Body.Items[i]
		if out.Body.Items[i], err = a.shownWorkbook(ctx, &by, wb, found.Paths[wb.FolderID]); err != nil {
			return nil, err
		}
		out.Body.Items[i].IsFavorite = marked[wb.ID]
	}
	out.Body.Data, out.Body.Count, out.Body.PageInfo = out.Body.Items, found.Total, list.Body.PageInfo
	return out, nil
}

// pageAfter requests the page after an id.
func pageAfter(after *int64, limit int) store.PageRequest {
	r := store.PageRequest{Limit: limit}
	if after != nil {
		r.After = []any{*after}
	}
	return r
}

// NewWorkbook has the properties of a new workbook.
type NewWorkbook struct {
	Name     *rest.DisplayName `json:"name,omitempty" nullable:"true" minLength:"1" maxLength:"255" doc:"When absent, the slug or Untitled workbook."`
	FolderID *int64            `json:"folderId,omitempty" nullable:"true" minimum:"0" maximum:"9007199254740991" doc:"The folder that will contain it; the root when absent or 0."`
	Meta     *Object           `json:"meta,omitempty" nullable:"true" doc:"What clients store."`
}

// CreateWorkbookInput is the body of a creation.
type CreateWorkbookInput struct {
	rest.InDeployment
	Body *NewWorkbook
}

func (a *api) createWorkbook(ctx context.Context, in *CreateWorkbookInput) (*WorkbookOutput, error) {
	change := workspace.Change{}
	if in.Body != nil {
		change = workspace.Change{Name: (*string)(in.Body.Name), FolderID: in.Body.FolderID, Meta: ptr.Deref(in.Body.Meta, Object{}).Object}
	}
	by := a.callerOf(ctx, access.Workbook)
	wb, err := a.content.Create(ctx, rest.ScopeFrom(ctx).Content(), by, change)
	return a.workbookOutput(ctx, &by, wb, err)
}

// UpsertWorkbookInput is the body of an upsert. Absent fields stay.
type UpsertWorkbookInput struct {
	rest.InDeployment
	Slug string `path:"slug" maxLength:"200" example:"sales" doc:"Unique in the deployment: letters a to z, digits, - and _, at most 128. White space around it is removed, upper case becomes lower case."`
	Body *struct {
		Name     *rest.DisplayName    `json:"name,omitempty" nullable:"true" minLength:"1" maxLength:"255" doc:"When absent in a creation, the slug."`
		FolderID rest.Nullable[int64] `json:"folderId,omitempty" minimum:"0" maximum:"9007199254740991" doc:"The root when null or 0."`
		Meta     *Object              `json:"meta,omitempty" nullable:"true" doc:"Its properties are merged into those of an existing workbook: null removes one."`
	}
}

func (a *api) upsertWorkbook(ctx context.Context, in *UpsertWorkbookInput) (*WorkbookOutput, error) {
	change := workspace.Change{}
	if in.Body != nil {
		change = workspace.Change{Name: (*string)(in.Body.Name), FolderID: folderOf(in.Body.FolderID), Meta: ptr.Deref(in.Body.Meta, Object{}).Object}
	}
	by := a.callerOf(ctx, access.Workbook)
	wb, err := a.content.Upsert(ctx, rest.ScopeFrom(ctx).Content(), by, in.Slug, change)
	return a.workbookOutput(ctx, &by, wb, err)
}

// folderOf returns the folder that a body names: null is the root; nil if it names none.
func folderOf(in rest.Nullable[int64]) *int64 {
	if !in.Given {
		return nil
	}
	return ptr.To(ptr.Deref(in.Value, workspace.Root))
}

// InWorkbook has the path parameters of a workbook.
type InWorkbook struct {
	rest.InDeployment
	WorkbookID int64 `path:"workbookId" minimum:"1" maximum:"9007199254740991" doc:"id of the workbook."`
}

func (a *api) getWorkbook(ctx context.Context, in *InWorkbook) (*WorkbookOutput, error) {
	by := a.callerOf(ctx, access.Workbook)
	wb, err := a.content.Workbook(ctx, rest.ScopeFrom(ctx).Content(), by, in.WorkbookID)
	if err == nil {
		a.noteView(ctx, workspace.WorkbookItem, wb.ID)
	}
	return a.workbookOutput(ctx, &by, wb, err)
}

func (a *api) setFavorite(ctx context.Context, in *InWorkbook) (*rest.SuccessOutput, error) {
	return a.markWorkbook(ctx, in.WorkbookID, true)
}

func (a *api) removeFavorite(ctx context.Context, in *InWorkbook) (*rest.SuccessOutput, error) {
	return a.markWorkbook(ctx, in.WorkbookID, false)
}

func (a *api) markWorkbook(ctx context.Context, id int64, isFavorite bool) (*rest.SuccessOutput, error) {
	if err := a.content.SetFavorite(ctx, rest.ScopeFrom(ctx).Content(), a.callerOf(ctx, access.Workbook), id, isFavorite); err != nil {
		return nil, err
	}
	return rest.Success(), nil
}

// UpdateWorkbookInput is the body of an update. Absent fields stay.
type UpdateWorkbookInput struct {
	InWorkbook
	Body *struct {
		Name         *rest.DisplayName     `json:"name,omitempty" nullable:"true" minLength:"1" maxLength:"255"`
		FolderID     rest.Nullable[int64]  `json:"folderId,omitempty" minimum:"0" maximum:"9007199254740991" doc:"The root when null or 0."`
		Slug         rest.Nullable[string] `json:"slug,omitempty" maxLength:"200" example:"sales" doc:"Removed when null or empty."`
		SlugTakeover *bool                 `json:"slugTakeover,omitempty" nullable:"true" doc:"Take the slug from the workbook of the deployment that has it."`
		Meta         *Object               `json:"meta,omitempty" nullable:"true" doc:"Replaces all properties."`
	}
}

func (a *api) updateWorkbook(ctx context.Context, in *UpdateWorkbookInput) (*WorkbookOutput, error) {
	change := workspace.Change{}
	if b := in.Body; b != nil {
		change = workspace.Change{Name: (*string)(b.Name), FolderID: folderOf(b.FolderID), Takeover: ptr.Deref(b.SlugTakeover, false), Meta: ptr.Deref(b.Meta, Object{}).Object}
		if b.Slug.Given {
			change.Slug = ptr.To(ptr.Deref(b.Slug.Value, ""))
		}
	}
	by := a.callerOf(ctx, access.Workbook)
	wb, err := a.content.Update(ctx, rest.ScopeFrom(ctx).Content(), by, in.WorkbookID, change)
	return a.workbookOutput(ctx, &by, wb, err)
}

func (a *api) deleteWorkbook(ctx context.Context, in *InWorkbook) (*rest.SuccessOutput, error) {
	if err := a.content.Delete(ctx, rest.ScopeFrom(ctx).Content(), a.callerOf(ctx, access.Workbook), in.WorkbookID); err != nil {
		return nil, err
	}
	return rest.Success(), nil
}

// UpdateDashboardInput is the draft of a dashboard.
type UpdateDashboardInput struct {
	InWorkbook
	Body *struct {
		DashboardDraft rest.Nullable[Object] `json:"dashboardDraft,omitempty" doc:"Removed when null. At most 200 widgets; a widget without an id gets one."`
	}
}

// WorkbookDashboardOutput is the dashboard of a workbook.
type WorkbookDashboardOutput struct {
	Body struct {
		DashboardDraft     *StoredObject `json:"dashboardDraft,omitempty" nullable:"true"`
		DashboardPublished *StoredObject `json:"dashboardPublished,omitempty" nullable:"true"`
	}
}

func (a *api) updateDashboard(ctx context.Context, in *UpdateDashboardInput) (*WorkbookDashboardOutput, error) {
	change := workspace.Change{}
	if in.Body != nil && in.Body.DashboardDraft.Given {
		change.HasDraft = true
		if draft := in.Body.DashboardDraft.Value; draft != nil {
			change.Draft = draft.Object
		}
	}
	wb, err := a.content.Update(ctx, rest.ScopeFrom(ctx).Content(), a.callerOf(ctx, access.Workbook), in.WorkbookID, change)
	if err != nil {
		return nil, err
	}
	published, err := a.content.Published(ctx, rest.ScopeFrom(ctx).Content(), wb.ID)
	if err != nil {
		return nil, err
	}
	out := &WorkbookDashboardOutput{}
	if out.Body.DashboardDraft = (*StoredObject)(wb.Draft()); published != nil {
		out.Body.DashboardPublished = (*StoredObject)(&published.Config)
	}
	return out, nil
}

// DuplicateWorkbookInput is the body of a copy.
type DuplicateWorkbookInput struct {
	InWorkbook
	Body *struct {
		Shared *bool `json:"shared,omitempty" nullable:"true" doc:"A copy from the shared workspace: for embed sessions only, so true is a 403."`
	}
}

func (a *api) duplicateWorkbook(ctx context.Context, in *DuplicateWorkbookInput) (*WorkbookOutput, error) {
	if in.Body != nil && ptr.Deref(in.Body.Shared, false) {
		return nil, rest.Forbidden("shared: true is for embed sessions in creator mode; %s is none", rest.ScopeFrom(ctx).Principal.Kind)
	}
	by := a.callerOf(ctx, access.Workbook)
	wb, err := a.content.Duplicate(ctx, rest.ScopeFrom(ctx).Content(), by, in.WorkbookID)
	return a.workbookOutput(ctx, &by, wb, err)
}
