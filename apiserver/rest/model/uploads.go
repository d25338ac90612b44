package model

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/internal/content/upload"
	"github.com/quoin-dev/quoin/internal/serving"
)

const uploadPath = buildPath + "/data-model/upload"

// maxDocument is the maximum size of a JSON body with files, or with the hashes of upload.MaxFiles files.
const maxDocument = 4 << 20

// fileBodyLimit returns the maximum size of the body of a request with files; 0 for others.
func fileBodyLimit(r *http.Request) int64 {
	path := strings.TrimSuffix(r.URL.Path, "/")
	switch {
	case !strings.Contains(path, "/build/"):
		return 0
	case strings.HasSuffix(path, "/upload/file"), strings.HasSuffix(path, "/upload-file"):
		return rest.FormBody(upload.MaxFileBytes)
	case strings.HasSuffix(path, "/data-model/files"), strings.HasSuffix(path, "/files/rename"),
		strings.HasSuffix(path, "/upload/finish"), strings.HasSuffix(path, "/finish-upload"):
		return maxDocument
	}
	return 0
}

// The numbers of concurrent requests of an account that hold large contents in memory.
const (
	maxWriters = 16
	maxReaders = 4
)

// admit admits a request that holds large contents in memory, until release is called.
func (a *api) admit(ctx context.Context, shares *serving.Shares[string]) (release func(), err error) {
	if release = shares.Acquire(rest.ScopeFrom(ctx).Account.Name); release == nil {
		return nil, rest.NewProblem(http.StatusTooManyRequests, "too many concurrent requests with the content of files in this account; try again")
	}
	return release, nil
}

func (a *api) uploadsFamily() rest.Family {
	fields := map[string]string{"transaction": "transaction of the start, as JSON.", "fileName": "Path from the root of the data model, without a slash at the beginning."}
	return rest.Family{Tag: "Data Model Uploads", Description: "Uploads of the whole data model, for deployments with spec.model.repository or spec.model.git.", Routes: []rest.Route{
		rest.Handle(http.MethodGet, buildPath+"/data-model/file-hashes", "fileHashes", v1alpha1.PermissionSchemaRead, "Get the hashes of the files of a branch", a.fileHashes).WithDocument(describeConflict),
		rest.Handle(http.MethodPost, uploadPath+"/start", "startUpload", v1alpha1.PermissionSchemaUpdate, "Start an upload, which is valid for 24 hours", a.startUpload),
		rest.Handle(http.MethodPost, uploadPath+"/file", "uploadFile", v1alpha1.PermissionSchemaUpdate, "Upload a file", a.uploadFile).WithForm(fields).WithCachedDeployment(),
		rest.Handle(http.MethodPost, uploadPath+"/finish", "finishUpload", v1alpha1.PermissionSchemaUpdate, "Finish an upload: commits the files once", a.finishUpload).WithMaxBody(maxDocument),
	}}
}

// UploadQuery has the parameters of all calls of an upload.
type UploadQuery struct {
	Live        bool                  `query:"live" doc:"true for a live preview: the upload is to the personal branch that the caller, or the user who created the deploy token, has active in dev mode, which is begun if it is not active. branchName is absent then."`
	Branch      rest.Optional[string] `query:"branchName" maxLength:"244" doc:"The branch; that of production when absent."`
	ProjectRoot rest.Optional[bool]   `query:"useDeployProjectRoot" doc:"Whether paths are relative to spec.model.repository.path or spec.model.git.path instead of the root of the repository; true when absent."`
}

// uploadTarget returns the branch of an upload: that of production when name is empty. Of personal
// branches, only those of the caller are allowed. A live preview has another target.
func (a *api) uploadTarget(ctx context.Context, name string, q *UploadQuery) (*target, error) {
	t, err := a.productionTarget(ctx)
	if err != nil {
		return nil, err
	}
	if name != "" && name != t.name {
		if t, err = a.readTarget(ctx, name); err != nil {
			return nil, err
		}
		if t.role == v1alpha1.BranchPersonal {
			if t, err = a.writeTarget(ctx, name); err != nil {
				return nil, err
			}
		}
	}
	return q.rooted(t), nil
}

// rooted returns a target whose paths are relative to what the query says.
func (q *UploadQuery) rooted(t *target) *target {
	if q.ProjectRoot.IsSet && !q.ProjectRoot.Value {
		t.root = ""
	}
	return t
}

// FileHash is the hash of a file.
type FileHash struct {
	Hash string `json:"hash" pattern:"^[0-9a-f]{40}$" patternDescription:"a SHA-1 in hexadecimal, in lower case" doc:"SHA-1 of the content."`
}

// FileHashesInput selects the branch.
type FileHashesInput struct {
	rest.InDeployment
	UploadQuery
}

// FileHashesOutput has the files by path, without a slash at the beginning.
type FileHashesOutput struct{ Body map[string]FileHash }

func (a *api) fileHashes(ctx context.Context, in *FileHashesInput) (*FileHashesOutput, error) {
	branch, err := in.branch(nil)
	if err != nil {
		return nil, err
	}
	var t *target
	if in.Live {
		t, err = a.previewTarget(ctx, &in.UploadQuery)
	} else {
		t, err = a.uploadTarget(ctx, branch, &in.UploadQuery)
	}
	if err != nil {
		return nil, err
	}
	files, err := filesOf(t)
	if err != nil {
		return nil, err
	}
	hashes, err := a.Uploads.Hashes(ctx, rest.ScopeFrom(ctx).Content(), t.session, files)
	if err != nil {
		return nil, err
	}
	out := &FileHashesOutput{Body: make(map[string]FileHash, len(hashes))}
	for path, hash := range hashes {
		out.Body[path] = FileHash{hash}
	}
	return out, nil
}

// StartUploadInput may name the branch in the body too.
type StartUploadInput struct {
	rest.InDeployment
	UploadQuery
	Body *struct {
		Branch *string `json:"branchName,omitempty" nullable:"true" minLength:"1" maxLength:"244" doc:"As in the query."`
	}
}

// StartUploadOutput is the response.
type StartUploadOutput struct {
	Body struct {
		Transaction    UploadTransaction `json:"transaction"`
		DeploymentName string            `json:"deploymentName"`
	}
}

// UploadTransaction identifies an upload. Clients send it back as it is.
type UploadTransaction struct {
	ID string `json:"id"`
}

func (a *api) startUpload(ctx context.Context, in *StartUploadInput) (*StartUploadOutput, error) {
	inBody := (*string)(nil)
	if in.Body != nil {
		inBody = in.Body.Branch
	}
	branch, err := in.branch(inBody)
	if err != nil {
		return nil, err
	}
	s, start := rest.ScopeFrom(ctx), a.Uploads.Start
	var t *target
	if in.Live {
		t, err = a.beginPreview(ctx)
		start = a.Uploads.StartLive
	} else {
		t, err = a.uploadTarget(ctx, branch, &in.UploadQuery)
	}
	if err != nil {
		return nil, err
	}
	out := &StartUploadOutput{}
	out.Body.DeploymentName = s.Deployment.DisplayName()
	out.Body.Transaction.ID, err = start(ctx, s.Content(), s.Caller(), t.name)
	return out, err
}

// branch returns the branch that the query or the body names; empty if none does, as for a live preview.
func (q *UploadQuery) branch(inBody *string) (string, error) {
	name := ptr.Deref(inBody, "")
	if q.Branch.Value != "" && name != "" && q.Branch.Value != name {
		return "", rest.BadRequest("branchName: it is %q in the query and %q in the body", rest.Clip(q.Branch.Value), rest.Clip(name))
	}
	if name == "" {
		name = q.Branch.Value
	}
	if q.Live && name != "" {
		return "", rest.BadRequest("branchName: it is %q, and live is true, which selects the branch; allowed: one of them", rest.Clip(name))
	}
	return name, nil
}

// checkTransaction returns an error for a request of a live preview with the transaction of another
// upload, and the reverse: the branch of an upload is selected when it is started.
func (q *UploadQuery) checkTransaction(id string) error {
	if live := upload.IsLive(id); live != q.Live {
		return rest.BadRequest("live: it is %t, and the upload was started with %t; allowed: the same in all requests of an upload", q.Live, live)
	}
	return nil
}

// UploadFileInput is a form.
type UploadFileInput struct {
	rest.InDeployment
	UploadQuery
	rest.Form
}

func (a *api) uploadFile(ctx context.Context, in *UploadFileInput) (*rest.SuccessOutput, error) {
	if _, err := in.branch(nil); err != nil {
		return nil, err
	}
	if a.Repositories == nil {
		return nil, errNoDatabase
	}
	release, err := a.admit(ctx, a.writers)
	if err != nil {
		return nil, err
	}
	defer release()
	form, err := in.Read(upload.MaxFileBytes)
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"transaction", "fileName"} {
		if form.Fields[name] == "" {
			return nil, rest.BadRequest("%s: the field of the form is missing", name)
		}
	}
	if !form.HasFile {
		return nil, rest.BadRequest("file: the field of the form is missing")
	}
	id, err := transactionID(form.Fields["transaction"])
	if err == nil {
		err = in.checkTransaction(id)
	}
	if err != nil {
		return nil, err
	}
	s := rest.ScopeFrom(ctx)
	if err := a.Uploads.Add(ctx, s.Content(), s.Caller(), id, form.Fields["fileName"], form.File, a.Repositories); err != nil {
		return nil, err
	}
	return rest.Success(), nil
}

// transactionID returns the id of a transaction as clients send it back: the object, its JSON, or the id
// alone.
func transactionID(value any) (string, error) {
	if text, isText := value.(string); isText {
		var inner any
		switch {
		case json.Unmarshal([]byte(text), &inner) == nil:
			value = inner
		case text != "" && !strings.ContainsAny(text, `{"`):
			return text, nil
		}
	}
	switch v := value.(type) {
	case map[string]any:
		if id, ok := v["id"].(string); ok && id != "" {
			return id, nil
		}
	case string:
		if v != "" && !strings.ContainsAny(v, `{"`) {
			return v, nil
		}
	}
	return "", rest.BadRequest("transaction: allowed: the value that the start of the upload returned")
}

// FinishUploadInput is the documented body.
type FinishUploadInput struct {
	rest.InDeployment
	UploadQuery
	Body struct {
		Transaction   any                 `json:"transaction" doc:"transaction of the start."`
		Files         map[string]FileHash `json:"files" doc:"All files of the data model, by path, those that were not uploaded included."`
		AutoRemove    *bool               `json:"autoRemoveFiles,omitempty" nullable:"true" default:"true" doc:"Whether files of the branch that are not listed are deleted."`
		AwaitGit      *bool               `json:"awaitGitOperations,omitempty" nullable:"true" default:"true" doc:"The commit is always made before the response."`
		CommitMessage *string             `json:"commitMessage,omitempty" nullable:"true" maxLength:"10000"`
		Branch        *string             `json:"branchName,omitempty" nullable:"true" minLength:"1" maxLength:"244" doc:"That of the start."`
	}
}

// FinishUploadOutput is the response.
type FinishUploadOutput struct {
	Body struct {
		LastHash *string `json:"lastHash,omitempty" nullable:"true" doc:"The commit of the branch."`
	}
}

func (a *api) finishUpload(ctx context.Context, in *FinishUploadInput) (*FinishUploadOutput, error) {
	named, err := in.branch(in.Body.Branch)
	if err != nil {
		return nil, err
	}
	id, err := transactionID(in.Body.Transaction)
	if err == nil {
		err = in.checkTransaction(id)
	}
	if err != nil {
		return nil, err
	}
	if a.Repositories == nil {
		return nil, errNoDatabase
	}
	s := rest.ScopeFrom(ctx)
	branch, err := a.Uploads.Branch(ctx, s.Content(), s.Caller(), id)
	if err != nil {
		return nil, err
	}
	if named != "" && named != branch {
		return nil, rest.BadRequest("branchName: the upload was started for the branch %q", rest.Clip(branch))
	}
	f := upload.Finish{
		ID: id, Files: make(map[string]string, len(in.Body.Files)), KeepOthers: !ptr.Deref(in.Body.AutoRemove, true), Message: ptr.Deref(in.Body.CommitMessage, ""),
	}
	for path, file := range in.Body.Files {
		f.Files[path] = file.Hash
	}
	f.AuthorName, f.AuthorEmail = author(ctx)
	selectTarget := a.uploadTarget
	if in.Live {
		selectTarget = a.previewBranch
	}
	result, err := a.Uploads.Finish(ctx, s.Content(), s.Caller(), f, func(ctx context.Context) (*upload.Target, error) {
		t, err := selectTarget(ctx, branch, &in.UploadQuery)
		if err != nil {
			return nil, err
		}
		return &upload.Target{Session: t.session, Branch: t.name, Commit: t.commit, Root: t.root}, nil
	})
	if err != nil {
		return nil, err
	}
	if result.Announce {
		a.announceUpload(ctx, id)
	}
	if in.Live {
		a.wakePreview(ctx, branch)
	}
	out := &FinishUploadOutput{}
	out.Body.LastHash = &result.LastHash
	return out, nil
}

// announceUpload tells the controller of a finished upload, and records that. The commit is stored, so
// failures are logged only: a repetition of the request tells it again, and it polls besides.
func (a *api) announceUpload(ctx context.Context, id string) {
	err := a.moved(ctx)
	if err == nil {
		err = a.Uploads.Announced(context.WithoutCancel(ctx), rest.ScopeFrom(ctx).Content(), id)
	}
	if err != nil {
		log.FromContext(ctx).Error(err, "The controller could not be told of an upload; it polls the repository")
	}
}
