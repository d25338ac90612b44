package branch

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/controllers/predicates"
	"github.com/quoin-dev/quoin/internal/apitest"
	"github.com/quoin-dev/quoin/internal/ids"
	"github.com/quoin-dev/quoin/internal/kube"
	"github.com/quoin-dev/quoin/internal/reconciler"
	"github.com/quoin-dev/quoin/internal/tenant"
)

// newAPI returns a fake client with objects and an account that has allocated 5 IDs of each kind.
func newAPI(t *testing.T, objs ...client.Object) client.WithWatch {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	objs = append(objs, &v1alpha1.Account{
		ObjectMeta: metav1.ObjectMeta{Name: "acme", Annotations: map[string]string{v1alpha1.AnnotationIssuedIDs: "branches=5,environments=5"}},
		Spec:       v1alpha1.AccountSpec{Namespace: "acme", Host: "acme.example.com"},
	})
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objs...).
		WithStatusSubresource(&v1alpha1.Branch{}).
		WithIndex(&v1alpha1.Account{}, tenant.IndexNamespace, tenant.NamespaceOf).
		WithIndex(&v1alpha1.Branch{}, IndexDeployment, func(o client.Object) []string {
			b, _ := o.(*v1alpha1.Branch)
			return []string{b.Spec.DeploymentRef.Name}
		}).Build()
}

func gitDeployment() *v1alpha1.Deployment {
	return &v1alpha1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: "sales", UID: "d"},
		Spec: v1alpha1.DeploymentSpec{ReleaseChannel: "stable", Model: v1alpha1.ModelSource{
			Git: &v1alpha1.GitSource{URL: "https://git.example.com/model.git"},
		}},
	}
}

// channel returns a channel with versions, newest first; 1.2.3 if none are given.
func channel(versions ...string) *v1alpha1.ReleaseChannel {
	c := &v1alpha1.ReleaseChannel{ObjectMeta: metav1.ObjectMeta{Name: "stable"}}
	c.Spec.ImageRepository = "registry.example.com/cube"
	if len(versions) == 0 {
		versions = []string{"1.2.3"}
	}
	for _, v := range versions {
		c.Status.Versions = append(c.Status.Versions, v1alpha1.ChannelVersion{Version: v, Image: "registry.example.com/cube:v" + v, Digest: "sha256:1"})
	}
	return c
}

var commit = strings.Repeat("a", 40)

// shared returns a shared branch of the remote with a creation time.
func shared(name, branch string, second int64, change ...func(b *v1alpha1.Branch)) *v1alpha1.Branch {
	b := &v1alpha1.Branch{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "acme", Name: name, UID: types.UID(name), Generation: 1, CreationTimestamp: metav1.Unix(second, 0),
			Labels: map[string]string{}, Annotations: map[string]string{v1alpha1.AnnotationCommit: commit},
		},
		Spec: v1alpha1.BranchSpec{DeploymentRef: v1alpha1.LocalReference{Name: "sales"}, Name: branch, Role: v1alpha1.BranchShared},
	}
	for _, c := range change {
		c(b)
	}
	return b
}

func followed(b *v1alpha1.Branch) { b.Labels[v1alpha1.LabelRemote] = "true" }

func staging(b *v1alpha1.Branch) { b.Spec.StagingEnvironmentEnabled = ptr.To(true) }

func withIDLabel(id string) func(*v1alpha1.Branch) {
	return func(b *v1alpha1.Branch) { b.Labels[v1alpha1.LabelID] = id }
}

func withEnvironmentID(id string) func(*v1alpha1.Branch) {
	return func(b *v1alpha1.Branch) { b.Annotations[v1alpha1.AnnotationEnvironmentID] = id }
}

func withID(id int64) func(*v1alpha1.Branch) {
	return func(b *v1alpha1.Branch) { b.Labels[v1alpha1.LabelID], b.Status.ID = fmt.Sprint(id), id }
}

// reconcileOnce reconciles a branch and returns it.
func reconcileOnce(t *testing.T, api client.WithWatch, name string) *v1alpha1.Branch {
	t.Helper()
	k := kube.NewClient(api, api, "quoin-test")
	r := New(k, events.NewFakeRecorder(10), clocktesting.NewFakePassiveClock(time.Now()), ids.New(k))
	key := client.ObjectKey{Namespace: "acme", Name: name}
	if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key}); err != nil {
		t.Fatal(err)
	}
	b := &v1alpha1.Branch{}
	if err := api.Get(t.Context(), key, b); err != nil {
		t.Fatal(err)
	}
	return b
}

// readyCondition returns the status, reason and message of the Ready condition.
func readyCondition(b *v1alpha1.Branch) (reason, message string) {
	c := meta.FindStatusCondition(b.Status.Conditions, v1alpha1.ConditionReady)
	if c == nil {
		return "", ""
	}
	return string(c.Status) + " " + c.Reason, c.Message
}

// TestOneObjectPerBranch: of several Branch objects for the same branch, the oldest declared one
// counts; declared objects come before those that follow the remote.
func TestOneObjectPerBranch(t *testing.T) {
	cases := map[string]struct {
		other *v1alpha1.Branch
		self  *v1alpha1.Branch
		want  string
	}{
		"alone":                           {nil, shared("self", "main", 5), "True Succeeded"},
		"another branch":                  {shared("other", "feature", 1), shared("self", "main", 5), "True Succeeded"},
		"another deployment's":            {shared("other", "main", 1, func(b *v1alpha1.Branch) { b.Spec.DeploymentRef.Name = "hr" }), shared("self", "main", 5), "True Succeeded"},
		"second":                          {shared("other", "main", 1), shared("self", "main", 5), "False NameTaken"},
		"first":                           {shared("other", "main", 9), shared("self", "main", 5), "True Succeeded"},
		"same second, later name":         {shared("other", "main", 5), shared("self", "main", 5), "False NameTaken"},
		"same second, earlier name":       {shared("z", "main", 5), shared("self", "main", 5), "True Succeeded"},
		"declared after a followed one":   {shared("other", "main", 1, followed), shared("self", "main", 5), "True Succeeded"},
		"followed, declared before":       {shared("other", "main", 1), shared("self", "main", 5, followed), "False NameTaken"},
		"names that differ in their case": {shared("other", "Main", 1), shared("self", "main", 5), "True Succeeded"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			objs := []client.Object{tc.self, gitDeployment()}
			if tc.other != nil {
				objs = append(objs, tc.other)
			}
			got, message := readyCondition(reconcileOnce(t, newAPI(t, objs...), "self"))
			if got != tc.want {
				t.Errorf("is %s: %s; want %s", got, message, tc.want)
			}
			if tc.want == "False NameTaken" && !strings.Contains(message, `is declared by Branch "other"`) {
				t.Errorf("does not name the other object: %s", message)
			}
		})
	}
}

func TestBranchMustExistInTheRemote(t *testing.T) {
	withCommit := func(commit string) *v1alpha1.Branch {
		return shared("self", "main", 1, func(b *v1alpha1.Branch) { b.Annotations[v1alpha1.AnnotationCommit] = commit })
	}
	cases := map[string]struct {
		branch        *v1alpha1.Branch
		change        func(d *v1alpha1.Deployment)
		want, message string
	}{
		"found":      {withCommit(commit), nil, "", ""},
		"not in Git": {withCommit(commit), func(d *v1alpha1.Deployment) { d.Spec.Model.Git = nil }, "False BranchNotFound", `deployment "sales" is not in Git`},
		"missing":    {withCommit(v1alpha1.CommitMissing), nil, "False BranchNotFound", `https://git.example.com/model.git has no branch "main"`},
		"of another repository": {shared("self", "main", 1, func(b *v1alpha1.Branch) {
			b.Annotations[v1alpha1.AnnotationSource] = "https://git.example.com/previous.git"
		}), nil, "Unknown Progressing", "Waiting for the branches of https://git.example.com/model.git"},
		"not read so far": {withCommit(""), nil, "Unknown Progressing", "https://git.example.com/model.git"},
		"cannot be read": {withCommit(""), func(d *v1alpha1.Deployment) {
			reconciler.Summarise(d, reconciler.Stalled(v1alpha1.ReasonGitAccessDenied, "spec.model.git: unauthorized"))
		}, "False GitAccessDenied", `spec.deploymentRef: deployment "sales": spec.model.git: unauthorized`},
		"missing, no more": {withCommit(v1alpha1.CommitMissing), func(d *v1alpha1.Deployment) { d.Spec.Model.Git = nil }, "False BranchNotFound", "is not in Git"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d := gitDeployment()
			if tc.change != nil {
				tc.change(d)
			}
			o := checkRemote(tc.branch, d)
			if o == nil {
				if tc.want != "" {
					t.Errorf("is found, want %s", tc.want)
				}
				return
			}
			reconciler.Summarise(tc.branch, *o)
			got, message := readyCondition(tc.branch)
			if got != tc.want || !strings.Contains(message, tc.message) {
				t.Errorf("is %s: %s; want %s: …%s…", got, message, tc.want, tc.message)
			}
		})
	}
}

// TestIDsAreAllocatedOrKept: a branch keeps the valid IDs that it carries, and they are not
// allocated again.
func TestIDsAreAllocatedOrKept(t *testing.T) {
	cases := map[string]struct {
		self        *v1alpha1.Branch
		id          int64
		environment string
		ledger      string
	}{
		"new":                  {shared("self", "main", 1, staging), 6, "6", "branches=6,environments=6"},
		"without environment":  {shared("self", "main", 1), 6, "", "branches=6,environments=5"},
		"restored":             {shared("self", "main", 1, staging, withIDLabel("9"), withEnvironmentID("8")), 9, "8", "branches=9,environments=8"},
		"invalid":              {shared("self", "main", 1, staging, withIDLabel("abc"), withEnvironmentID("x y")), 6, "6", "branches=6,environments=6"},
		"known":                {shared("self", "main", 1, withID(3)), 3, "", "branches=5,environments=5"},
		"old environment ID":   {shared("self", "main", 1, staging, withID(3), withEnvironmentID("4")), 3, "4", "branches=5,environments=5"},
		"later environment ID": {shared("self", "main", 1, staging, withID(3), withEnvironmentID("40")), 3, "40", "branches=5,environments=40"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			api := newAPI(t, tc.self, gitDeployment(), channel())
			for range 2 {
				b := reconcileOnce(t, api, "self")
				if b.Status.ID != tc.id || b.Labels[v1alpha1.LabelID] != fmt.Sprint(tc.id) || b.Annotations[v1alpha1.AnnotationEnvironmentID] != tc.environment {
					t.Errorf("status %d, label %q, environment %q; want %d and %q", b.Status.ID, b.Labels[v1alpha1.LabelID],
						b.Annotations[v1alpha1.AnnotationEnvironmentID], tc.id, tc.environment)
				}
			}
			if got := apitest.IssuedIDs(t, api, "acme"); got != tc.ledger {
				t.Errorf("issued IDs are %q, want %q", got, tc.ledger)
			}
		})
	}
}

// TestReplacedBranchKeepsItsEnvironmentAndIDs: kubectl replace removes the label and the annotations that controllers have set.
func TestReplacedBranchKeepsItsEnvironmentAndIDs(t *testing.T) {
	api := newAPI(t, shared("self", "main", 1, staging), gitDeployment(), channel())
	before := reconcileOnce(t, api, "self")
	replaced := before.DeepCopy()
	replaced.Labels, replaced.Annotations = nil, nil
	if err := api.Update(t.Context(), replaced); err != nil {
		t.Fatal(err)
	}
	b := reconcileOnce(t, api, "self")
	if got, message := readyCondition(b); got != "Unknown Progressing" {
		t.Errorf("without a commit, is %s: %s", got, message)
	}
	if err := api.Get(t.Context(), client.ObjectKey{Namespace: "acme", Name: StagingName(b)}, &v1alpha1.Environment{}); err != nil {
		t.Fatal(err)
	}
	metav1.SetMetaDataAnnotation(&b.ObjectMeta, v1alpha1.AnnotationCommit, commit) // as the Deployment controller does
	if err := api.Update(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	b = reconcileOnce(t, api, "self")
	for _, key := range []string{v1alpha1.AnnotationEnvironmentID, v1alpha1.AnnotationCommit} {
		if b.Annotations[key] == "" || b.Annotations[key] != before.Annotations[key] {
			t.Errorf("annotation %s is %q, and was %q", key, b.Annotations[key], before.Annotations[key])
		}
	}
	if b.Labels[v1alpha1.LabelID] != "6" || b.Status.ID != 6 || before.Status.ID != 6 {
		t.Errorf("label %q, status %d; was %d", b.Labels[v1alpha1.LabelID], b.Status.ID, before.Status.ID)
	}
	if got := apitest.IssuedIDs(t, api, "acme"); got != "branches=6,environments=6" {
		t.Errorf("issued IDs are %q", got)
	}
}

// TestCopiedIDsAreRejected: a branch made from the YAML of another one must not share its IDs.
func TestCopiedIDsAreRejected(t *testing.T) {
	for name, copied := range map[string]func(*v1alpha1.Branch){"label": withIDLabel("3"), "annotation": withEnvironmentID("4")} {
		t.Run(name, func(t *testing.T) {
			other := shared("other", "main", 1, withID(3), withEnvironmentID("4"))
			b := reconcileOnce(t, newAPI(t, other, shared("self", "feature", 5, copied), gitDeployment()), "self")
			got, message := readyCondition(b)
			if got != "False InvalidSpec" || !strings.Contains(message, `has an ID of branch "other"; remove both`) || b.Status.ID != 0 {
				t.Errorf("is %s: %s, with ID %d", got, message, b.Status.ID)
			}
		})
	}
}

func TestStagingEnvironment(t *testing.T) {
	api := newAPI(t, shared("self", "main", 1, staging), gitDeployment(), channel())
	b := reconcileOnce(t, api, "self")
	env := &v1alpha1.Environment{}
	if err := api.Get(t.Context(), client.ObjectKey{Namespace: "acme", Name: StagingName(b)}, env); err != nil {
		t.Fatal(err)
	}
	want := v1alpha1.EnvironmentSpec{
		DeploymentRef: v1alpha1.LocalReference{Name: "sales"}, Type: v1alpha1.EnvironmentStaging,
		BranchRef: &v1alpha1.LocalReference{Name: "self"}, Version: "1.2.3", Image: "registry.example.com/cube:v1.2.3@sha256:1", ModelCommit: commit,
	}
	if diff := cmp.Diff(want, env.Spec); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
	if b.Status.Environment != env.Name || !metav1.IsControlledBy(env, b) {
		t.Errorf("status.environment %q, owners %v", b.Status.Environment, env.OwnerReferences)
	}

	t.Run("of another owner is kept", func(t *testing.T) {
		foreign := &v1alpha1.Environment{ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: StagingName(b)}}
		api := newAPI(t, shared("self", "main", 1), gitDeployment(), foreign)
		reconcileOnce(t, api, "self")
		if err := api.Get(t.Context(), client.ObjectKeyFromObject(foreign), foreign); err != nil {
			t.Error(err)
		}
	})
}

// TestLabelsOfLongBranches are valid: a Branch may have a longer name than a label has characters, and the
// Kubernetes API server rejects an Environment with such a label.
func TestLabelsOfLongBranches(t *testing.T) {
	long := strings.Repeat("x", 54) + "-feature-customer-lifetime-value-"
	values := map[string]string{}
	for _, name := range []string{"sales-main-0d6e4079", strings.Repeat("y", 63), long + "a", long + "b", strings.Repeat("z-", 60) + "z"} {
		api := newAPI(t, shared(name, "main", 1, staging), gitDeployment(), channel())
		b, env := reconcileOnce(t, api, name), &v1alpha1.Environment{}
		if err := api.Get(t.Context(), client.ObjectKey{Namespace: "acme", Name: StagingName(b)}, env); err != nil {
			t.Fatal(err)
		}
		value := env.Labels[v1alpha1.LabelBranch]
		if problems := content.IsLabelValue(value); len(problems) > 0 || len(name) <= 63 && value != name {
			t.Errorf("branch %q has the label %q: %v", name, value, problems)
		}
		if other, exists := values[value]; exists {
			t.Errorf("branches %q and %q have the same label", name, other)
		}
		values[value] = name
	}
}

// onDemand returns a deployment with on-demand environments for branches of some roles.
func onDemand(idle *int32, roles ...v1alpha1.OnDemandRole) *v1alpha1.Deployment {
	d := gitDeployment()
	d.Spec.OnDemand = &v1alpha1.OnDemand{Roles: roles, IdleSeconds: idle}
	return d
}

// TestServingOf: which environment a branch has, and when it sleeps.
func TestServingOf(t *testing.T) {
	role := func(r v1alpha1.BranchRole) func(*v1alpha1.Branch) {
		return func(b *v1alpha1.Branch) { b.Spec.Role = r }
	}
	const staged, dev = v1alpha1.EnvironmentStaging, v1alpha1.EnvironmentDevelopment
	both := onDemand(nil, "shared", "personal")
	cases := map[string]struct {
		deployment *v1alpha1.Deployment
		branch     *v1alpha1.Branch
		want       *serving
	}{
		"default":                {gitDeployment(), shared("b", "b", 1), nil},
		"enabled":                {gitDeployment(), shared("b", "b", 1, staging), &serving{kind: staged}},
		"enabled, and on demand": {both, shared("b", "b", 1, staging), &serving{kind: staged}},
		"shared":                 {both, shared("b", "b", 1), &serving{staged, ptr.To[int32](1800)}},
		"shared, other time":     {onDemand(ptr.To[int32](600), "shared"), shared("b", "b", 1), &serving{staged, ptr.To[int32](600)}},
		"shared, not its role":   {onDemand(nil, "personal"), shared("b", "b", 1), nil},
		"personal":               {both, shared("b", "b", 1, role(v1alpha1.BranchPersonal)), &serving{dev, ptr.To[int32](1800)}},
		"personal, not its role": {onDemand(nil, "shared"), shared("b", "b", 1, role(v1alpha1.BranchPersonal)), nil},
		"production":             {both, shared("b", "b", 1, role(v1alpha1.BranchProduction)), nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, servingOf(tc.branch, tc.deployment), cmp.AllowUnexported(serving{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestChangedRoleReplacesTheEnvironment with one of another type.
func TestChangedRoleReplacesTheEnvironment(t *testing.T) {
	api := newAPI(t, shared("self", "dev-ada", 1), onDemand(nil, "shared", "personal"), channel())
	environments := func() (kinds []v1alpha1.EnvironmentType) {
		list := &v1alpha1.EnvironmentList{}
		if err := api.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		for i := range list.Items {
			kinds = append(kinds, list.Items[i].Spec.Type)
		}
		return kinds
	}
	b := reconcileOnce(t, api, "self")
	id := b.Annotations[v1alpha1.AnnotationEnvironmentID]
	if got := environments(); !slices.Equal(got, []v1alpha1.EnvironmentType{v1alpha1.EnvironmentStaging}) || b.Status.Environment != StagingName(b) {
		t.Errorf("environments %v, status %q", got, b.Status.Environment)
	}
	b.Spec.Role = v1alpha1.BranchPersonal
	if err := api.Update(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	b = reconcileOnce(t, api, "self")
	if got := environments(); !slices.Equal(got, []v1alpha1.EnvironmentType{v1alpha1.EnvironmentDevelopment}) ||
		!strings.HasPrefix(b.Status.Environment, "sales-dev-") || b.Annotations[v1alpha1.AnnotationEnvironmentID] != id {
		t.Errorf("environments %v, status %q, ID %q (was %q)", got, b.Status.Environment, b.Annotations[v1alpha1.AnnotationEnvironmentID], id)
	}
	d := gitDeployment()
	if err := api.Get(t.Context(), client.ObjectKeyFromObject(d), d); err != nil {
		t.Fatal(err)
	}
	d.Spec.OnDemand = nil
	if err := api.Update(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	if b = reconcileOnce(t, api, "self"); len(environments()) != 0 || b.Status.Environment != "" {
		t.Errorf("environments %v, status %q", environments(), b.Status.Environment)
	}
}

// TestBranchWithoutEnvironment: the conditions of branches that have none.
func TestBranchWithoutEnvironment(t *testing.T) {
	empty := channel()
	empty.Status.Versions = nil
	cases := map[string]struct {
		objs          []client.Object
		self          *v1alpha1.Branch
		want, message string
	}{
		"disabled":      {[]client.Object{gitDeployment(), channel()}, shared("self", "main", 1), "True Succeeded", "follows the remote"},
		"personal":      {[]client.Object{gitDeployment(), channel()}, shared("self", "main", 1, staging, func(b *v1alpha1.Branch) { b.Spec.Role = v1alpha1.BranchPersonal }), "True Succeeded", "follows the remote"},
		"no deployment": {nil, shared("self", "main", 1, staging), "False DeploymentNotFound", `spec.deploymentRef: deployment "sales" does not exist`},
		"no channel":    {[]client.Object{gitDeployment()}, shared("self", "main", 1, staging), "False ReleaseChannelNotFound", `"stable"`},
		"empty channel": {[]client.Object{gitDeployment(), empty}, shared("self", "main", 1, staging), "False ReleaseChannelEmpty", `"stable"`},
		"no account":    {nil, shared("self", "main", 1, func(b *v1alpha1.Branch) { b.Namespace = "acme" }), "False DeploymentNotFound", ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			b := reconcileOnce(t, newAPI(t, append(tc.objs, tc.self)...), "self")
			got, message := readyCondition(b)
			if got != tc.want || !strings.Contains(message, tc.message) || b.Status.Environment != "" {
				t.Errorf("is %s: %s, with environment %q; want %s: …%s…", got, message, b.Status.Environment, tc.want, tc.message)
			}
		})
	}
}

// TestOutcomeOfEnvironment: the branch reports the conditions of the environment that are about
// its current spec.
func TestOutcomeOfEnvironment(t *testing.T) {
	env := func(generation, observed int64, o reconciler.Outcome) *v1alpha1.Environment {
		e := &v1alpha1.Environment{ObjectMeta: metav1.ObjectMeta{Generation: observed}}
		reconciler.Summarise(e, o)
		e.Generation = generation
		return e
	}
	stalled := reconciler.Stalled("A", "spec.x: must be y")
	cases := map[string]struct {
		env           *v1alpha1.Environment
		want, message string
	}{
		"new":            {&v1alpha1.Environment{ObjectMeta: metav1.ObjectMeta{Generation: 1}}, "Unknown Progressing", "starting"},
		"ready":          {env(2, 2, reconciler.Done("x")), "True Succeeded", "is active"},
		"ready before":   {env(2, 1, reconciler.Done("x")), "Unknown Progressing", "starting"},
		"stalled":        {env(2, 2, stalled), "False A", "spec.x: must be y"},
		"stalled before": {env(2, 1, stalled), "Unknown Progressing", "starting"},
		"rolling out":    {env(2, 2, reconciler.Progressing("B", "x")), "Unknown Progressing", "starting"},
		"failing":        {env(2, 2, reconciler.Failing("C", "x", 1)), "Unknown Progressing", "starting"},
		"asleep":         {env(2, 2, reconciler.Done("x").WithReason(v1alpha1.ReasonAsleep)), "True Asleep", "is asleep"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			b := shared("self", "main", 1)
			reconciler.Summarise(b, outcomeOf(tc.env))
			if got, message := readyCondition(b); got != tc.want || !strings.Contains(message, tc.message) {
				t.Errorf("is %s: %s; want %s: …%s…", got, message, tc.want, tc.message)
			}
		})
	}
}

// TestStagingNameIsValidAndUnique for any branch of any deployment.
func TestStagingNameIsValidAndUnique(t *testing.T) {
	order := rand.New(rand.NewPCG(1, 2))
	names := map[string]string{}
	for i := range 500 {
		deployment := "d" + strings.Repeat("x", order.IntN(32))
		b := shared(fmt.Sprintf("%s%d.b", strings.Repeat("y", order.IntN(200)), i), "main", 1)
		b.Spec.DeploymentRef.Name = deployment
		name := StagingName(b)
		if problems := validation.IsDNS1123Label(name); len(problems) > 0 || len(name) > 50 {
			t.Errorf("%q (%d): %v", name, len(name), problems)
		}
		if other, exists := names[name]; exists {
			t.Errorf("%s and %s have the same environment", other, b.Name)
		}
		names[name] = b.Name
		if name != StagingName(b) {
			t.Error("the name is not deterministic")
		}
	}
}

// TestStoppedVersionsAreSelected even if the newest version is not among them.
func TestStoppedVersionsAreSelected(t *testing.T) {
	before, after := channel("1.2.5", "1.2.4", "1.2.3"), channel("1.2.5", "1.2.4", "1.2.3")
	stopped := []v1alpha1.VersionRollout{
		{Version: "1.2.5", State: v1alpha1.VersionStopped}, {Version: "1.2.4", State: v1alpha1.VersionStopped},
	}
	before.Status.StoppedVersion, before.Status.Rollouts = "1.2.5", stopped[:1]
	after.Status.StoppedVersion, after.Status.Rollouts = "1.2.5", stopped
	if !headChanged.Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}) {
		t.Error("a second stopped version is not selected")
	}
	if !headChanged.Update(event.UpdateEvent{ObjectOld: after, ObjectNew: before}) {
		t.Error("a resumed version is not selected")
	}
	counted := after.DeepCopy()
	counted.Status.Rollouts[0].Failed = 4
	if headChanged.Update(event.UpdateEvent{ObjectOld: after, ObjectNew: counted}) {
		t.Error("a change of the counts is selected")
	}
}

func TestPredicates(t *testing.T) {
	before := channel()
	if headChanged.Update(event.UpdateEvent{ObjectOld: channel("1.2.3", "1.2.2"), ObjectNew: before}) {
		t.Error("selected without a change of the head")
	}
	moved, digest := channel(), channel()
	moved.Status.Versions[0].Image = "mirror.example.com/cube:v1.2.3"
	digest.Status.Versions[0].Digest = "sha256:2"
	for name, after := range map[string]*v1alpha1.ReleaseChannel{
		"new head": channel("1.2.4", "1.2.3"), "other repository": moved, "other digest": digest,
	} {
		if !headChanged.Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}) {
			t.Errorf("not selected: %s", name)
		}
	}
	gitFailureChanged := predicates.Changed(gitProblem)
	readable, stalled := gitDeployment(), gitDeployment()
	if gitFailureChanged.Update(event.UpdateEvent{ObjectOld: readable, ObjectNew: readable}) {
		t.Error("a deployment without a change is selected")
	}
	reconciler.Summarise(stalled, reconciler.Stalled(v1alpha1.ReasonGitAccessDenied, "unauthorized"))
	if !gitFailureChanged.Update(event.UpdateEvent{ObjectOld: readable, ObjectNew: stalled}) {
		t.Error("a repository that cannot be read is not selected")
	}
	was, changed := shared("self", "main", 1), shared("self", "main", 1)
	changed.Status.LastHash = "x"
	if specOrCommit.Update(event.UpdateEvent{ObjectOld: was, ObjectNew: changed}) {
		t.Error("a change of the status is selected")
	}
	changed.Annotations[v1alpha1.AnnotationCommit] = "b"
	if !specOrCommit.Update(event.UpdateEvent{ObjectOld: was, ObjectNew: changed}) {
		t.Error("a new commit is not selected")
	}
}

// TestWatchesEnqueueAffectedBranches and no others.
func TestWatchesEnqueueAffectedBranches(t *testing.T) {
	asleep := shared("asleep", "a", 1)
	reconciler.Summarise(asleep, reconciler.Done("x"))
	active := shared("active", "b", 1, func(b *v1alpha1.Branch) { b.Status.Environment = "sales-stg-1" })
	reconciler.Summarise(active, reconciler.Done("x"))
	waiting := shared("waiting", "b", 1)
	other := shared("other", "b", 1, func(b *v1alpha1.Branch) { b.Spec.DeploymentRef.Name = "hr" })
	reconciler.Summarise(other, reconciler.Done("x"))
	api := newAPI(t, asleep, active, waiting, other)
	cases := map[string]struct {
		found []ctrl.Request
		want  []string
	}{
		"deployment": {ofDeployment(api)(t.Context(), gitDeployment()), []string{"active", "asleep", "waiting"}},
		"channel":    {ofChannel(api)(t.Context(), channel()), []string{"active", "waiting"}},
		"duplicate":  {duplicates(api)(t.Context(), active), []string{"waiting"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, r := range tc.found {
				got = append(got, r.Name)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("enqueued (-want +got):\n%s", diff)
			}
		})
	}
}
