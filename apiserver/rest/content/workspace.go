package content

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"k8s.io/utils/ptr"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/internal/content/access"
	"github.com/quoin-dev/quoin/internal/content/workspace"
)

const workspacePath = "/api/v1/deployments/{deploymentId}/workspace"

func (a *api) workspaceFamily() rest.Family {
	by := func(text string) func(*huma.OpenAPI, *huma.Operation) {
		return func(_ *huma.OpenAPI, op *huma.Operation) { op.Description = text }
	}
	const onTypes = "Needs the permission FolderEdit for a folder, WorkbookEdit for a workbook and ReportEdit for a report."
	return rest.Family{Tag: "Workspace", Description: "Folders, workbooks and reports of a deployment together.", Routes: []rest.Route{
		rest.Handle(http.MethodGet, workspacePath, "workspaceObjects", rest.NoPermission, "List a folder, or the root: folders first, then workbooks and reports", a.listWorkspace).
			WithDocument(by("Shows the folders with the permission FolderRead, the workbooks with WorkbookRead and the reports with ReportRead, and needs one of them. Reports in workbooks are not listed.")),
		rest.Handle(http.MethodPost, workspacePath+"/move", "moveWorkspaceObject", rest.NoPermission, "Move a folder, a workbook or a report", a.moveItem).WithDocument(by(onTypes)),
		rest.Handle(http.MethodPost, workspacePath+"/bulk-move", "bulkMoveWorkspaceObjects", rest.NoPermission, "Move up to 100 items, each on its own", a.moveItems).WithDocument(by(onTypes)),
		rest.Handle(http.MethodPost, workspacePath+"/bulk-delete", "bulkDeleteWorkspaceObjects", rest.NoPermission, "Delete up to 100 items, each on its own", a.deleteItems).
			WithDocument(by(onTypes + " Needs the level manage on each item; for a report, edit with the permission ReportManage. Programs that act for no person need FolderManage, WorkbookManage and ReportManage.")),
		rest.Handle(http.MethodGet, "/api/v1/deployments/{deploymentId}/shared-workspace", "sharedWorkspaceObjects", rest.NoPermission,
			"List what is shared with the embed tenant of the caller", listSharedWorkspace).
			WithDocument(by("For embed sessions, which do not exist yet: all other callers are answered 403.")),
	}}
}

// WorkspaceItem is a folder, a workbook or a report. All types have what is documented of workbooks.
type WorkspaceItem struct {
	ID               int64         `json:"id" minimum:"1" doc:"Unique in the account among the items of its type."`
	DeploymentID     int64         `json:"deploymentId" minimum:"1"`
	Type             string        `json:"type" enum:"FOLDER,WORKBOOK,REPORT"`
	Name             string        `json:"name"`
	FolderID         *int64        `json:"folderId,omitempty" nullable:"true" doc:"The folder that contains it; absent at the root."`
	ParentID         *int64        `json:"parentId,omitempty" nullable:"true" doc:"Of a folder, as folderId."`
	Position         *int64        `json:"position,omitempty" doc:"Of a folder."`
	Slug             *string       `json:"slug,omitempty" nullable:"true" example:"sales" doc:"Of a workbook."`
	PublicID         *string       `json:"publicId,omitempty" pattern:"^[0-9A-Za-z]{12}$" patternDescription:"12 letters and digits" example:"q3Rev0lutio1" doc:"Of a report."`
	FolderPath       []FolderEntry `json:"folderPath" doc:"The folders that contain it, from the root."`
	Meta             StoredObject  `json:"meta" doc:"Of a workbook or a report; empty for a folder."`
	CalculatedFields StoredObject  `json:"calculatedFields" doc:"Empty."`
	IsFavorite       *bool         `json:"isFavorite,omitempty" doc:"Of a workbook: whether the caller has marked it."`
	LastViewedAt     *time.Time    `json:"lastViewedAt,omitempty" nullable:"true" doc:"When the user of the caller has read the workbook or report last."`
	CreatedBy        int64         `json:"createdBy" minimum:"1" doc:"The owner, as in user."`
	UserID           int64         `json:"userId" minimum:"1"`
	User             ResourceOwner `json:"user"`
	CreatedAt        time.Time     `json:"createdAt"`
	UpdatedAt        time.Time     `json:"updatedAt"`
}

func (a *api) shownItem(ctx context.Context, i *workspace.Item, path []workspace.Place) WorkspaceItem {
	owner := a.shownOwner(ctx, i.Owner)
	out := WorkspaceItem{
		ID: i.ID, DeploymentID: deploymentID(ctx), Type: string(i.Type), Name: i.Name, FolderPath: shownPath(path), Meta: StoredObject(i.Meta), CalculatedFields: "{}",
		CreatedBy: owner.ID, UserID: owner.ID, User: owner, CreatedAt: i.CreatedAt, UpdatedAt: i.UpdatedAt,
	}
	if i.FolderID != workspace.Root {
		out.FolderID = &i.FolderID
	}
	switch i.Type {
	case workspace.FolderItem:
		out.ParentID, out.Position = out.FolderID, &i.Position
	case workspace.WorkbookItem:
		out.Slug, out.IsFavorite = rest.NilIfEmpty(i.Code), &i.IsFavorite
	case workspace.ReportItem:
		out.PublicID = &i.Code
	}
	if !i.ViewedAt.IsZero() {
		out.LastViewedAt = &i.ViewedAt
	}
	return out
}

// ListWorkspaceInput are the parameters of the list.
type ListWorkspaceInput struct {
	rest.InDeployment
	rest.CursorPage
	FolderID         rest.Optional[int64]  `query:"folderId" minimum:"0" maximum:"9007199254740991" doc:"The folder whose content is listed; the root when absent or 0."`
	Types            []string              `query:"types,explode" enum:"FOLDER,WORKBOOK,REPORT" maxItems:"10" doc:"Only items of these types; all when absent."`
	Search           rest.Optional[string] `query:"search" maxLength:"255" doc:"A part of the name, case-insensitive. With it, items of all folders are listed."`
	OrderByField     rest.Optional[string] `query:"orderByField" enum:"updated_at,created_at,name,viewer_last_viewed_at" doc:"Of workbooks and reports; name when absent. Folders are ordered by position."`
	OrderByDirection rest.Optional[string] `query:"orderByDirection" enum:"ASC,DESC" doc:"Of workbooks and reports; ASC when absent."`
}

// WorkspaceOutput is a page of the feed.
type WorkspaceOutput struct {
	Body struct {
		Items    []WorkspaceItem `json:"items"`
		PageInfo rest.PageInfo   `json:"pageInfo"`
	}
}

// feedOrders are the orders of the feed by the documented names.
var feedOrders = map[string]string{
	"": workspace.ByName, "name": workspace.ByName, "created_at": workspace.ByCreatedAt, "updated_at": workspace.ByUpdatedAt, "viewer_last_viewed_at": workspace.ByViewedAt,
}

// kindOf are the kinds of the types of items.
var kindOf = map[workspace.ItemType]access.Kind{
	workspace.FolderItem: access.Folder, workspace.WorkbookItem: access.Workbook, workspace.ReportItem: access.Report,
}

// readPermissions are what the items of a type are listed with.
var readPermissions = map[workspace.ItemType]v1alpha1.Permission{
	workspace.FolderItem: v1alpha1.PermissionFolderRead, workspace.WorkbookItem: v1alpha1.PermissionWorkbookRead, workspace.ReportItem: v1alpha1.PermissionReportRead,
}

// listedTypes returns the requested types that the caller may read. It is an error if the caller may read none at all.
func listedTypes(s *rest.Scope, requested []string) (types []workspace.ItemType, err error) {
	err = rest.Forbidden("%s %q holds none of the permissions FolderRead, WorkbookRead and ReportRead on deployment %s", s.Principal.Kind, s.Principal.Name, s.Deployment.Labels[v1alpha1.LabelID])
	for t, needs := range readPermissions {
		if s.Require(needs) != nil {
			continue
		}
		if err = nil; len(requested) == 0 || slices.Contains(requested, string(t)) {
			types = append(types, t)
		}
	}
	return types, err
}

func (a *api) listWorkspace(ctx context.Context, in *ListWorkspaceInput) (*WorkspaceOutput, error) {
	s := rest.ScopeFrom(ctx)
	request := workspace.FeedRequest{
		By: a.callerOf(ctx, access.Workbook), FolderID: in.FolderID.Value, Search: in.Search.Value,
		Order: feedOrders[in.OrderByField.Value], Descending: in.OrderByDirection.Value == "DESC",
	}
	var err error
	if request.Types, err = listedTypes(s, in.Types); err != nil {
		return nil, err
	}
	var feed workspace.Feed
	fetch := func(ctx context.Context, after *workspace.FeedKey, limit int) (page rest.StoredPage[workspace.Item], err error) {
		request.After, request.Limit = after, limit
		feed, err = a.content.Feed(ctx, s.Content(), request)
		return rest.StoredPage[workspace.Item]{Items: feed.Items, HasNext: feed.HasNext, HasPrevious: after != nil}, err
	}
	list, err := rest.PaginateStored(ctx, in.CursorPage, fetch, func(i workspace.Item) workspace.FeedKey { return i.Key() })
	if err != nil {
		return nil, err
	}
	out := &WorkspaceOutput{}
	out.Body.PageInfo, out.Body.Items = list.Body.PageInfo, make([]WorkspaceItem, len(list.Body.Items))
	for n := range list.Body.Items {
		i := &list.Body.Items[n]
		out.Body.Items[n] = a.shownItem(ctx, i, feed.Paths[i.FolderID])
	}
	return out, nil
}

// SharedWorkspaceInput are the parameters of the list of the shared workspace.
type SharedWorkspaceInput struct{ ListWorkspaceInput }

func listSharedWorkspace(ctx context.Context, _ *SharedWorkspaceInput) (*WorkspaceOutput, error) {
	return nil, rest.Forbidden("the shared workspace is for embed sessions; %s is none: its workspace is %s", rest.ScopeFrom(ctx).Principal.Kind, "GET …/workspace")
}

// WorkspaceItemRef names an item.
type WorkspaceItemRef struct {
	Type string `json:"type" enum:"FOLDER,WORKBOOK,REPORT"`
	ID   int64  `json:"id" minimum:"1" maximum:"9007199254740991"`
}

// MoveItemInput is the body of a move.
type MoveItemInput struct {
	rest.InDeployment
	Body struct {
		WorkspaceItemRef
		FolderID *int64 `json:"folderId,omitempty" nullable:"true" minimum:"0" maximum:"9007199254740991" doc:"The folder that will contain it; the root when absent, null or 0."`
	}
}

// WorkspaceItemOutput is an item.
type WorkspaceItemOutput struct{ Body WorkspaceItem }

func (a *api) moveItem(ctx context.Context, in *MoveItemInput) (*WorkspaceItemOutput, error) {
	moved, err := a.move(ctx, in.Body.WorkspaceItemRef, ptr.Deref(in.Body.FolderID, workspace.Root))
	return &WorkspaceItemOutput{moved}, err
}

// move moves an item in one transaction.
func (a *api) move(ctx context.Context, ref WorkspaceItemRef, folder int64) (WorkspaceItem, error) {
	s, t := rest.ScopeFrom(ctx), workspace.ItemType(ref.Type)
	kind := kindOf[t]
	if err := s.Require(permissionsOf[kind].edit); err != nil {
		return WorkspaceItem{}, err
	}
	by := a.callerOf(ctx, kind)
	var err error
	switch t {
	case workspace.FolderItem:
		_, err = a.folders.Move(ctx, s.Content(), by, ref.ID, folder)
	case workspace.WorkbookItem:
		_, err = a.content.Update(ctx, s.Content(), by, ref.ID, workspace.Change{FolderID: &folder})
	case workspace.ReportItem:
		_, err = a.content.UpdateReport(ctx, s.Content(), by, ref.ID, workspace.ReportChange{FolderID: &folder, WorkbookID: ptr.To[int64](0)})
	}
	if err != nil {
		return WorkspaceItem{}, err
	}
	by.Access = access.Everything // the caller has managed it, and may have inherited that from the folder that it was in
	item, path, err := a.content.Item(ctx, s.Content(), by, t, ref.ID)
	if err != nil {
		return WorkspaceItem{}, err
	}
	return a.shownItem(ctx, item, path), nil
}

// WorkspaceFailure is the failure of one item.
type WorkspaceFailure struct {
	WorkspaceItemRef
	Error rest.ActionError `json:"error"`
}

// forEachItem does something with each item in the order of the request, with those that are repeated once. A failure does not
// undo what was done before.
func forEachItem(ctx context.Context, items []WorkspaceItemRef, do func(WorkspaceItemRef) error) ([]WorkspaceFailure, error) {
	failed, done := []WorkspaceFailure{}, map[WorkspaceItemRef]bool{}
	for _, ref := range items {
		if done[ref] {
			continue
		}
		done[ref] = true
		if err := ctx.Err(); err != nil { // the caller has gone
			return nil, err
		}
		if err := do(ref); err != nil {
			failed = append(failed, WorkspaceFailure{ref, rest.ActionErrorOf(ctx, err)})
		}
	}
	return failed, nil
}

// MoveItemsInput is the body of a move of several items.
type MoveItemsInput struct {
	rest.InDeployment
	Body struct {
		Items    []WorkspaceItemRef `json:"items" minItems:"1" maxItems:"100" doc:"An item that is repeated counts once."`
		FolderID *int64             `json:"folderId,omitempty" nullable:"true" minimum:"0" maximum:"9007199254740991" doc:"The folder that will contain them; the root when absent, null or 0."`
	}
}

// MoveItemsOutput has one outcome for each item.
type MoveItemsOutput struct {
	Body struct {
		Moved  []WorkspaceItem    `json:"moved"`
		Failed []WorkspaceFailure `json:"failed"`
	}
}

func (a *api) moveItems(ctx context.Context, in *MoveItemsInput) (out *MoveItemsOutput, err error) {
	out = &MoveItemsOutput{}
	out.Body.Moved = []WorkspaceItem{}
	out.Body.Failed, err = forEachItem(ctx, in.Body.Items, func(ref WorkspaceItemRef) error {
		moved, err := a.move(ctx, ref, ptr.Deref(in.Body.FolderID, workspace.Root))
		if err == nil {
			out.Body.Moved = append(out.Body.Moved, moved)
		}
		return err
	})
	return out, err
}

// DeleteItemsInput is the body of a deletion of several items.
type DeleteItemsInput struct {
	rest.InDeployment
	Body struct {
		Items []WorkspaceItemRef `json:"items" minItems:"1" maxItems:"100" doc:"An item that is repeated counts once."`
	}
}

// DeleteItemsOutput has one outcome for each item.
type DeleteItemsOutput struct {
	Body struct {
		Deleted []WorkspaceItemRef `json:"deleted"`
		Failed  []WorkspaceFailure `json:"failed"`
	}
}

func (a *api) deleteItems(ctx context.Context, in *DeleteItemsInput) (out *DeleteItemsOutput, err error) {
	out = &DeleteItemsOutput{}
	out.Body.Deleted = []WorkspaceItemRef{}
	out.Body.Failed, err = forEachItem(ctx, in.Body.Items, func(ref WorkspaceItemRef) error {
		err := a.delete(ctx, ref)
		if err == nil {
			out.Body.Deleted = append(out.Body.Deleted, ref)
		}
		return err
	})
	return out, err
}

// delete is the deletion of an item by the route of its type.
func (a *api) delete(ctx context.Context, ref WorkspaceItemRef) (err error) {
	t := workspace.ItemType(ref.Type)
	if err := rest.ScopeFrom(ctx).Require(permissionsOf[kindOf[t]].edit); err != nil {
		return err
	}
	switch t {
	case workspace.FolderItem:
		_, err = a.deleteFolder(ctx, &InFolder{FolderID: ref.ID})
	case workspace.WorkbookItem:
		_, err = a.deleteWorkbook(ctx, &InWorkbook{WorkbookID: ref.ID})
	case workspace.ReportItem:
		_, err = a.deleteReport(ctx, &InReport{ReportID: ref.ID})
	}
	return err
}
