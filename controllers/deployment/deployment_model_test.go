package deployment

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/git"
	"github.com/quoin-dev/quoin/internal/kube"
	"github.com/quoin-dev/quoin/internal/reconciler"
)

// TestBranchObjectNameIsValidAndUnique for any name of a branch, over all deployments.
func TestBranchObjectNameIsValidAndUnique(t *testing.T) {
	deployments := []string{"a", "a-b", "a--b", "a-main", "d" + strings.Repeat("9", 31), "x-" + strings.Repeat("-", 20) + "y"}
	branches := []string{
		"main", "Main", "MAIN", "feature/orders", "feature-orders", "feature--orders", "feature_orders", "feature.orders",
		"-", "--", "a-", "-a", "_", "日本", "日本語", "ÄÖÜ", "İ", "ſ", "x" + strings.Repeat("/y", 120), strings.Repeat("a", 244),
		strings.Repeat("a", 243) + "b", strings.Repeat("-", 39) + "x", strings.Repeat("x", 39) + "-y", "b-main", "1", "\x7f\xff",
	}
	order := rand.New(rand.NewPCG(1, 2))
	letters := []rune("abzAZ019-_./+é世😀 ")
	for range 500 {
		name := make([]rune, 1+order.IntN(60))
		for i := range name {
			name[i] = letters[order.IntN(len(letters))]
		}
		branches = append(branches, string(name))
	}
	owners := map[string]string{}
	for _, d := range deployments {
		seen := map[string]bool{}
		for _, b := range branches {
			if seen[b] {
				continue
			}
			seen[b] = true
			name, owner := BranchObjectName(d, b), fmt.Sprintf("%q of %s", b, d)
			if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 || strings.Contains(name, ".") || len(name) > 82 {
				t.Errorf("branch %s: %q (%d): %v", owner, name, len(name), problems)
			}
			if other, exists := owners[name]; exists {
				t.Fatalf("branches %s and %s have the same object %q", owner, other, name)
			}
			owners[name] = owner
		}
	}
	for branch, want := range map[string]string{
		"main": "sales-main-", "feature/Orders": "sales-feature-orders-", "日本": "sales-",
	} {
		if got := BranchObjectName("sales", branch); !strings.HasPrefix(got, want) || strings.Contains(got, "--") {
			t.Errorf("branch %q has object %q, want %s…", branch, got, want)
		}
	}
}

func gitDeployment(branch string) *v1alpha1.Deployment {
	return &v1alpha1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: "sales", UID: "1"},
		Spec: v1alpha1.DeploymentSpec{Model: v1alpha1.ModelSource{Git: &v1alpha1.GitSource{
			URL: "https://git.example.com/model.git", Branch: branch,
		}}},
	}
}

func commit(digit string) string { return strings.Repeat(digit, 40) }

// fetchedState returns the state after a successful fetch, with main as the default branch.
func fetchedState(refs ...git.Ref) remoteState {
	return remoteState{refs: refs, defaultBranch: "main", succeeded: time.Unix(1, 0), next: time.Minute}
}

func TestDesiredBranch(t *testing.T) {
	cases := map[string]struct {
		name, production string
		want             v1alpha1.BranchSpec
	}{
		"production":           {"main", "main", v1alpha1.BranchSpec{Name: "main", Role: v1alpha1.BranchProduction}},
		"shared":               {"feature/x", "main", v1alpha1.BranchSpec{Name: "feature/x", Role: v1alpha1.BranchShared, ParentBranch: "main"}},
		"personal":             {"dev-ada", "main", v1alpha1.BranchSpec{Name: "dev-ada", Role: v1alpha1.BranchPersonal, ParentBranch: "main"}},
		"personal by its name": {"dev-", "main", v1alpha1.BranchSpec{Name: "dev-", Role: v1alpha1.BranchPersonal, ParentBranch: "main"}},
		"production with dev-": {"dev-main", "dev-main", v1alpha1.BranchSpec{Name: "dev-main", Role: v1alpha1.BranchProduction}},
		"not personal":         {"devel", "main", v1alpha1.BranchSpec{Name: "devel", Role: v1alpha1.BranchShared, ParentBranch: "main"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			b := desiredBranch(gitDeployment(""), tc.name, commit("a"), tc.production)
			tc.want.DeploymentRef.Name = "sales"
			if diff := cmp.Diff(tc.want, b.Spec); diff != "" {
				t.Errorf("spec (-want +got):\n%s", diff)
			}
			if b.Labels[v1alpha1.LabelRemote] != "true" || b.Labels[v1alpha1.LabelDeployment] != "sales" || b.Annotations[v1alpha1.AnnotationCommit] != commit("a") {
				t.Errorf("metadata %+v", b.ObjectMeta)
			}
		})
	}
}

// declared returns a Branch that a user created.
func declared(name, branch string) *v1alpha1.Branch {
	return &v1alpha1.Branch{
		ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: name},
		Spec:       v1alpha1.BranchSpec{DeploymentRef: v1alpha1.LocalReference{Name: "sales"}, Name: branch, Role: v1alpha1.BranchShared},
	}
}

// created returns a Branch that the controller created.
func created(branch, digit string) *v1alpha1.Branch {
	return desiredBranch(gitDeployment(""), branch, commit(digit), "main")
}

// rejectTooLong rejects branch names with "toolong", as the API server rejects long ones.
func rejectTooLong(c client.WithWatch) client.WithWatch {
	return interceptor.NewClient(c, interceptor.Funcs{
		Apply: func(ctx context.Context, c client.WithWatch, obj runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			if named, ok := obj.(interface{ GetName() string }); ok && strings.Contains(named.GetName(), "toolong") {
				return apierrors.NewInvalid(schema.GroupKind{Group: v1alpha1.Group, Kind: "Branch"}, named.GetName(), nil)
			}
			return c.Apply(ctx, obj, opts...)
		},
	})
}

// synced returns the Branch objects after syncBranches: origin, branch, role, commit.
func synced(t *testing.T, api client.WithWatch, d *v1alpha1.Deployment, remote remoteState) ([]string, error) {
	t.Helper()
	api = rejectTooLong(api)
	s := &scope{Client: kube.NewClient(api, api, FieldManager), Object: d, Clock: clocktesting.NewFakePassiveClock(time.Now())}
	list := &v1alpha1.BranchList{}
	if err := api.List(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	err := syncBranches(t.Context(), s, list.Items, remote)
	if err := api.List(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	var found []string
	for i := range list.Items {
		b := &list.Items[i]
		origin := "declared"
		if b.Labels[v1alpha1.LabelRemote] == "true" {
			origin = "followed"
		}
		at := b.Annotations[v1alpha1.AnnotationCommit]
		found = append(found, fmt.Sprintf("%s %s %s %.7s", origin, b.Spec.Name, b.Spec.Role, at))
	}
	return found, err
}

func TestSyncBranches(t *testing.T) {
	cases := map[string]struct {
		objects []client.Object
		refs    []git.Ref
		want    []string
	}{
		"first fetch": {
			nil, []git.Ref{{Name: "dev-ada", Commit: commit("c")}, {Name: "feature", Commit: commit("b")}, {Name: "main", Commit: commit("a")}},
			[]string{"followed dev-ada personal ccccccc", "followed feature shared bbbbbbb", "followed main production aaaaaaa"},
		},
		"refs move and are deleted": {
			[]client.Object{created("main", "a"), created("feature", "b")}, []git.Ref{{Name: "main", Commit: commit("d")}},
			[]string{"followed main production ddddddd"},
		},
		"empty repository": {
			[]client.Object{created("main", "a")}, nil, nil,
		},
		"declared branch is annotated, not created twice": {
			[]client.Object{declared("custom", "feature")}, []git.Ref{{Name: "feature", Commit: commit("b")}, {Name: "main", Commit: commit("a")}},
			[]string{"declared feature shared bbbbbbb", "followed main production aaaaaaa"},
		},
		"declared branch replaces the followed one": {
			[]client.Object{declared("custom", "feature"), created("feature", "b")}, []git.Ref{{Name: "feature", Commit: commit("b")}},
			[]string{"declared feature shared bbbbbbb"},
		},
		"declared branch is kept without its ref": {
			[]client.Object{declared("custom", "feature")}, nil, []string{"declared feature shared missing"},
		},
		"an invalid name does not affect other branches": {
			nil, []git.Ref{{Name: "a-toolong", Commit: commit("c")}, {Name: "main", Commit: commit("a")}},
			[]string{"followed main production aaaaaaa"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			api := newAPI(t, tc.objects...)
			for range 2 { // idempotent
				got, err := synced(t, api, gitDeployment(""), fetchedState(tc.refs...))
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Fatalf("branches (-want +got):\n%s", diff)
				}
			}
		})
	}
}

// TestSyncBranchesKeepsParents: quoin apiserver sets the parents of branches that it creates; a parent
// that does not exist is replaced by production.
func TestSyncBranchesKeepsParents(t *testing.T) {
	child, orphan := created("dev-ada", "c"), created("dev-bob", "d")
	child.Spec.ParentBranch, orphan.Spec.ParentBranch = "feature", "deleted"
	api := newAPI(t, created("main", "a"), created("feature", "b"), child, orphan)
	refs := []git.Ref{
		{Name: "dev-ada", Commit: commit("e")}, {Name: "dev-bob", Commit: commit("d")}, {Name: "feature", Commit: commit("b")}, {Name: "main", Commit: commit("a")},
	}
	if _, err := synced(t, api, gitDeployment(""), fetchedState(refs...)); err != nil {
		t.Fatal(err)
	}
	for branch, want := range map[string]string{"dev-ada": "feature", "dev-bob": "main", "feature": "main", "main": ""} {
		b := &v1alpha1.Branch{}
		if err := api.Get(t.Context(), keyOf(BranchObjectName("sales", branch)), b); err != nil {
			t.Fatal(err)
		}
		if b.Spec.ParentBranch != want {
			t.Errorf("the parent of %s is %q, want %q", branch, b.Spec.ParentBranch, want)
		}
	}
}

// TestSyncBranchesFailsForInvalidProductionBranch: the production branch cannot be ignored.
func TestSyncBranchesFailsForInvalidProductionBranch(t *testing.T) {
	_, err := synced(t, newAPI(t), gitDeployment("toolong"), fetchedState(git.Ref{Name: "toolong", Commit: commit("a")}))
	if !apierrors.IsInvalid(err) {
		t.Errorf("got %v, want the error of the API server", err)
	}
}

func TestDeploymentOwnsItsBranches(t *testing.T) {
	api := newAPI(t)
	if _, err := synced(t, api, gitDeployment(""), fetchedState(git.Ref{Name: "main", Commit: commit("a")})); err != nil {
		t.Fatal(err)
	}
	b := &v1alpha1.Branch{}
	if err := api.Get(t.Context(), keyOf(BranchObjectName("sales", "main")), b); err != nil {
		t.Fatal(err)
	}
	if !metav1.IsControlledBy(b, gitDeployment("")) {
		t.Errorf("owners %v", b.OwnerReferences)
	}
}

func TestProductionCommit(t *testing.T) {
	unknown := remoteState{}
	missing := declared("main", "main")
	missing.Spec.Role = v1alpha1.BranchProduction
	missing.Annotations = map[string]string{v1alpha1.AnnotationCommit: v1alpha1.CommitMissing}
	cases := map[string]struct {
		branch       string
		objects      []v1alpha1.Branch
		remote       remoteState
		name, commit string
	}{
		"default branch":                       {"", nil, fetchedState(git.Ref{Name: "main", Commit: commit("a")}), BranchObjectName("sales", "main"), commit("a")},
		"named branch":                         {"live", nil, fetchedState(git.Ref{Name: "live", Commit: commit("b")}, git.Ref{Name: "main", Commit: commit("a")}), BranchObjectName("sales", "live"), commit("b")},
		"declared branch keeps its name":       {"", []v1alpha1.Branch{*declared("custom", "main")}, fetchedState(git.Ref{Name: "main", Commit: commit("a")}), "custom", commit("a")},
		"branch does not exist":                {"", []v1alpha1.Branch{*created("main", "a")}, fetchedState(), "", ""},
		"after a restart, not fetched yet":     {"", []v1alpha1.Branch{*created("feature", "b"), *created("main", "a")}, unknown, BranchObjectName("sales", "main"), commit("a")},
		"new, not fetched yet":                 {"", nil, unknown, "", ""},
		"known to be missing, not fetched yet": {"", []v1alpha1.Branch{*missing}, unknown, "", ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			name, at := productionCommit(gitDeployment(tc.branch), tc.objects, tc.remote)
			if name != tc.name || at != tc.commit {
				t.Errorf("got %q at %q, want %q at %q", name, at, tc.name, tc.commit)
			}
		})
	}
}

// readyOf returns the condition Ready of an outcome as text; empty for nil.
func readyOf(o *reconciler.Outcome) string {
	if o == nil {
		return ""
	}
	d := gitDeployment("")
	reconciler.Summarise(d, *o)
	c := d.Status.Conditions[0]
	return fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message)
}

// TestMovedModelHasNoCommit: after a change of the URL, production is left alone until the new repository has been read, which
// need not have the commit of the previous one.
func TestMovedModelHasNoCommit(t *testing.T) {
	api, d := newAPI(t, created("main", "a")), gitDeployment("")
	d.Spec.Model.Git.URL = "https://git.example.com/moved.git"
	remotes := NewRemotes(api, nil, clocktesting.NewFakePassiveClock(time.Now()))
	for _, step := range []struct {
		name            string
		remote          remoteState
		commit, outcome string
	}{
		{"not fetched yet", remoteState{}, "", "Unknown Progressing: Reading the branches of https://git.example.com/moved.git"},
		{"cannot be read", remoteState{err: git.ErrUnauthorized, failures: 1}, "", "False GitAccessDenied: "},
		{"fetched", fetchedState(git.Ref{Name: "main", Commit: commit("b")}), commit("b"), ""},
		{"not fetched yet, after a restart", remoteState{}, commit("b"), ""},
	} {
		step.remote.source, step.remote.fetching = remotes.sourceOf(d), true // so that no fetch starts
		remotes.states[client.ObjectKeyFromObject(d)] = &step.remote
		model, o := (&deploymentReconciler{Options: Options{Remotes: remotes}}).model(t.Context(), &scope{Client: kube.NewClient(api, api, FieldManager), Object: d})
		if got := readyOf(o); model.commit != step.commit || !strings.HasPrefix(got, step.outcome) || (got == "") != (step.outcome == "") {
			t.Errorf("%s: commit %q, outcome %q; want %q, %q", step.name, model.commit, got, step.commit, step.outcome)
		}
	}
}

// TestNoRollbackToAnotherRepository: the repository to which a model has moved need not have the commit that production serves.
func TestNoRollbackToAnotherRepository(t *testing.T) {
	d := gitDeployment("")
	d.Generation, d.Status.ModelCommit, d.Status.History = 2, commit("a"), []v1alpha1.VersionRun{run("1.2.3")}
	env := &v1alpha1.Environment{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1alpha1.AnnotationSource: "https://git.example.com/previous.git"}}}
	env.Spec.Image, env.Spec.ModelCommit, env.Spec.DeploymentGeneration = run("1.2.3").Pinned(), commit("a"), 1
	planFor := func(head string) plan {
		return makePlan(observation{deployment: d, choice: choice{target: run("1.2.3")}, commit: head, production: env, now: time.Unix(1, 0)})
	}
	if p := planFor(commit("a")); p.commit != commit("a") || p.status.ModelCommit != commit("a") {
		t.Errorf("moved with its commits: commit %q, served %q", p.commit, p.status.ModelCommit)
	}
	p := planFor(commit("b"))
	if p.commit != commit("b") || p.status.ModelCommit != "" {
		t.Errorf("moved: commit %q, served %q", p.commit, p.status.ModelCommit)
	}
	d.Status = p.status
	env.Annotations[v1alpha1.AnnotationSource] = d.Spec.Model.Git.URL
	env.Spec.ModelCommit, env.Spec.DeploymentGeneration = p.commit, d.Generation
	reconciler.Summarise(env, reconciler.Stalled(v1alpha1.ReasonModelBroken, "The data model does not compile"))
	if p := planFor(commit("b")); p.commit != commit("b") || p.status.FailedModel != nil || !p.outcome.IsStalled() {
		t.Errorf("the new commit does not compile: commit %q, failed %+v, outcome %q", p.commit, p.status.FailedModel, readyOf(&p.outcome))
	}
}

// TestChangedSourceIsNotReady: after a change of the spec, such as of the branch, production runs the commit of the previous
// branch and the deployment is not Ready until the repository has been read.
func TestChangedSourceIsNotReady(t *testing.T) {
	for failures := range failureThreshold {
		api, d := newAPI(t, created("main", "a")), gitDeployment("")
		d.Generation, d.Status.ObservedGeneration = 2, 1
		remotes := NewRemotes(api, nil, clocktesting.NewFakePassiveClock(time.Now()))
		remotes.states[client.ObjectKeyFromObject(d)] = &remoteState{source: remotes.sourceOf(d), fetching: true, failures: failures}
		model, o := (&deploymentReconciler{Options: Options{Remotes: remotes}}).model(t.Context(), &scope{Client: kube.NewClient(api, api, FieldManager), Object: d})
		want := "Unknown Progressing: Reading the branches of https://git.example.com/model.git"
		if model.commit != commit("a") || o != nil || readyOf(model.warning) != want {
			t.Errorf("after %d failures: commit %q, outcome %q, warning %q; want %q", failures, model.commit, readyOf(o), readyOf(model.warning), want)
		}
	}
}

// TestModelByStateOfTheRemote: which commit production serves, and what the status reports.
func TestModelByStateOfTheRemote(t *testing.T) {
	refused := errors.New("connection refused")
	main := git.Ref{Name: "main", Commit: commit("b")}
	failing := func(failures int, state remoteState) remoteState {
		state.err, state.failures = refused, failures
		return state
	}
	cases := map[string]struct {
		objects []client.Object
		remote  remoteState
		commit  string
		// outcome keeps production from running, warning does not.
		outcome, warning string
	}{
		"fetched":                              {nil, fetchedState(main), commit("b"), "", ""},
		"not fetched yet":                      {nil, remoteState{}, "", "Unknown Progressing: Reading the branches of https://git.example.com/model.git", ""},
		"not fetched yet, after a restart":     {[]client.Object{created("main", "a")}, remoteState{}, commit("a"), "", ""},
		"no such branch":                       {nil, fetchedState(git.Ref{Name: "x", Commit: commit("b")}), "", `False ModelNotFound: spec.model.git.branch: https://git.example.com/model.git has no default branch; push one, or set the branch`, ""},
		"never fetched":                        {nil, failing(1, remoteState{}), "", "False GitFailed: spec.model.git: connection refused", ""},
		"fails once after a restart":           {[]client.Object{created("main", "a")}, failing(1, remoteState{}), commit("a"), "", ""},
		"fails three times after a restart":    {[]client.Object{created("main", "a")}, failing(3, remoteState{}), commit("a"), "", "False GitFailed: spec.model.git: connection refused"},
		"fails twice":                          {nil, failing(2, fetchedState(main)), commit("b"), "", ""},
		"fails a third time":                   {nil, failing(3, fetchedState(main)), commit("b"), "", "False GitFailed: spec.model.git: connection refused"},
		"new source without a repository":      {[]client.Object{created("main", "a")}, remoteState{err: git.ErrRepositoryNotFound, failures: 1}, commit("a"), "", "False GitRepositoryNotFound: spec.model.git: repository not found; correct url, or, if the repository is private, set secretRef to a Secret with credentials that may read it"},
		"repository removed":                   {nil, remoteState{err: git.ErrRepositoryNotFound, failures: 2, succeeded: time.Now(), refs: []git.Ref{main}, defaultBranch: "main"}, commit("b"), "", ""},
		"fails, and the branch does not exist": {nil, failing(1, fetchedState()), "", "False GitFailed: spec.model.git: connection refused", ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			api, d := newAPI(t, tc.objects...), gitDeployment("")
			s := &scope{Client: kube.NewClient(api, api, FieldManager), Object: d}
			remotes := NewRemotes(api, nil, clocktesting.NewFakePassiveClock(time.Now()))
			tc.remote.source, tc.remote.fetching = (&Remotes{}).sourceOf(d), true // so that no fetch starts
			remotes.states[client.ObjectKeyFromObject(d)] = &tc.remote
			r := &deploymentReconciler{Options: Options{Remotes: remotes}}
			model, o := r.model(t.Context(), s)
			if model.commit != tc.commit || readyOf(o) != tc.outcome || readyOf(model.warning) != tc.warning {
				t.Errorf("commit %q, outcome %q, warning %q; want %q, %q, %q", model.commit, readyOf(o), readyOf(model.warning), tc.commit, tc.outcome, tc.warning)
			}
			if model.nextFetch <= 0 || (o != nil && o.After <= 0) {
				t.Errorf("no further fetch: %+v, %+v", model, o)
			}
		})
	}
	t.Run("in a config map", func(t *testing.T) {
		d := carrying("sales", "", "")
		api := newAPI(t)
		remotes := NewRemotes(api, nil, clocktesting.NewFakePassiveClock(time.Now()))
		model, o := (&deploymentReconciler{Options: Options{Remotes: remotes}}).model(t.Context(), &scope{Client: kube.NewClient(api, api, FieldManager), Object: d})
		if model != (modelState{}) || o != nil {
			t.Errorf("got %+v, %+v", model, o)
		}
	})
}

// TestModelThatLeavesGit: the branches that follow the repository are deleted, declared ones are kept without their commit, and
// what is known of the repository is forgotten.
func TestModelThatLeavesGit(t *testing.T) {
	of := declared("other", "feature")
	of.Spec.DeploymentRef.Name = "hr"
	of.Labels = map[string]string{v1alpha1.LabelRemote: "true"}
	custom := declared("custom", "next")
	custom.Annotations = map[string]string{v1alpha1.AnnotationCommit: commit("c")}
	api := newAPI(t, created("main", "a"), created("feature", "b"), custom, of)
	remotes := NewRemotes(api, nil, clocktesting.NewFakePassiveClock(time.Now()))
	d := carrying("sales", "", "")
	remotes.states[client.ObjectKeyFromObject(d)] = &remoteState{}
	r := &deploymentReconciler{Options: Options{Remotes: remotes}}
	for range 2 { // idempotent
		if _, o := r.model(t.Context(), &scope{Client: kube.NewClient(api, api, FieldManager), Object: d}); o != nil {
			t.Fatalf("got %+v", o)
		}
	}
	list := &v1alpha1.BranchList{}
	if err := api.List(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
		if got := list.Items[i].Annotations[v1alpha1.AnnotationCommit]; got != "" {
			t.Errorf("branch %s has commit %s", list.Items[i].Name, got)
		}
	}
	if diff := cmp.Diff([]string{"custom", "other"}, names); diff != "" {
		t.Errorf("branches (-want +got):\n%s", diff)
	}
	if len(remotes.states) > 0 {
		t.Error("the state of the repository is kept")
	}
}
