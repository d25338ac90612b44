package model

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/http"
	"reflect"
	"regexp"

	"github.com/danielgtaylor/huma/v2"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/internal/content/dbtsync"
	"github.com/quoin-dev/quoin/internal/dbt"
	"github.com/quoin-dev/quoin/internal/serving"
)

const (
	dbtSyncsPath = "/api/v1/deployments/{deploymentId}/dbt-sync"
	dbtSyncPath  = dbtSyncsPath + "/{syncJobId}"
)

// maxDbtBody is the maximum length of a body that starts a sync: a manifest and the other fields.
const maxDbtBody = dbt.MaxManifestBytes + 64<<10

// maxDbtUploads is the number of manifests that are read at a time.
const maxDbtUploads = 4

func (a *api) dbtSyncFamily() rest.Family {
	return rest.Family{Tag: "dbt Sync", Description: "Generates cubes from a dbt project in a Git repository, or from its manifest.", Routes: []rest.Route{
		rest.Handle(http.MethodGet, dbtSyncsPath, "listDbtSyncs", v1alpha1.PermissionSchemaRead, "List the syncs of a deployment, newest first", a.listDbtSyncs),
		rest.Handle(http.MethodPost, dbtSyncsPath, "startDbtSync", v1alpha1.PermissionSchemaUpdate, "Start a sync of the dbt project of the deployment, or of an uploaded manifest", a.startDbtSync).
			WithMaxBody(maxDbtBody).WithDocument(describeStart),
		rest.Handle(http.MethodPost, DbtHookPath, "dbtHook", v1alpha1.PermissionSchemaUpdate, "Start a sync after a push to the dbt repository, as a push hook of a Git host does", a.dbtHook).
			WithDocument(describeDbtHook),
		rest.Handle(http.MethodGet, dbtSyncPath, "getDbtSyncStatus", v1alpha1.PermissionSchemaRead, "Read the status of a sync", a.dbtSyncStatus),
		rest.Handle(http.MethodDelete, dbtSyncPath, "cancelDbtSync", v1alpha1.PermissionSchemaUpdate, "Cancel a running sync", a.cancelDbtSync),
		rest.Handle(http.MethodGet, dbtSyncPath+"/logs", "getDbtSyncLogs", v1alpha1.PermissionSchemaRead, "Read the log of a sync", a.dbtSyncLogs),
		rest.Handle(http.MethodGet, dbtSyncPath+"/result", "getDbtSyncResult", v1alpha1.PermissionSchemaRead, "Read the result of a completed sync", a.dbtSyncResult),
		rest.Handle(http.MethodGet, dbtSyncPath+"/generated-files", "getDbtSyncGeneratedFiles", v1alpha1.PermissionSchemaRead,
			"Read the files of a sync that does not write them to a branch, for an hour", a.dbtSyncFiles),
	}}
}

var dbtSyncRequest = regexp.MustCompile(`^/api/v1/deployments/[0-9]+/dbt-sync$`)

// dbtBodyLimit returns the maximum size of the body of a request with a manifest; 0 for others.
func dbtBodyLimit(r *http.Request) int64 {
	if r.Method == http.MethodPost && dbtSyncRequest.MatchString(r.URL.Path) {
		return maxDbtBody
	}
	return 0
}

// StartDbtSyncRequest is the documented body. It is read as a stream, so this type is for the document.
type StartDbtSyncRequest struct {
	BranchName *string         `json:"branchName,omitempty" nullable:"true" maxLength:"244" doc:"The branch that receives the files, which is created if it does not exist; a new one when absent."`
	Manifest   map[string]any  `json:"manifest,omitempty" nullable:"true" doc:"target/manifest.json of the dbt project, of 50 MiB at most, for source manifest."`
	Options    *DbtSyncOptions `json:"options,omitempty" doc:"Those in spec.dbt of the deployment when absent."`
	Output     *string         `json:"output,omitempty" nullable:"true" enum:"branch,files" doc:"branch when absent. files are read from generated-files, within an hour."`
	Ref        *string         `json:"ref,omitempty" nullable:"true" maxLength:"244" doc:"The branch or tag of the dbt repository; for source git that in spec.dbt of the deployment when absent. It names the new branch."`
	Source     *string         `json:"source,omitempty" nullable:"true" enum:"git,manifest" doc:"git when absent: the project in spec.dbt of the deployment."`
}

// DbtSyncOptions configure the generated cubes. It is for the document.
type DbtSyncOptions struct {
	OutputPath       *string `json:"outputPath,omitempty" maxLength:"512" doc:"The directory of the generated files; model/cubes/dbt when absent."`
	NamePrefix       *string `json:"namePrefix,omitempty" maxLength:"64" doc:"The prefix of the names of cubes; dbt_ when absent."`
	TitlePrefix      *string `json:"titlePrefix,omitempty" maxLength:"64" doc:"The prefix of the titles of cubes; (dbt) when absent."`
	MartsOnly        *bool   `json:"martsOnly,omitempty" doc:"Exclude models that are not marts."`
	PrimaryKeySuffix *string `json:"primaryKeySuffix,omitempty" maxLength:"64" doc:"The suffix of key columns; _id when absent."`
	DefaultMeasures  *bool   `json:"defaultMeasures,omitempty" doc:"Add a count and sums; true when absent."`
	Joins            *bool   `json:"joins,omitempty" doc:"Add joins from relationship tests and foreign keys; true when absent."`
	ReverseJoins     *bool   `json:"reverseJoins,omitempty" doc:"Add joins in the opposite direction; false when absent."`
	TypesFromCatalog *bool   `json:"typesFromCatalog,omitempty" doc:"Take the types of columns whose type is not declared from the data source; false when absent. true is allowed for source git, if spec.dbt.options of the deployment has it too."`
}

// TransformSchema implements huma.SchemaTransformer.
func (DbtSyncOptions) TransformSchema(_ huma.Registry, s *huma.Schema) *huma.Schema {
	return rest.OrNull(s)
}

// describeStart documents the body, which the engine does not read.
func describeStart(doc *huma.OpenAPI, op *huma.Operation) {
	schema := doc.Components.Schemas.Schema(reflect.TypeFor[StartDbtSyncRequest](), true, "StartDbtSyncInput")
	op.RequestBody = &huma.RequestBody{Content: map[string]*huma.MediaType{"application/json": {Schema: schema}}}
}

// StartDbtSyncInput has the body as a stream.
type StartDbtSyncInput struct {
	rest.InDeployment
	body io.Reader
}

// Resolve implements huma.Resolver.
func (in *StartDbtSyncInput) Resolve(hc huma.Context) []error {
	in.body = hc.BodyReader()
	return nil
}

// DbtSyncOutput is the response to a start.
type DbtSyncOutput struct {
	Body struct {
		SyncJobID  string `json:"syncJobId"`
		WorkflowID string `json:"workflowId" doc:"The same as syncJobId."`
		BranchName string `json:"branchName" doc:"Empty if the files are not written to a branch."`
	}
}

func (a *api) startDbtSync(ctx context.Context, in *StartDbtSyncInput) (*DbtSyncOutput, error) {
	if a.DbtSyncs == nil {
		return nil, errNoSyncs
	}
	select {
	case a.dbtUploads <- struct{}{}:
		defer func() { <-a.dbtUploads }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	request, packed, err := readStart(in.body)
	if err != nil {
		return nil, err
	}
	started, err := a.newSync(ctx, request)
	if err != nil {
		return nil, err
	}
	started.DeploymentNumber = in.ID
	if started.Git == nil {
		started.Manifest = packed
	}
	s := rest.ScopeFrom(ctx)
	sync, err := a.DbtSyncs.Start(ctx, s.Content(), s.Caller(), started)
	if err != nil {
		return nil, err
	}
	out := &DbtSyncOutput{}
	out.Body.SyncJobID, out.Body.WorkflowID, out.Body.BranchName = sync.ID, sync.ID, sync.Branch
	return out, nil
}

// readStart reads the body, checks its manifest, and returns it compressed.
func readStart(body io.Reader) (*dbtsync.Request, []byte, error) {
	var packed bytes.Buffer
	if body == nil {
		body = &bytes.Buffer{}
	}
	w := gzip.NewWriter(&packed)
	request, err := dbtsync.ReadRequest(io.TeeReader(body, w))
	var invalid *dbt.Error
	switch {
	case errors.As(err, &invalid):
		return nil, nil, rest.BadRequest("%s", invalid.Message)
	case err != nil:
		return nil, nil, bodyProblem(err)
	}
	if request.Manifest == nil && request.Source == "manifest" {
		return nil, nil, rest.BadRequest("manifest: it is absent or empty; required for source manifest")
	}
	if err := w.Close(); err != nil {
		return nil, nil, err
	}
	return request, packed.Bytes(), nil
}

// bodyProblem returns the error, for callers, of reading a body.
func bodyProblem(err error) error {
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return rest.NewProblem(http.StatusRequestEntityTooLarge, "the body of the request is too large: it may have %d bytes", tooLarge.Limit)
	case errors.Is(err, serving.ErrSlowBody):
		return rest.NewProblem(http.StatusRequestTimeout, "%s", serving.ErrSlowBody)
	}
	return rest.BadRequest("the body of the request cannot be read")
}

// errNoSyncs is the error of a server without a database.
var errNoSyncs = rest.Unavailable("dbt syncs are not available: quoin apiserver has no --database-url")

// InDbtSync has the path parameters of a sync.
type InDbtSync struct {
	rest.InDeployment
	SyncJobID string `path:"syncJobId" maxLength:"64" doc:"syncJobId of the start."`
}

// DbtSyncCancelOutput is the response to a cancellation.
type DbtSyncCancelOutput struct {
	Body struct {
		Message string `json:"message"`
	}
}

func (a *api) cancelDbtSync(ctx context.Context, in *InDbtSync) (*DbtSyncCancelOutput, error) {
	if a.DbtSyncs == nil {
		return nil, errNoSyncs
	}
	if err := a.DbtSyncs.Cancel(ctx, rest.ScopeFrom(ctx).Content(), in.SyncJobID); err != nil {
		return nil, err
	}
	out := &DbtSyncCancelOutput{}
	out.Body.Message = "the sync was cancelled; it writes nothing"
	return out, nil
}
