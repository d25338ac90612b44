package model

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/catalog"
	"github.com/quoin-dev/quoin/apiserver/gitmirror"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/internal/engine"
	"github.com/quoin-dev/quoin/internal/engine/dataapi"
	"github.com/quoin-dev/quoin/internal/modeltree"
)

// describeConflict documents the 409 of a request that reads: the deployment has no branch or environment
// that could be asked.
func describeConflict(_ *huma.OpenAPI, op *huma.Operation) {
	conflict := *op.Responses["404"]
	conflict.Description = http.StatusText(http.StatusConflict)
	op.Responses["409"] = &conflict
}

// ValidateInput selects the branch.
type ValidateInput struct {
	rest.InDeployment
	BranchName rest.Optional[string] `query:"branchName" maxLength:"244" doc:"The branch; that of production when absent."`
	DevMode    rest.Optional[bool]   `query:"devMode" doc:"true for the branch that the caller has active in dev mode, instead of branchName."`
}

// Validation is whether a data model compiles.
type Validation struct {
	DeploymentID int64             `json:"deploymentId" minimum:"1"`
	BranchName   string            `json:"branchName"`
	Mode         string            `json:"mode" enum:"production,dev_mode"`
	Valid        bool              `json:"valid"`
	Errors       []ValidationError `json:"errors"`
	CubesCount   *int64            `json:"cubesCount,omitempty" nullable:"true" minimum:"0" doc:"Number of cubes and views; absent if the model does not compile."`
}

// ValidationError is an error of the compiler.
type ValidationError struct {
	FileName *string `json:"fileName,omitempty" nullable:"true" doc:"The file, if the compiler names it."`
	Message  string  `json:"message"`
}

// ValidateOutput is the response.
type ValidateOutput struct{ Body Validation }

const (
	// validateTimeout is how long a request waits for the branch's server.
	validateTimeout = time.Minute
	// validateInterval is how often the state of the environment is read meanwhile.
	validateInterval = 250 * time.Millisecond
	// maxUnanswered is how often the server of a ready environment is asked.
	maxUnanswered = 4
	// wakeInterval is how often an environment is requested to wake.
	wakeInterval = 10 * time.Second
	// environmentDelay is how long a branch may be without environment: its controller makes it.
	environmentDelay = 10 * time.Second
)

// validate waits until the server of a branch serves its newest commit, or has rejected it, and asks
// the server for its metadata. A sleeping environment is woken.
func (a *api) validate(ctx context.Context, in *ValidateInput) (*ValidateOutput, error) {
	v, err := a.newValidation(ctx, in)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, validateTimeout)
	defer cancel()
	tick := time.NewTicker(validateInterval)
	defer tick.Stop()
	for {
		done, err := v.try(ctx)
		switch {
		case err != nil && ctx.Err() == nil:
			return nil, err
		case done:
			return &ValidateOutput{v.result}, nil
		}
		select {
		case <-ctx.Done():
			return nil, rest.Unavailable("the server of branch %q does not serve its newest commit yet: %s; try again", rest.Clip(v.result.BranchName), v.reason)
		case <-tick.C:
		}
	}
}

// validation is a request that waits for the server of a branch.
type validation struct {
	api        *api
	deployment *v1alpha1.Deployment
	// commit to validate; empty if the model is not in Git.
	commit string
	begin  time.Time
	woken  time.Time
	// reason is why there is no result yet.
	reason string
	// unanswered counts the requests that the server has not answered, although the environment is ready.
	unanswered int
	result     Validation
	// branch is that of a repository that Quoin keeps, or of the mirror of one; nil otherwise.
	branch *target
}

func (a *api) newValidation(ctx context.Context, in *ValidateInput) (*validation, error) {
	d := rest.ScopeFrom(ctx).Deployment
	if in.DevMode.Value && in.BranchName.Value != "" {
		return nil, rest.BadRequest("branchName and devMode: give one of them, not both")
	}
	id, _ := strconv.ParseInt(d.Labels[v1alpha1.LabelID], 10, 64) // the engine has found it by this id
	v := &validation{api: a, deployment: d, begin: a.Clock.Now(), reason: "it has no environment"}
	v.result = Validation{DeploymentID: id, Mode: "production", Errors: []ValidationError{}}
	switch {
	case d.Spec.Model.Repository != nil, in.DevMode.Value && a.isWritable(d):
		return v, v.selectKept(ctx, in)
	case in.DevMode.Value:
		return nil, elsewhere(d)
	}
	return v, v.selectRemote(ctx, in.BranchName.Value)
}

// selectKept selects a branch of a repository that Quoin keeps, or the active one of the caller.
func (v *validation) selectKept(ctx context.Context, in *ValidateInput) error {
	t, err := v.api.open(ctx)
	if err != nil {
		return err
	}
	name := t.production
	if in.BranchName.Value != "" {
		name = in.BranchName.Value
	}
	b, found := t.find(name)
	if in.DevMode.Value {
		if b, found = t.active(); !found {
			return rest.BadRequest("devMode: the caller is not in dev mode; allowed: true after POST …/dev-mode")
		}
	}
	if !found {
		return rest.NotFound("branchName: branch %q does not exist", rest.Clip(name))
	}
	v.branch, v.result.BranchName, v.commit = b, b.name, b.commit.String()
	if b.role != v1alpha1.BranchProduction {
		v.result.Mode = "dev_mode"
	}
	return nil
}

// selectRemote selects a branch of a remote, or the model in a ConfigMap.
func (v *validation) selectRemote(ctx context.Context, name string) error {
	all, err := v.api.Catalog.Branches(v.deployment)
	if err != nil {
		return err
	}
	production := catalog.ProductionBranch(v.deployment, all)
	if name == "" {
		name = production
	}
	v.result.BranchName = name
	if v.deployment.Spec.Model.Git == nil && name == production {
		return nil
	}
	b, err := findBranch(all, func(b *v1alpha1.Branch) bool { return b.Spec.Name == name }, "branchName", rest.Clip(name))
	if err != nil {
		return err
	}
	if v.commit = b.Annotations[v1alpha1.AnnotationCommit]; v.commit == v1alpha1.CommitMissing {
		return rest.NotFound("branchName: the repository has no branch %q", rest.Clip(name))
	}
	if name != production {
		v.result.Mode = "dev_mode"
	}
	return v.selectMirrored(ctx)
}

// selectMirrored selects the newest commit of a branch on a Git host, which the controller may not have
// read yet if it was made over REST.
func (v *validation) selectMirrored(ctx context.Context) error {
	source := v.deployment.Spec.Model.Git
	if source == nil || !v.api.isWritable(v.deployment) {
		return nil
	}
	head, session, err := v.api.Mirrors.Head(ctx, v.deployment, rest.ScopeFrom(ctx).Content(), v.result.BranchName, v.commit)
	if err != nil || head == nil {
		return err
	}
	v.commit = head.Commit.String()
	v.branch = &target{session: session, name: head.Name, commit: head.Commit, root: gitmirror.RootOf(source)}
	return nil
}

// try sets the result if there is one.
func (v *validation) try(ctx context.Context) (done bool, err error) {
	if f := v.live(ctx).Status.FailedModel; f != nil && f.Commit == v.commit && v.result.Mode == "production" {
		v.reject(f.Message)
		return true, nil
	}
	e, err := v.environment(ctx)
	if err != nil {
		return false, err
	}
	if e == nil {
		return false, v.blocked(v.live(ctx))
	}
	c := apimeta.FindStatusCondition(e.Status.Conditions, v1alpha1.ConditionReady)
	switch {
	case c == nil || e.Spec.ModelCommit != v.commit || c.ObservedGeneration != e.Generation:
		v.reason = "the environment does not have the commit yet"
		return false, v.blocked(v.live(ctx))
	case c.Reason == v1alpha1.ReasonModelBroken:
		v.reject(strings.TrimPrefix(c.Message, "The data model does not compile: "))
		return true, nil
	case c.Reason == v1alpha1.ReasonAsleep && e.Spec.IdleSeconds == nil:
		return false, v.impossible("its environment is scaled to zero")
	case c.Reason == v1alpha1.ReasonAsleep:
		v.reason = "the environment wakes"
		return false, v.wake(ctx, e)
	case apimeta.IsStatusConditionTrue(e.Status.Conditions, v1alpha1.ConditionStalled):
		return false, v.impossible(c.Message)
	case c.Status != metav1.ConditionTrue:
		v.reason = c.Message
		return false, nil
	}
	return v.ask(ctx, e)
}

// blocked returns an error if the deployment rolls out nothing before it is changed.
func (v *validation) blocked(d *v1alpha1.Deployment) error {
	c := apimeta.FindStatusCondition(d.Status.Conditions, v1alpha1.ConditionStalled)
	switch {
	case ptr.Deref(d.Spec.Suspend, false):
		return v.impossible("the deployment is suspended")
	case c != nil && c.Status == metav1.ConditionTrue && c.ObservedGeneration == d.Generation && d.Status.FailedModel == nil:
		return v.impossible(c.Message)
	}
	return nil
}

// impossible is the error of a branch whose server cannot be asked without another change.
func (v *validation) impossible(reason string) error {
	return rest.Conflict("no server of branch %q can be asked: %s", rest.Clip(v.result.BranchName), reason)
}

// live returns the deployment from the cache, or as it was at the beginning.
func (v *validation) live(ctx context.Context) *v1alpha1.Deployment {
	d := &v1alpha1.Deployment{}
	if err := v.api.Kube.Get(ctx, client.ObjectKeyFromObject(v.deployment), d); err != nil {
		return v.deployment
	}
	return d
}

// environment returns the environment of the branch; nil if there is none yet.
func (v *validation) environment(ctx context.Context) (*v1alpha1.Environment, error) {
	name := v1alpha1.ProductionName(v.deployment.Name)
	if v.result.Mode != "production" {
		b, err := v.api.branchObject(ctx, v.result.BranchName)
		if err != nil {
			return nil, err
		}
		name = ""
		if b != nil {
			name = b.Status.Environment
		}
	}
	if name == "" {
		if v.api.Clock.Since(v.begin) < environmentDelay {
			return nil, nil
		}
		return nil, v.impossible("it has no environment; enable its staging environment, or set spec.onDemand of the deployment")
	}
	e := &v1alpha1.Environment{}
	if err := v.api.Kube.Get(ctx, client.ObjectKey{Namespace: v.deployment.Namespace, Name: name}, e); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	if e.UID == "" {
		return nil, nil
	}
	return e, nil
}

// wake requests that the environment wakes.
func (v *validation) wake(ctx context.Context, e *v1alpha1.Environment) error {
	now := v.api.Clock.Now()
	if now.Sub(v.woken) < wakeInterval {
		return nil
	}
	v.woken = now
	return v.api.wake(ctx, e)
}

// Ask requests the metadata of a server of an environment with a token. The caller closes the body.
type Ask func(ctx context.Context, e *v1alpha1.Environment, token string) (status int, body io.ReadCloser, err error)

// maxErrorBody is how much of a response is read for an error message.
const maxErrorBody = 256 << 10

// ask asks the server of the environment.
func (v *validation) ask(ctx context.Context, e *v1alpha1.Environment) (done bool, err error) {
	secret := &corev1.Secret{}
	if err := v.api.Kube.Live().Get(ctx, client.ObjectKey{Namespace: e.Namespace, Name: engine.CredentialsName(e.Name)}, secret); err != nil {
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return false, err
	}
	signing := string(secret.Data[engine.KeyAPISecret])
	token, err := engine.WarmUpToken(signing, v.api.Clock.Now())
	if err != nil {
		return false, err
	}
	status, body, err := v.api.Ask(ctx, e, token)
	if err != nil {
		log.FromContext(ctx).V(1).Info("The server of an environment does not answer", "environment", e.Name, "cause", err.Error())
		if v.unanswered++; v.unanswered >= maxUnanswered {
			return false, rest.Unavailable("the server of branch %q does not answer; try again", rest.Clip(v.result.BranchName))
		}
		v.reason = "the server does not answer"
		return false, nil
	}
	defer func() { _ = body.Close() }()
	buffered := bufio.NewReaderSize(body, maxErrorBody)
	beginning, _ := buffered.Peek(maxErrorBody) // a shorter one is complete
	switch reason, message := engine.ReadMeta(status, beginning, token, signing, string(secret.Data[engine.KeySQLPassword])); reason {
	case engine.WarmUpCompiled:
		v.result.Valid = true
		if n, err := dataapi.CountCubes(buffered); err == nil {
			v.result.CubesCount = &n
		}
	case engine.WarmUpNotAllowed:
		v.result.Valid = true // it has compiled: only its metadata may not be read
	case engine.WarmUpBroken:
		v.reject(message)
	default:
		v.reason = message
		return false, nil
	}
	return true, nil
}

// fileErrors matches the line of the compiler that begins the errors of a file.
var fileErrors = regexp.MustCompile(`^(\S+\.(?:ya?ml|js|ts|py|jinja)) Errors?:$`)

// syntaxError matches the compiler's error of a file that cannot be parsed. Its line of the file and a mark
// below it follow.
var syntaxError = regexp.MustCompile(`^Syntax error during '([^']+)' parsing: `)

// reject sets the errors of the compiler, which are separated by bars.
func (v *validation) reject(message string) {
	v.result.Valid, v.result.Errors = false, []ValidationError{}
	var file *string
	excerpt := 0
	for part := range strings.SplitSeq(message, " | ") {
		part = strings.TrimSpace(part)
		if match := fileErrors.FindStringSubmatch(part); match != nil {
			file = v.pathOf(match[1])
			continue
		}
		if excerpt--; excerpt >= 0 {
			if part == "^" {
				excerpt = 0
			}
			continue
		}
		if part == "" || part == "Compile errors:" || strings.HasPrefix(part, "at ") {
			continue
		}
		if match := syntaxError.FindStringSubmatch(part); match != nil {
			file, excerpt, part = v.pathOf(match[1]), 2, strings.TrimSuffix(part, ":")
		}
		v.result.Errors = append(v.result.Errors, ValidationError{FileName: file, Message: part})
	}
	if len(v.result.Errors) == 0 {
		v.result.Errors = []ValidationError{{Message: message}}
	}
}

// pathOf returns the path of a file that the compiler names: it does not know the folder of the model in
// a project.
func (v *validation) pathOf(name string) *string {
	if v.branch == nil {
		return &name
	}
	files, err := filesOf(v.branch)
	if err != nil {
		return &name
	}
	for _, path := range []string{name, "model/" + name} {
		if slices.ContainsFunc(files, func(f modeltree.File) bool { return f.Path == path }) {
			return &path
		}
	}
	return &name
}
