package model

import (
	"context"
	"strconv"
	"time"

	"k8s.io/utils/ptr"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/internal/content/dbtsync"
	"github.com/quoin-dev/quoin/internal/store"
)

// DbtSyncRun is the documented representation of a sync in the list.
type DbtSyncRun struct {
	SyncJobID    string             `json:"syncJobId"`
	DeploymentID int64              `json:"deploymentId" minimum:"1"`
	Status       string             `json:"status" enum:"RUNNING,COMPLETED,FAILED,CANCELLED,UNKNOWN"`
	Trigger      string             `json:"trigger" enum:"manual,api,webhook,agent,unknown"`
	Source       string             `json:"source" enum:"git,manifest"`
	BranchName   string             `json:"branchName"`
	GitRef       *string            `json:"gitRef,omitempty" nullable:"true"`
	StartedAt    time.Time          `json:"startedAt"`
	CompletedAt  *time.Time         `json:"completedAt,omitempty" nullable:"true"`
	DurationMs   *int64             `json:"durationMs,omitempty" nullable:"true" minimum:"0"`
	ErrorMessage *string            `json:"errorMessage,omitempty" nullable:"true"`
	FailedPhase  *string            `json:"failedPhase,omitempty" nullable:"true"`
	LastStage    *string            `json:"lastStage,omitempty" nullable:"true"`
	Phases       *[]DbtSyncRunPhase `json:"phases,omitempty" nullable:"true"`
	Stats        *DbtSyncRunStats   `json:"stats,omitempty"`
	// Only of syncs that a push has started.
	TriggerContext *DbtSyncRunTriggerContext `json:"triggerContext,omitempty"`
}

// DbtSyncRunTriggerContext is the push that has started a sync.
type DbtSyncRunTriggerContext struct {
	PushedBranch *string `json:"pushedBranch,omitempty" nullable:"true" doc:"The branch or tag of the dbt repository."`
	HeadSHA      *string `json:"headSha,omitempty" nullable:"true" doc:"Its commit."`
	TargetBranch *string `json:"targetBranch,omitempty" nullable:"true" doc:"The branch that receives the files."`
}

// DbtSyncRunPhase is a phase of a sync.
type DbtSyncRunPhase struct {
	Phase           string `json:"phase"`
	Outcome         string `json:"outcome" enum:"ok,failed"`
	StartedOffsetMs int64  `json:"startedOffsetMs" minimum:"0"`
	DurationMs      int64  `json:"durationMs" minimum:"0"`
}

// DbtSyncRunStats are the numbers of a sync.
type DbtSyncRunStats struct {
	CubeCount           *int    `json:"cubeCount,omitempty" nullable:"true" minimum:"0"`
	GeneratedFileCount  *int    `json:"generatedFileCount,omitempty" nullable:"true" minimum:"0"`
	Models              *int    `json:"models,omitempty" nullable:"true" minimum:"0"`
	Sources             *int    `json:"sources,omitempty" nullable:"true" minimum:"0"`
	Macros              *int    `json:"macros,omitempty" nullable:"true" minimum:"0"`
	DbtVersion          *string `json:"dbtVersion,omitempty" nullable:"true"`
	ManifestGeneratedAt *string `json:"manifestGeneratedAt,omitempty" nullable:"true" doc:"When dbt wrote the manifest."`
}

func shownRun(deployment int64, s *dbtsync.Sync) DbtSyncRun {
	r := DbtSyncRun{
		SyncJobID: s.ID, DeploymentID: deployment, Status: string(s.Status), Trigger: s.Trigger, Source: s.Source, BranchName: s.Branch,
		GitRef: rest.NilIfEmpty(s.Ref), StartedAt: s.StartedAt, LastStage: ptr.To(string(s.Stage)),
	}
	if s.Status == dbtsync.Failed {
		r.ErrorMessage = &s.Error
	}
	if s.Push != nil {
		r.TriggerContext = &DbtSyncRunTriggerContext{PushedBranch: &s.Push.Branch, HeadSHA: rest.NilIfEmpty(s.Push.Commit), TargetBranch: &s.Branch}
	}
	if !s.CompletedAt.IsZero() {
		phases := []DbtSyncRunPhase{}
		for _, p := range s.Phases {
			shown := DbtSyncRunPhase{Phase: p.Name, Outcome: "ok", StartedOffsetMs: p.Start.Milliseconds(), DurationMs: p.Duration.Milliseconds()}
			if !p.OK {
				shown.Outcome, r.FailedPhase = "failed", ptr.To(p.Name)
			}
			phases = append(phases, shown)
		}
		r.CompletedAt, r.DurationMs, r.Phases = &s.CompletedAt, ptr.To(duration(s)), &phases
	}
	if stats := s.Stats; stats != nil {
		r.Stats = &DbtSyncRunStats{
			CubeCount: &s.Cubes, GeneratedFileCount: &s.Cubes, Models: &stats.Models, Sources: &stats.Sources, Macros: &stats.Macros,
			DbtVersion: rest.NilIfEmpty(stats.DbtVersion),
		}
		if !stats.GeneratedAt.IsZero() {
			r.Stats.ManifestGeneratedAt = ptr.To(stats.GeneratedAt.Format(time.RFC3339))
		}
	}
	return r
}

// duration returns how long an ended sync took, in milliseconds.
func duration(s *dbtsync.Sync) int64 { return max(s.CompletedAt.Sub(s.StartedAt).Milliseconds(), 0) }

// ListDbtSyncsInput are the parameters of the list.
type ListDbtSyncsInput struct {
	rest.InDeployment
	rest.CursorPage
	Status  rest.Optional[string] `query:"status" enum:"RUNNING,COMPLETED,FAILED,CANCELLED,UNKNOWN"`
	Trigger rest.Optional[string] `query:"trigger" enum:"manual,api,webhook,agent,unknown"`
}

func (a *api) listDbtSyncs(ctx context.Context, in *ListDbtSyncsInput) (*rest.List[DbtSyncRun], error) {
	if a.DbtSyncs == nil {
		return nil, errNoSyncs
	}
	s := rest.ScopeFrom(ctx)
	deployment, _ := strconv.ParseInt(s.Deployment.Labels[v1alpha1.LabelID], 10, 64) // the engine has found it by this id
	numbers := map[string]int64{}
	fetch := func(ctx context.Context, after *int64, limit int) (page rest.StoredPage[DbtSyncRun], err error) {
		request := store.PageRequest{Limit: limit}
		if after != nil {
			request.After = []any{*after}
		}
		found, err := a.DbtSyncs.List(ctx, s.Content(), dbtsync.Filter{Status: dbtsync.Status(in.Status.Value), Trigger: in.Trigger.Value}, request)
		page.HasNext, page.HasPrevious = found.HasNext, found.HasPrevious
		for i := range found.Items {
			page.Items = append(page.Items, shownRun(deployment, &found.Items[i]))
			numbers[found.Items[i].ID] = found.Items[i].Number
		}
		return page, err
	}
	return rest.PaginateStored(ctx, in.CursorPage, fetch, func(r DbtSyncRun) int64 { return numbers[r.SyncJobID] })
}

// DbtSyncStatusOutput is the status of a sync.
type DbtSyncStatusOutput struct {
	Body struct {
		SyncJobID string          `json:"syncJobId"`
		Status    string          `json:"status" doc:"The stage; COMPLETED and FAILED end the sync, and a cancelled one is FAILED."`
		Progress  DbtSyncProgress `json:"progress"`
		Error     *string         `json:"error,omitempty" nullable:"true"`
		UpdatedAt time.Time       `json:"updatedAt"`
	}
}

// DbtSyncProgress is how far a sync is.
type DbtSyncProgress struct {
	Stage           string  `json:"stage"`
	PercentComplete int     `json:"percentComplete" minimum:"0" maximum:"100"`
	Message         *string `json:"message,omitempty" nullable:"true"`
}

// progress is a rough percentage of each stage.
var progress = map[dbtsync.Stage]int{
	dbtsync.Initializing: 0, v1alpha1.DbtStageCreatingSandbox: 5, v1alpha1.DbtStageCloning: 10, v1alpha1.DbtStageDeps: 20, v1alpha1.DbtStageCompiling: 35,
	dbtsync.ProcessingManifest: 50, dbtsync.WritingFiles: 70, dbtsync.Finalizing: 90, dbtsync.Ended: 100, dbtsync.Stopped: 100,
}

func (a *api) dbtSyncStatus(ctx context.Context, in *InDbtSync) (*DbtSyncStatusOutput, error) {
	if a.DbtSyncs == nil {
		return nil, errNoSyncs
	}
	found, err := a.DbtSyncs.Get(ctx, rest.ScopeFrom(ctx).Content(), in.SyncJobID)
	if err != nil {
		return nil, err
	}
	stage := found.Stage
	out := &DbtSyncStatusOutput{}
	if found.Status == dbtsync.Failed || found.Status == dbtsync.Cancelled {
		stage, out.Body.Error = dbtsync.Stopped, &found.Error
	}
	out.Body.SyncJobID, out.Body.Status, out.Body.UpdatedAt = found.ID, string(stage), found.UpdatedAt
	out.Body.Progress = DbtSyncProgress{Stage: string(stage), PercentComplete: progress[stage]}
	return out, nil
}

// DbtSyncLogEntry is an entry of the log.
type DbtSyncLogEntry struct {
	Timestamp  time.Time `json:"timestamp"`
	Level      string    `json:"level" enum:"info,error"`
	Stream     string    `json:"stream" enum:"system"`
	Message    string    `json:"message"`
	Phase      *string   `json:"phase,omitempty" nullable:"true"`
	DurationMs *int64    `json:"durationMs,omitempty" nullable:"true" minimum:"0"`
}

// DbtSyncLogOutput is the log: one page.
type DbtSyncLogOutput struct {
	Body struct {
		Items    []DbtSyncLogEntry `json:"items"`
		PageInfo rest.PageInfo     `json:"pageInfo"`
	}
}

func (a *api) dbtSyncLogs(ctx context.Context, in *InDbtSync) (*DbtSyncLogOutput, error) {
	if a.DbtSyncs == nil {
		return nil, errNoSyncs
	}
	entries, err := a.DbtSyncs.Log(ctx, rest.ScopeFrom(ctx).Content(), in.SyncJobID)
	if err != nil {
		return nil, err
	}
	out := &DbtSyncLogOutput{}
	out.Body.Items = make([]DbtSyncLogEntry, 0, len(entries))
	for i := range entries {
		e := &entries[i]
		shown := DbtSyncLogEntry{Timestamp: e.Time, Level: "info", Stream: "system", Message: e.Message, Phase: rest.NilIfEmpty(e.Phase)}
		if e.Failure {
			shown.Level = "error"
		}
		if e.Duration > 0 {
			shown.DurationMs = ptr.To(e.Duration.Milliseconds())
		}
		out.Body.Items = append(out.Body.Items, shown)
	}
	return out, nil
}

// DbtSyncResultOutput is the result of a completed sync.
type DbtSyncResultOutput struct {
	Body struct {
		SyncJobID      string                 `json:"syncJobId"`
		CompletedAt    time.Time              `json:"completedAt"`
		DurationMs     int64                  `json:"durationMs" minimum:"0"`
		CubeCount      int                    `json:"cubeCount" minimum:"0"`
		GeneratedFiles []DbtSyncGeneratedFile `json:"generatedFiles"`
		ManifestStats  DbtSyncManifestStats   `json:"manifestStats"`
	}
}

// DbtSyncGeneratedFile names a generated file.
type DbtSyncGeneratedFile struct {
	Path string `json:"path" doc:"Relative to the root of the data model."`
}

// DbtSyncManifestStats are the numbers of a manifest.
type DbtSyncManifestStats struct {
	Models  int `json:"models" minimum:"0"`
	Sources int `json:"sources" minimum:"0"`
	Macros  int `json:"macros" minimum:"0"`
}

func (a *api) dbtSyncResult(ctx context.Context, in *InDbtSync) (*DbtSyncResultOutput, error) {
	if a.DbtSyncs == nil {
		return nil, errNoSyncs
	}
	found, paths, err := a.DbtSyncs.Paths(ctx, rest.ScopeFrom(ctx).Content(), in.SyncJobID)
	if err != nil {
		return nil, err
	}
	if found.Status != dbtsync.Completed {
		return nil, rest.NotFound("dbt sync %s has no result: it is %s", found.ID, found.Status)
	}
	out := &DbtSyncResultOutput{}
	b := &out.Body
	b.SyncJobID, b.CompletedAt, b.DurationMs, b.CubeCount = found.ID, found.CompletedAt, duration(&found), found.Cubes
	b.GeneratedFiles = make([]DbtSyncGeneratedFile, len(paths))
	for i, p := range paths {
		b.GeneratedFiles[i].Path = p
	}
	if found.Stats != nil {
		b.ManifestStats = DbtSyncManifestStats{Models: found.Stats.Models, Sources: found.Stats.Sources, Macros: found.Stats.Macros}
	}
	return out, nil
}

// DbtSyncFilesInput are the parameters of the files.
type DbtSyncFilesInput struct {
	InDbtSync
	rest.CursorPage
}

// DbtGeneratedFileContent is a generated file.
type DbtGeneratedFileContent struct {
	Path    string `json:"path" doc:"Relative to the root of the data model."`
	Content string `json:"content"`
}

func (a *api) dbtSyncFiles(ctx context.Context, in *DbtSyncFilesInput) (*rest.List[DbtGeneratedFileContent], error) {
	if a.DbtSyncs == nil {
		return nil, errNoSyncs
	}
	files, err := a.DbtSyncs.Files(ctx, rest.ScopeFrom(ctx).Content(), in.SyncJobID)
	if err != nil {
		return nil, err
	}
	shown := make([]DbtGeneratedFileContent, len(files))
	for i, f := range files {
		shown[i] = DbtGeneratedFileContent(f)
	}
	return rest.PaginateByCursor(ctx, in.CursorPage, shown, func(f DbtGeneratedFileContent) string { return f.Path })
}
