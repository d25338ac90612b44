package content

import (
	"context"
	"net/http"
	"time"

	"k8s.io/utils/ptr"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/internal/content/access"
	"github.com/quoin-dev/quoin/internal/content/folder"
	"github.com/quoin-dev/quoin/internal/store"
)

const (
	foldersPath = "/api/v1/deployments/{deploymentId}/folders"
	folderPath  = foldersPath + "/{folderId}"
)

func (a *api) foldersFamily() rest.Family {
	return rest.Family{Tag: "Folders", Description: "Folders for the content of a deployment.", Routes: []rest.Route{
		rest.Handle(http.MethodGet, foldersPath, "getFolders", v1alpha1.PermissionFolderRead, "List the folders in a folder, or at the root", a.listFolders),
		rest.Handle(http.MethodPost, foldersPath, "createFolder", v1alpha1.PermissionFolderEdit, "Create a folder", a.createFolder),
		rest.Handle(http.MethodPut, folderPath, "updateFolder", v1alpha1.PermissionFolderEdit, "Change the name or the position of a folder", a.updateFolder),
		rest.Handle(http.MethodDelete, folderPath, "deleteFolder", v1alpha1.PermissionFolderEdit, "Delete a folder that contains no other", a.deleteFolder),
		rest.Handle(http.MethodGet, folderPath+"/ancestors", "getFolderAncestors", v1alpha1.PermissionFolderRead, "List the path to a folder, from the root", a.folderAncestors),
	}}
}

// Folder is a folder, as documented.
type Folder struct {
	ID           int64         `json:"id" minimum:"1" doc:"Unique in the account."`
	DeploymentID int64         `json:"deploymentId" minimum:"1"`
	Type         string        `json:"type" enum:"FOLDER"`
	Name         string        `json:"name"`
	ParentID     *int64        `json:"parentId,omitempty" nullable:"true" doc:"Absent at the root."`
	Position     int64         `json:"position" doc:"Orders the folders of one parent."`
	CreatedBy    int64         `json:"createdBy" minimum:"1" doc:"The owner, as in user."`
	User         ResourceOwner `json:"user"`
	CreatedAt    time.Time     `json:"createdAt"`
	UpdatedAt    time.Time     `json:"updatedAt"`
	FolderPath   []FolderEntry `json:"folderPath" doc:"The folders that contain it, from the root."`
}

// FolderEntry is a folder of a path.
type FolderEntry struct {
	ID   int64  `json:"id" minimum:"1"`
	Name string `json:"name"`
}

// shownFolder returns a folder as documented; path are the folders that contain it.
func (a *api) shownFolder(ctx context.Context, f *folder.Folder, path []folder.Folder) Folder {
	owner := a.shownOwner(ctx, f.Owner)
	out := Folder{
		ID: f.ID, DeploymentID: deploymentID(ctx), Type: "FOLDER", Name: f.Name, Position: f.Position,
		CreatedBy: owner.ID, User: owner, CreatedAt: f.CreatedAt, UpdatedAt: f.UpdatedAt, FolderPath: make([]FolderEntry, len(path)),
	}
	if f.ParentID != folder.Root {
		out.ParentID = ptr.To(f.ParentID)
	}
	for i := range path {
		out.FolderPath[i] = FolderEntry{path[i].ID, path[i].Name}
	}
	return out
}

// FolderOutput is a folder.
type FolderOutput struct{ Body Folder }

// endOfPath returns the folder at the end of a path.
func (a *api) endOfPath(ctx context.Context, path []folder.Folder) *FolderOutput {
	last := len(path) - 1
	return &FolderOutput{a.shownFolder(ctx, &path[last], path[:last])}
}

// ListFoldersInput are the parameters of the list.
type ListFoldersInput struct {
	rest.InDeployment
	rest.CursorPage
	ParentID rest.Optional[int64] `query:"parentId" minimum:"0" maximum:"9007199254740991" doc:"The folder whose folders are listed; the root when absent or 0."`
}

// FoldersOutput is a page of folders, in both documented shapes.
type FoldersOutput struct {
	Body struct {
		Data     []Folder      `json:"data"`
		Items    []Folder      `json:"items"`
		Count    int           `json:"count" minimum:"0" doc:"Number of folders on all pages."`
		PageInfo rest.PageInfo `json:"pageInfo"`
	}
}

// folderKey is the position of a folder in its list: Position and ID.
type folderKey [2]int64

func (a *api) listFolders(ctx context.Context, in *ListFoldersInput) (*FoldersOutput, error) {
	var level folder.Level
	by := a.callerOf(ctx, access.Folder)
	fetch := func(ctx context.Context, after *folderKey, limit int) (page rest.StoredPage[folder.Folder], err error) {
		request := store.PageRequest{Limit: limit}
		if after != nil {
			request.After = []any{after[0], after[1]}
		}
		level, err = a.folders.List(ctx, rest.ScopeFrom(ctx).Content(), by, in.ParentID.Value, request)
		return rest.StoredPage[folder.Folder]{Items: level.Items, HasNext: level.HasNext, HasPrevious: level.HasPrevious}, err
	}
	list, err := rest.PaginateStored(ctx, in.CursorPage, fetch, func(f folder.Folder) folderKey { return folderKey{f.Position, f.ID} })
	if err != nil {
		return nil, err
	}
	out := &FoldersOutput{}
	out.Body.Items = make([]Folder, 0, len(list.Body.Items))
	for i := range list.Body.Items {
		out.Body.Items = append(out.Body.Items, a.shownFolder(ctx, &list.Body.Items[i], level.Path))
	}
	out.Body.Data, out.Body.Count, out.Body.PageInfo = out.Body.Items, level.Total, list.Body.PageInfo
	return out, nil
}

// CreateFolderInput is the body of a creation.
type CreateFolderInput struct {
	rest.InDeployment
	Body struct {
		Name     rest.DisplayName `json:"name" minLength:"1" maxLength:"255" doc:"Unique among the folders of the parent, case-insensitive."`
		ParentID *int64           `json:"parentId,omitempty" nullable:"true" minimum:"0" maximum:"9007199254740991" doc:"The folder that will contain it; the root when absent or 0."`
		Position *int64           `json:"position,omitempty" nullable:"true" minimum:"0" maximum:"2147483647" doc:"After all others when absent."`
	}
}

func (a *api) createFolder(ctx context.Context, in *CreateFolderInput) (*FolderOutput, error) {
	path, err := a.folders.Create(ctx, rest.ScopeFrom(ctx).Content(), a.callerOf(ctx, access.Folder), folder.New{
		Name: string(in.Body.Name), ParentID: ptr.Deref(in.Body.ParentID, folder.Root), Position: in.Body.Position,
	})
	if err != nil {
		return nil, err
	}
	return a.endOfPath(ctx, path), nil
}

// InFolder has the path parameters of a folder.
type InFolder struct {
	rest.InDeployment
	FolderID int64 `path:"folderId" minimum:"1" maximum:"9007199254740991" doc:"id of the folder."`
}

// UpdateFolderInput is the body of an update. Absent fields stay.
type UpdateFolderInput struct {
	InFolder
	Body *struct {
		Name     *rest.DisplayName `json:"name,omitempty" nullable:"true" minLength:"1" maxLength:"255"`
		Position *int64            `json:"position,omitempty" nullable:"true" minimum:"0" maximum:"2147483647"`
	}
}

func (a *api) updateFolder(ctx context.Context, in *UpdateFolderInput) (*FolderOutput, error) {
	update := folder.Update{}
	if in.Body != nil {
		update = folder.Update{Name: (*string)(in.Body.Name), Position: in.Body.Position}
	}
	path, err := a.folders.Update(ctx, rest.ScopeFrom(ctx).Content(), a.callerOf(ctx, access.Folder), in.FolderID, update)
	if err != nil {
		return nil, err
	}
	return a.endOfPath(ctx, path), nil
}

func (a *api) deleteFolder(ctx context.Context, in *InFolder) (*rest.SuccessOutput, error) {
	if err := a.folders.Delete(ctx, rest.ScopeFrom(ctx).Content(), a.callerOf(ctx, access.Folder), in.FolderID); err != nil {
		return nil, err
	}
	return rest.Success(), nil
}

// FolderAncestorsOutput is the path to a folder, the folder itself last.
type FolderAncestorsOutput struct{ Body []Folder }

func (a *api) folderAncestors(ctx context.Context, in *InFolder) (*FolderAncestorsOutput, error) {
	path, err := a.folders.Ancestors(ctx, rest.ScopeFrom(ctx).Content(), a.callerOf(ctx, access.Folder), in.FolderID)
	if err != nil {
		return nil, err
	}
	out := &FolderAncestorsOutput{}
	for i := range path {
		out.Body = append(out.Body, a.shownFolder(ctx, &path[i], path[:i]))
	}
	return out, nil
}
