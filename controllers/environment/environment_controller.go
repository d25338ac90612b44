// Package environment reconciles Environments: it renders and applies the workloads of the data
// plane, and reports when all their pods run the version and commit of the spec.
package environment

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/controllers/tenancy"
	"github.com/quoin-dev/quoin/internal/engine"
	"github.com/quoin-dev/quoin/internal/kube"
	"github.com/quoin-dev/quoin/internal/oidctoken"
	"github.com/quoin-dev/quoin/internal/reconciler"
)

// FieldManager is the field manager of this controller's writes.
const FieldManager = "quoin-environment"

// Options configure the reconciler.
type Options struct {
	// Engine configures the rendered objects.
	Engine engine.Options
	// SQLPort is the port of the SQL interfaces that clients connect to.
	SQLPort int32
	// Indexed reports whether the cache has the indexes of AddIndexes.
	Indexed bool
}

type environmentReconciler struct {
	Options
	models models
	states rolloutStates
}

type scope = reconciler.Scope[*v1alpha1.Environment]

// New returns the reconciler of Environments.
func New(c *kube.Client, recorder reconciler.Recorder, clk clock.PassiveClock, opts Options) *reconciler.Reconciler[*v1alpha1.Environment] {
	r := &environmentReconciler{Options: opts}
	return &reconciler.Reconciler[*v1alpha1.Environment]{
		Client: c.As(FieldManager), Recorder: recorder, Clock: clk,
		New: func() *v1alpha1.Environment { return &v1alpha1.Environment{} },
		Work: func(ctx context.Context, s *scope) reconciler.Outcome {
			files := s.Object.Status.ModelHash
			o := r.work(ctx, s)
			recordBuild(s.Object, files, o, s.Clock.Now())
			return o
		},
		Forget: r.forget,
	}
}

// forget removes the in-memory state of an environment that no longer exists.
func (r *environmentReconciler) forget(_ context.Context, env client.ObjectKey) {
	r.states.forget(env)
	r.models.forget(env)
}

// work applies the environment's objects and reports their state.
func (r *environmentReconciler) work(ctx context.Context, s *scope) reconciler.Outcome {
	in, o := r.inputs(ctx, s)
	if o != nil {
		return r.blocked(ctx, s, *o)
	}
	// Also while it is asleep: the request that wakes it needs a token, which is signed with them.
	err := r.credentials(ctx, s, in)
	if errors.Is(err, errEarlierSecret) {
		// Pods that started with it would keep its values, and the gateway could not read them.
		return reconciler.Progressing(v1alpha1.ReasonProgressing, "Waiting for the secrets of an earlier environment of the same name to be deleted").RequeueIn(deletionInterval)
	}
	if err != nil {
		return reconciler.Failed(err)
	}
	env := s.Object
	use := useOf(env, s.Clock.Now())
	if use.isIdle {
		in.Replicas = 0
		if o := neverUsed(ctx, s); o != nil {
			return *o
		}
	}
	workloads, err := r.apply(ctx, s, in)
	if apierrors.IsInvalid(err) {
		// A value that Quoin does not check, such as the key of a Secret or the name of a resource, or a policy of the
		// cluster, which is not watched.
		return r.blocked(ctx, s, reconciler.Stalled(v1alpha1.ReasonInvalidSpec, err.Error()).RequeueIn(rejectedInterval))
	}
	if err != nil {
		return reconciler.Failed(err)
	}
	outcome, started := observe(env, workloads)
	if outcome.IsDone() {
		r.states.forget(client.ObjectKeyFromObject(env))
		return use.of(outcome)
	}
	outcome, isFinal := r.warmUp(ctx, s, in, workloads, outcome)
	if isFinal {
		return use.of(outcome)
	}
	return use.of(r.report(ctx, s, in, workloads, outcome, started))
}

// blocked returns the outcome of an environment whose objects are not applied. Its pods still serve, or do not any more: the
// status shows it.
func (r *environmentReconciler) blocked(ctx context.Context, s *scope, o reconciler.Outcome) reconciler.Outcome {
	if o.Err() != nil {
		return o
	}
	workloads, err := r.workloads(ctx, s)
	if err != nil {
		return reconciler.Failed(err)
	}
	status := &s.Object.Status
	if len(workloads) == 0 && status.Replicas == 0 {
		return o // they have not been created
	}
	status.Replicas, status.ReadyReplicas, status.UpdatedReplicas, status.Active = 0, 0, 0, false
	count(s.Object, workloads)
	return o
}

// report returns the outcome to write while a rollout is in progress, or a transient one.
func (r *environmentReconciler) report(ctx context.Context, s *scope, in engine.Inputs, workloads []client.Object, outcome reconciler.Outcome, started bool) reconciler.Outcome {
	env, now := s.Object, s.Clock.Now()
	delay := r.states.reportDelay(env, started, now)
	deadline := time.Duration(in.ProgressDeadlineSeconds) * time.Second
	isOverdue := r.states.storeOverdue(env, incompleteStore(workloads), deadline, now)
	if isOverdue && outcome.IsProgressing() && outcome.Reason() != v1alpha1.ReasonWarmingUp { // compilation has its own limit
		outcome = outcome.Stalled(v1alpha1.ReasonDeadlineExceeded)
	}
	if delay > 0 {
		return outcome.RequeueIn(delay).Transient()
	}
	if !started {
		return outcome.RequeueIn(reportInterval)
	}
	return r.explain(ctx, s, in, outcome)
}

// inputs returns the inputs of the renderer.
func (r *environmentReconciler) inputs(ctx context.Context, s *scope) (engine.Inputs, *reconciler.Outcome) {
	env := s.Object
	d := &v1alpha1.Deployment{}
	err := s.Get(ctx, client.ObjectKey{Namespace: env.Namespace, Name: env.Spec.DeploymentRef.Name}, d)
	switch {
	case apierrors.IsNotFound(err):
		o := reconciler.NotFound(v1alpha1.ReasonDeploymentNotFound, fmt.Sprintf(
			"spec.deploymentRef: deployment %q does not exist", env.Spec.DeploymentRef.Name))
		return engine.Inputs{}, &o
	case err != nil:
		return engine.Inputs{}, failed(err)
	case d.Generation < env.Spec.DeploymentGeneration:
		// The cache has not observed the generation of the deployment that the spec refers to.
		o := reconciler.Progressing(v1alpha1.ReasonProgressing, "Waiting for the cache to observe the deployment's current settings").RequeueIn(time.Second).Transient()
		return engine.Inputs{}, &o
	}
	account, o := tenancy.Account(ctx, s)
	if o != nil {
		return engine.Inputs{}, o
	}
	// Other environments follow their deployment also while it is suspended: the Branch controller writes its generation.
	isProduction := env.Spec.Type == v1alpha1.EnvironmentProduction
	isSuspended := isProduction && ptr.Deref(d.Spec.Suspend, false) && d.Generation > env.Spec.DeploymentGeneration
	if isSuspended || !engine.IsOfSource(env, d) {
		return engine.Inputs{}, r.hold(ctx, s, account, d)
	}
	files, o := r.models.files(ctx, s, d)
	if o != nil {
		return engine.Inputs{}, o
	}
	env.Status.ModelHash = ""
	if files != nil {
		env.Status.ModelHash = files.ContentHash
	}
	in, err := engine.InputsFor(account, d, env, files, r.Engine)
	if err != nil {
		var field *engine.FieldError
		if errors.As(err, &field) {
			o := reconciler.Stalled(v1alpha1.ReasonInvalidSpec, field.Error())
			return engine.Inputs{}, &o
		}
		if errors.Is(err, engine.ErrNoCommit) { // the deployment, or the branch, says why, and sets it
			o := reconciler.Progressing(v1alpha1.ReasonProgressing, "Waiting for a commit of the data model: see the deployment")
			return engine.Inputs{}, &o
		}
		return engine.Inputs{}, failed(err)
	}
	tokens, err := tokenFiles(ctx, s, d)
	if err != nil {
		return engine.Inputs{}, failed(err)
	}
	return in.WithTokens(tokens), r.addresses(ctx, s, account, d)
}

// hold keeps the objects of an environment as they are, and reports their state: its deployment is suspended, or its data model
// has moved to another repository of which no commit is known, so the settings that it has now are not rolled out. Only the
// addresses follow them, because the deployment may have lost its custom domain to another one.
func (r *environmentReconciler) hold(ctx context.Context, s *scope, account *v1alpha1.Account, d *v1alpha1.Deployment) *reconciler.Outcome {
	if o := r.addresses(ctx, s, account, d); o != nil {
		return o
	}
	workloads, err := r.workloads(ctx, s)
	if err != nil {
		return failed(err)
	}
	if len(workloads) == 0 {
		o := held(d, "the workloads were created")
		return &o
	}
	status, before := &s.Object.Status, s.Object.Status
	o, _ := observe(s.Object, workloads)
	if o.IsDone() && !isApplied(s.Object, workloads) {
		status.Version, status.Image, status.ModelCommit = before.Version, before.Image, before.ModelCommit
		o = held(d, fmt.Sprintf("version %s, or its commit of the data model, was rolled out", s.Object.Spec.Version))
	}
	return &o
}

// held returns the outcome of an environment that is kept as it was before something happened.
func held(d *v1alpha1.Deployment, before string) reconciler.Outcome {
	if ptr.Deref(d.Spec.Suspend, false) {
		return reconciler.Progressing(v1alpha1.ReasonSuspended, "The deployment was suspended before "+before)
	}
	return reconciler.Progressing(v1alpha1.ReasonProgressing, "Waiting for the branches of "+engine.RemoteOf(d, "").String()+" to be read")
}

// workloads returns the workloads that the environment has. The cache lists them in any order, which must not change a message.
func (r *environmentReconciler) workloads(ctx context.Context, s *scope) ([]client.Object, error) {
	var workloads []client.Object
	for _, list := range []client.ObjectList{&appsv1.DeploymentList{}, &appsv1.StatefulSetList{}} {
		children, err := r.children(ctx, s, list)
		if err != nil {
			return nil, err
		}
		workloads = append(workloads, children...)
	}
	slices.SortFunc(workloads, func(a, b client.Object) int { return strings.Compare(a.GetName(), b.GetName()) })
	return workloads, nil
}

// isApplied reports whether the API pods are those of the version and commit of an environment: neither is applied while
// the environment waits for a user.
func isApplied(env *v1alpha1.Environment, workloads []client.Object) bool {
	return slices.ContainsFunc(workloads, func(w client.Object) bool {
		d, ok := w.(*appsv1.Deployment)
		return ok && d.Name == engine.APIName(env.Name) && engine.Runs(&d.Spec.Template.Spec, env)
	})
}

// tokenFiles returns the files with OpenID Connect tokens of a deployment.
func tokenFiles(ctx context.Context, s *scope, d *v1alpha1.Deployment) ([]engine.TokenFile, error) {
	list := &v1alpha1.OidcTokenConfigList{}
	if err := s.List(ctx, list, client.InNamespace(d.Namespace)); err != nil {
		return nil, fmt.Errorf("list OIDC token configurations: %w", err)
	}
	return oidctoken.Files(oidctoken.Items(list), d.Name), nil
}

// addresses sets the addresses of the environment's APIs in the status.
func (r *environmentReconciler) addresses(ctx context.Context, s *scope, account *v1alpha1.Account, d *v1alpha1.Deployment) *reconciler.Outcome {
	env := s.Object
	branch := ""
	if ref := env.Spec.BranchRef; ref != nil && env.Spec.Type != v1alpha1.EnvironmentProduction {
		b := &v1alpha1.Branch{}
		err := s.Get(ctx, client.ObjectKey{Namespace: env.Namespace, Name: ref.Name}, b)
		if apierrors.IsNotFound(err) {
			o := reconciler.Stalled(v1alpha1.ReasonBranchNotFound, fmt.Sprintf("spec.branchRef: branch %q does not exist", ref.Name))
			return &o
		}
		if err != nil {
			return failed(err)
		}
		branch = b.Spec.Name
	}
	credentials := engine.Addresses(account, d, env, branch, r.SQLPort)
	env.Status.APICredentials = &credentials
	env.Status.ID = env.Labels[v1alpha1.LabelID]
	env.Status.Selector = engine.Selector(env.Name)
	return nil
}

func failed(err error) *reconciler.Outcome {
	o := reconciler.Failed(err)
	return &o
}
