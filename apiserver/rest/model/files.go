package model

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/modeledit"
	"github.com/quoin-dev/quoin/internal/modeltree"
)

const filesPath = buildPath + "/data-model/files"

// changedFiles is the name of the event of files that are written one by one.
var changedFiles = audit.Declare("Updated data model files")

func (a *api) filesFamily() rest.Family {
	return rest.Family{Tag: "Data Model Files", Description: "Files of the data model, for deployments with spec.model.repository or spec.model.git.", Routes: []rest.Route{
		rest.Handle(http.MethodGet, filesPath, "listFiles", v1alpha1.PermissionSchemaRead, "List the files of a branch as a tree", a.listFiles).WithDocument(describeConflict),
		rest.Handle(http.MethodPut, filesPath, "updateFiles", v1alpha1.PermissionSchemaUpdateDevBranches, "Create or overwrite files of a personal branch", a.updateFiles).WithMaxBody(maxDocument),
		rest.Handle(http.MethodDelete, filesPath, "removeFiles", v1alpha1.PermissionSchemaUpdateDevBranches, "Delete files and folders of a personal branch", a.removeFiles).WithMaxBody(maxDocument),
		rest.Handle(http.MethodPost, filesPath+"/rename", "renameFiles", v1alpha1.PermissionSchemaUpdateDevBranches, "Rename files and folders of a personal branch", a.renameFiles).WithMaxBody(maxDocument),
	}}
}

// ListFilesInput selects the branch, and the page of the roots of the tree.
type ListFilesInput struct {
	rest.InDeployment
	rest.CursorPage
	WithContent   bool                  `query:"withContent" doc:"Adds the content of the files, at most 16 MiB together."`
	Branch        rest.Optional[string] `query:"branchName" maxLength:"244" doc:"The branch; when absent, the one that the caller has active in dev mode, or that of production."`
	LastCLIUpload bool                  `query:"showLastCLIUpload" doc:"Lists the files of the last upload instead of those of the branch."`
}

// SourceTreeOutput is a page of the roots, with everything in them.
type SourceTreeOutput struct{ Body SourceTreeOutputBody }

// SourceTreeOutputBody has the page in both documented shapes.
type SourceTreeOutputBody struct {
	Items    []SourceNode  `json:"items"`
	Data     []SourceNode  `json:"data" deprecated:"true"`
	PageInfo rest.PageInfo `json:"pageInfo"`
}

// StreamJSON implements rest.Streamed.
func (b SourceTreeOutputBody) StreamJSON(s *rest.Stream) {
	s.Text(`{"items":`)
	streamNodes(s, b.Items)
	s.Text(`,"data":`)
	streamNodes(s, b.Data)
	s.Text(`,"pageInfo":`)
	s.Value(b.PageInfo)
	s.Text("}")
}

func streamNodes(s *rest.Stream, nodes []SourceNode) {
	rest.Items(s, nodes, func(n SourceNode) {
		children := n.Children
		n.Children = nil
		if len(children) == 0 {
			s.Value(n)
			return
		}
		s.Open(n)
		s.Text(`,"children":`)
		streamNodes(s, children)
		s.Text("}")
	})
}

func (a *api) listFiles(ctx context.Context, in *ListFilesInput) (*SourceTreeOutput, error) {
	if in.WithContent {
		release, err := a.admit(ctx, a.readers)
		if err != nil {
			return nil, err
		}
		defer release()
	}
	t, err := a.readTarget(ctx, in.Branch.Value)
	if err != nil {
		return nil, err
	}
	if in.LastCLIUpload {
		if t.commit, err = a.Uploads.Last(ctx, rest.ScopeFrom(ctx).Content()); err != nil {
			return nil, err
		}
	}
	files, err := filesOf(t)
	if errors.Is(err, plumbing.ErrObjectNotFound) && in.LastCLIUpload {
		return nil, rest.NotFound("showLastCLIUpload: the commit of the last upload is in no branch any more")
	}
	if err != nil {
		return nil, err
	}
	list, err := rest.PaginateByCursor(ctx, in.CursorPage, nodesOf(files, ""), func(n SourceNode) string { return n.Path })
	if err != nil {
		return nil, err
	}
	if in.WithContent {
		if err := addContents(t.session, list.Body.Items); err != nil {
			return nil, err
		}
	}
	out := &SourceTreeOutput{}
	out.Body.Items, out.Body.Data, out.Body.PageInfo = list.Body.Items, list.Body.Items, list.Body.PageInfo
	return out, nil
}

// filesOf returns the files of a target, without their sizes.
func filesOf(t *target) ([]modeltree.File, error) {
	if t.commit.IsZero() {
		return nil, nil
	}
	return modeltree.List(t.session, t.commit, t.root)
}

// FileContent is a file to write.
type FileContent struct {
	Path    string `json:"path" minLength:"1" maxLength:"1025"`
	Content string `json:"content"`
}

// UpdateFilesInput is the documented body.
type UpdateFilesInput struct {
	rest.InDeployment
	Body struct {
		BranchChoice
		Files []FileContent `json:"files" minItems:"1" maxItems:"1000"`
	}
}

func (a *api) updateFiles(ctx context.Context, in *UpdateFilesInput) (*rest.SuccessOutput, error) {
	files := in.Body.Files
	return a.editFiles(ctx, in.Body.BranchChoice, describe("Update", files[0].Path, len(files)), func(b *target, current []modeltree.File) ([]modeltree.Edit, error) {
		blobs := make([]modeledit.Blob, len(files))
		for i, f := range files {
			hash, err := modeltree.AddBlob(b.session, []byte(f.Content))
			if err != nil {
				return nil, err
			}
			blobs[i] = modeledit.Blob{Path: f.Path, Hash: hash}
		}
		return modeledit.Put(current, blobs)
	})
}

// FilePath is a file or a folder.
type FilePath struct {
	Path string `json:"path" minLength:"1" maxLength:"1025"`
}

// RemoveFilesInput is the documented body.
type RemoveFilesInput struct {
	rest.InDeployment
	Body struct {
		BranchChoice
		Files []FilePath `json:"files" minItems:"1" maxItems:"1000"`
	}
}

func (a *api) removeFiles(ctx context.Context, in *RemoveFilesInput) (*rest.SuccessOutput, error) {
	paths := make([]string, len(in.Body.Files))
	for i, f := range in.Body.Files {
		paths[i] = f.Path
	}
	return a.editFiles(ctx, in.Body.BranchChoice, describe("Delete", paths[0], len(paths)), func(_ *target, current []modeltree.File) ([]modeltree.Edit, error) {
		return modeledit.Delete(current, paths)
	})
}

// FileRename is a new path of a file or a folder.
type FileRename struct {
	Path    string `json:"path" minLength:"1" maxLength:"1025"`
	NewPath string `json:"newPath" minLength:"1" maxLength:"1025"`
}

// RenameFilesInput is the documented body.
type RenameFilesInput struct {
	rest.InDeployment
	Body struct {
		BranchChoice
		Files []FileRename `json:"files" minItems:"1" maxItems:"1000"`
	}
}

func (a *api) renameFiles(ctx context.Context, in *RenameFilesInput) (*rest.SuccessOutput, error) {
	renames := make([]modeledit.Rename, len(in.Body.Files))
	for i, f := range in.Body.Files {
		renames[i] = modeledit.Rename{From: f.Path, To: f.NewPath}
	}
	return a.editFiles(ctx, in.Body.BranchChoice, describe("Rename", renames[0].From, len(renames)), func(_ *target, current []modeltree.File) ([]modeltree.Edit, error) {
		return modeledit.Move(current, renames)
	})
}

// describe returns the message of a commit.
func describe(verb, path string, files int) string {
	if files == 1 {
		return verb + " " + modeledit.Path(path)
	}
	return fmt.Sprintf("%s %s and %d more", verb, modeledit.Path(path), files-1)
}

// editFiles commits edits to a personal branch of the caller. Edits that change nothing make no commit.
func (a *api) editFiles(ctx context.Context, choice BranchChoice, message string, plan func(b *target, current []modeltree.File) ([]modeltree.Edit, error)) (*rest.SuccessOutput, error) {
	name, err := a.nameOf(ctx, choice)
	if err != nil {
		return nil, err
	}
	err = a.save(ctx, func(t *tree) (*change, error) {
		b, err := t.selected(name)
		if err != nil {
			return nil, err
		}
		if err := t.checkOwned(b, name != ""); err != nil {
			return nil, err
		}
		current, err := filesOf(b)
		if err != nil {
			return nil, err
		}
		edits, err := plan(b, current)
		if err != nil {
			return nil, err
		}
		return a.commitEdits(ctx, t, b, message, modeledit.Below(b.root, edits))
	})
	if err != nil {
		return nil, err
	}
	return rest.Success(), nil
}

// commitEdits returns the change that commits edits to a branch; nil if they change nothing.
func (a *api) commitEdits(ctx context.Context, t *tree, b *target, message string, edits []modeltree.Edit) (*change, error) {
	after, err := modeltree.Apply(t.session, b.commit, edits)
	if err != nil {
		return nil, err
	}
	before, err := modeltree.TreeOf(t.session, b.commit)
	if err != nil || after == before {
		return nil, err
	}
	commit, err := a.addCommit(ctx, t, after, message, b.commit)
	if err != nil {
		return nil, err
	}
	c := newChange(ctx, t)
	c.move(b, commit)
	c.record(changedFiles, b.name, map[string]any{"commit": commit.String(), "files": len(edits)})
	return c, nil
}
