package controllers_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/engine"
	"github.com/quoin-dev/quoin/internal/git"
)

// visible are situations that users see in the status.
var visible = []struct {
	name string
	test func(w *world)
}{
	{"a missing channel is named until it exists", testMissingChannel},
	{"an unknown version is rejected with the list of known ones", testUnknownVersion},
	{"pin, hold, and removal of both", testPinAndHold},
	{"a broken version is rolled back and not retried", testBrokenVersion},
	{"a commit that does not compile is rolled back at once and not retried", testBrokenCommit},
	{"an environment sleeps until it is used, and has no workloads before", testSleepAndWake},
	{"two deployments with the same name", testNameTaken},
	{"two deployments with the same custom domain", testCustomDomainTaken},
	{"a custom domain that the account may not have", testDomainNotAllowed},
	{"a suspended deployment keeps its pods", testSuspended},
	{"a missing model, and a registry that does not answer", testMissingModelAndRegistry},
	{"a Git secret that cannot be used is named", testGitSecret},
	{"a mistake in the Git source is stalled until it is mended", testGitMistakes},
	{"a model that moves keeps its pods until the new repository is read", testMovedModel},
	{"a reserved variable is named", testReservedVariable},
	{"a value that Kubernetes rejects is named", testRejectedValue},
	{"an environment keeps its ID when staging is switched", testEnvironmentID},
	{"an account without a namespace, and a host that is taken", testAccountConflicts},
}

// TestWhatUsersSee checks the conditions and messages on which users rely.
func TestWhatUsersSee(t *testing.T) {
	for _, tc := range visible {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			tc.test(newWorld(t, 1))
		})
	}
}

// expectReady checks the Ready condition of an object, which it reads: state is "status
// reason", and the message contains text.
func (w *world) expectReady(obj v1alpha1.Object, state, text string) {
	w.t.Helper()
	got, message := w.condition(obj, v1alpha1.ConditionReady)
	if got != state || !strings.Contains(message, text) {
		w.t.Errorf("%T is %s: %q; want %s and a message with %q", obj, got, message, state, text)
	}
}

func testMissingChannel(w *world) {
	w.images.push("v1.2.3")
	w.create(w.account())
	w.create(w.model())
	d := w.deployment("analytics")
	w.create(d)
	w.settle()
	w.expectReady(d, "False ReleaseChannelNotFound", w.name)
	w.create(w.channel())
	w.settle()
	w.expectReady(d, "True Succeeded", "1.2.3")
}

func testUnknownVersion(w *world) {
	w.populate()
	d := w.deployment("analytics")
	w.create(d)
	w.settle()
	change(w, d, func(d *v1alpha1.Deployment) { d.Spec.ReleaseChannelVersion = "9.9.9" })
	w.settle()
	w.expectReady(d, "False UnknownVersion", "1.2.3")
	if d.Status.CurrentVersion != "1.2.3" {
		w.t.Errorf("production runs %q meanwhile", d.Status.CurrentVersion)
	}
}

func testPinAndHold(w *world) {
	w.populate()
	w.images.push("v1.2.2")
	d := w.deployment("analytics")
	w.create(d)
	w.settle()
	change(w, d, func(d *v1alpha1.Deployment) { d.Spec.ReleaseChannelVersion = "v1.2.2" })
	w.settle()
	w.get(d)
	if d.Status.CurrentVersion != "1.2.2" || !d.Status.Hold {
		w.t.Errorf("after the pin: %s, hold %v", d.Status.CurrentVersion, d.Status.Hold)
	}
	w.images.push("v1.2.4")
	w.settle()
	w.get(d)
	if d.Status.CurrentVersion != "1.2.2" {
		w.t.Errorf("a held deployment was updated to %s", d.Status.CurrentVersion)
	}
	change(w, d, func(d *v1alpha1.Deployment) { d.Spec.ReleaseChannelVersion, d.Spec.Hold = "", ptr.To(true) })
	w.settle()
	w.get(d)
	if d.Status.CurrentVersion != "1.2.2" {
		w.t.Errorf("a deployment held without a pin was updated to %s", d.Status.CurrentVersion)
	}
	change(w, d, func(d *v1alpha1.Deployment) { d.Spec.Hold = nil })
	w.settle()
	w.get(d)
	if d.Status.CurrentVersion != "1.2.4" || d.Status.Hold {
		w.t.Errorf("after the removal: %s, hold %v", d.Status.CurrentVersion, d.Status.Hold)
	}
}

func testBrokenVersion(w *world) {
	w.populate()
	d := w.deployment("analytics")
	w.create(d)
	w.settle()
	w.images.push("v1.2.4-broken")
	w.settle()
	w.expectReady(d, "False RolloutFailed", "1.2.4-broken")
	if d.Status.CurrentVersion != "1.2.3" || d.Status.TargetVersion != "1.2.4-broken" {
		w.t.Errorf("current %s, target %s", d.Status.CurrentVersion, d.Status.TargetVersion)
	}
	env := &v1alpha1.Environment{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "analytics-production"}}
	w.expectReady(env, "True Succeeded", "1.2.3")
	for range 3 {
		w.clock.Step(time.Hour)
		w.settle()
	}
	w.expectReady(d, "False RolloutFailed", "1.2.3")
	w.images.push("v1.2.5")
	w.settle()
	w.expectReady(d, "True Succeeded", "1.2.5")
}

func testBrokenCommit(w *world) {
	w.warmUp, w.uncompiled = true, map[string]bool{ref("", "b").Commit: true}
	w.restart()
	w.populate()
	w.refs = []git.Ref{ref("main", "a")}
	d := w.gitDeployment("analytics")
	d.Spec.Rollout.ProgressDeadlineSeconds = ptr.To(int32(86400)) // which must not matter
	w.create(d)
	w.settle()
	env := &v1alpha1.Environment{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "analytics-production"}}
	w.expectReady(env, "True Succeeded", "1.2.3")
	w.refs = []git.Ref{ref("main", "b")}
	w.settle()
	w.expectReady(d, "False ModelBroken", "Compile errors: | orders.yml: bad); production serves commit aaaaaaaaaaaa")
	w.expectReady(env, "True Succeeded", "1.2.3")
	if env.Status.ModelCommit != ref("", "a").Commit || d.Status.FailedModel.Commit != ref("", "b").Commit {
		w.t.Errorf("serves %s, failed: %+v", env.Status.ModelCommit, d.Status.FailedModel)
	}
	generation := env.Generation
	for range 3 {
		w.clock.Step(time.Hour)
		w.settle()
	}
	if w.expectReady(env, "True Succeeded", ""); env.Generation != generation {
		w.t.Errorf("the commit was retried: generation %d, was %d", env.Generation, generation)
	}
	w.images.push("v1.2.4") // the commit is retried with the new version
	w.settle()
	w.expectReady(d, "False ModelBroken", "production serves commit aaaaaaaaaaaa")
	if w.expectReady(env, "True Succeeded", "1.2.4"); d.Status.CurrentVersion != "1.2.4" || env.Generation != generation+2 {
		w.t.Errorf("runs %s; generation %d, was %d", d.Status.CurrentVersion, env.Generation, generation)
	}
	w.refs = []git.Ref{ref("main", "c")}
	w.settle()
	w.expectReady(d, "True Succeeded", "1.2.4")
	if w.expectReady(env, "True Succeeded", ""); env.Status.ModelCommit != ref("", "c").Commit || d.Status.FailedModel != nil {
		w.t.Errorf("serves %s, failed: %+v", env.Status.ModelCommit, d.Status.FailedModel)
	}
}

func testSleepAndWake(w *world) {
	w.populate()
	w.refs = []git.Ref{ref("main", "a"), ref("feature", "b")}
	d := w.gitDeployment("analytics")
	d.Spec.OnDemand = &v1alpha1.OnDemand{Roles: []v1alpha1.OnDemandRole{"shared"}, IdleSeconds: ptr.To(int32(600))}
	w.create(d)
	w.settle()
	env := w.environmentOf(v1alpha1.EnvironmentStaging)
	w.expectReady(env, "True Asleep", "the next request wakes it")
	if env.Status.Active || env.Status.ID == "" || env.Status.APICredentials == nil || len(w.all(&appsv1.DeploymentList{})) != 1 {
		w.t.Errorf("asleep from the beginning: %+v", env.Status)
	}
	w.wake(v1alpha1.EnvironmentStaging)
	w.settle()
	if w.expectReady(env, "True Succeeded", "1.2.3"); !env.Status.Active || len(w.all(&appsv1.DeploymentList{})) != 2 {
		w.t.Errorf("woken: %+v", env.Status)
	}
	w.clock.Step(11 * time.Minute)
	w.settle()
	if w.expectReady(env, "True Asleep", ""); env.Status.Active || env.Status.Replicas != 0 {
		w.t.Errorf("asleep again: %+v", env.Status)
	}
	branch := w.all(&v1alpha1.BranchList{})
	for _, obj := range branch {
		if b, ok := obj.(*v1alpha1.Branch); ok && b.Spec.Name == "feature" {
			w.expectReady(b, "True Asleep", "asleep")
		}
	}
}

func testNameTaken(w *world) {
	w.populate()
	first, second := w.deployment("one"), w.deployment("two")
	first.Spec.DisplayName, second.Spec.DisplayName = "Analytics", "Analytics"
	w.create(first)
	w.settle()
	w.create(second)
	w.settle()
	w.expectReady(first, "True Succeeded", "")
	w.expectReady(second, "False NameTaken", `"one"`)
	change(w, first, func(d *v1alpha1.Deployment) { d.Spec.DisplayName = "Other" })
	w.settle()
	w.expectReady(second, "True Succeeded", "")
}

// withDomain returns a deployment with a custom domain.
func (w *world) withDomain(name, domain string) *v1alpha1.Deployment {
	d := w.deployment(name)
	d.Spec.DataAPI = &v1alpha1.DataAPI{CustomDomain: v1alpha1.Host(domain)}
	return d
}

func testCustomDomainTaken(w *world) {
	w.populate()
	domain := "metrics." + w.name + ".example.org"
	first, second := w.withDomain("one", domain+":8443"), w.withDomain("two", domain)
	w.create(first)
	w.settle()
	w.create(second)
	w.settle()
	w.expectReady(first, "True Succeeded", "")
	w.expectReady(second, "False HostTaken", `spec.dataAPI.customDomain: "`+domain+`" is already in use`)
	if first.Status.URL != "https://"+domain+":8443" || second.Status.URL != "https://two.data."+w.name+".example.com" || second.Status.CurrentVersion == "" {
		w.t.Errorf("URLs %q and %q; the second runs %q", first.Status.URL, second.Status.URL, second.Status.CurrentVersion)
	}
	production := &v1alpha1.Environment{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: v1alpha1.ProductionName("one")}}
	if w.get(production); production.Status.APICredentials == nil || production.Status.APICredentials.SQL.Host != domain {
		w.t.Errorf("the addresses of production are %+v", production.Status.APICredentials)
	}
	change(w, first, func(d *v1alpha1.Deployment) { d.Spec.Suspend = yes() })
	w.settle()
	w.expectReady(second, "False HostTaken", "")
	change(w, first, func(d *v1alpha1.Deployment) { d.Spec.DataAPI = nil })
	w.settle()
	w.expectReady(second, "True Succeeded", "")
	if w.get(first); first.Status.CustomDomain != "" || second.Status.CustomDomain != domain {
		w.t.Errorf("the domain is held by %q and %q", first.Status.CustomDomain, second.Status.CustomDomain)
	}
	w.delete(second)
	change(w, first, func(d *v1alpha1.Deployment) {
		d.Spec.Suspend, d.Spec.DataAPI = nil, &v1alpha1.DataAPI{CustomDomain: v1alpha1.Host(domain)}
	})
	w.settle()
	w.expectReady(first, "True Succeeded", "")
}

func testDomainNotAllowed(w *world) {
	w.populate()
	allowed, other := "bi."+w.name+".org", "bix."+w.name+".org"
	d := w.withDomain("one", other)
	w.create(d)
	w.settle()
	w.expectReady(d, "True Succeeded", "")
	change(w, w.account(), func(a *v1alpha1.Account) { a.Spec.DomainSuffixes = []v1alpha1.DomainName{v1alpha1.DomainName(allowed)} })
	w.settle()
	w.expectReady(d, "False DomainNotAllowed", `"`+other+`" is not allowed in this account; allowed are domains at or below `+allowed)
	if d.Status.CustomDomain != "" {
		w.t.Errorf("the deployment still holds %q", d.Status.CustomDomain)
	}
	change(w, d, func(d *v1alpha1.Deployment) { d.Spec.DataAPI.CustomDomain = v1alpha1.Host("metrics." + allowed) })
	w.settle()
	w.expectReady(d, "True Succeeded", "")
}

func testSuspended(w *world) {
	w.populate()
	d := w.deployment("analytics")
	w.create(d)
	w.settle()
	api := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: engine.APIName(v1alpha1.ProductionName("analytics"))}}
	w.get(api)
	before := api.Generation
	change(w, d, func(d *v1alpha1.Deployment) {
		d.Spec.Suspend, d.Spec.Replicas = yes(), ptr.To(int32(2))
		d.Spec.Env = []v1alpha1.EnvVar{{Name: "CUBEJS_LOG_LEVEL", Value: ptr.To("trace")}}
	})
	w.settle()
	w.expectReady(d, "True Suspended", "")
	if w.get(api); api.Generation != before {
		w.t.Errorf("the pods of a suspended deployment have changed: %+v", api.Spec)
	}
	change(w, d, func(d *v1alpha1.Deployment) { d.Spec.Suspend = nil })
	w.settle()
	w.expectReady(d, "True Succeeded", "")
	if w.get(api); api.Generation == before || ptr.Deref(api.Spec.Replicas, 0) != 2 {
		w.t.Errorf("the settings are not in effect after the deployment has resumed: %+v", api.Spec)
	}
}

func testMissingModelAndRegistry(w *world) {
	w.images.push("v1.2.3")
	w.create(w.account())
	w.create(w.channel())
	d := w.deployment("analytics")
	w.create(d)
	w.settle()
	w.expectReady(d, "False ModelNotFound", `"model"`)
	w.create(w.model())
	w.settle()
	w.expectReady(d, "True Succeeded", "")
	w.images.err = errUnreachable
	w.settle()
	channel := w.channel()
	w.expectReady(channel, "False ScanFailed", "last successful scan is kept")
	if channel.Status.LatestVersion != "1.2.3" {
		w.t.Errorf("the list was lost: %q", channel.Status.LatestVersion)
	}
	w.expectReady(d, "True Succeeded", "")
}

func testGitSecret(w *world) {
	w.populate()
	w.refs = []git.Ref{ref("main", "a")}
	d := w.gitDeployment("analytics")
	d.Spec.Model.Git.SecretRef = &v1alpha1.LocalReference{Name: "git"}
	w.create(d)
	w.settle()
	w.expectReady(d, "False GitSecretUnreadable", `"git" does not exist`)
	w.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "git"}, Data: map[string][]byte{"username": []byte("ada")}})
	w.settle()
	w.expectReady(d, "False GitSecretUnreadable", `key "password" is missing`)
}

// testGitMistakes: each mistake is observed, and ends when the remote, the Secret or the spec changes.
func testGitMistakes(w *world) {
	w.populate()
	w.gitErr = git.ErrRepositoryNotFound
	d := w.gitDeployment("analytics")
	w.create(d)
	w.settle()
	observed := func() {
		w.t.Helper()
		if d.Status.ObservedGeneration != d.Generation || !meta.IsStatusConditionTrue(d.Status.Conditions, v1alpha1.ConditionStalled) {
			w.t.Errorf("observed generation %d of %d, conditions %v", d.Status.ObservedGeneration, d.Generation, d.Status.Conditions)
		}
	}
	w.expectReady(d, "False GitRepositoryNotFound", "correct url")
	observed()
	w.gitErr = git.ErrUnauthorized
	w.settle()
	w.expectReady(d, "False GitAccessDenied", "set secretRef")
	observed()
	w.gitErr = nil
	w.settle()
	w.expectReady(d, "False ModelNotFound", "no default branch")
	observed()
	w.refs = []git.Ref{ref("main", "a")}
	w.settle()
	w.expectReady(d, "True Succeeded", "")
	change(w, d, func(d *v1alpha1.Deployment) { d.Spec.Model.Git.Branch = "live" })
	w.settle()
	w.expectReady(d, "False ModelNotFound", `no branch "live"; push it`)
	observed()
	change(w, d, func(d *v1alpha1.Deployment) { d.Spec.Model.Git.Branch = "main" })
	w.settle()
	w.expectReady(d, "True Succeeded", "")
}

// testMovedModel: the new repository does not have the commits of the previous one, so pods must not try to fetch them there.
func testMovedModel(w *world) {
	w.populate()
	w.refs = []git.Ref{ref("main", "a"), ref("feature", "b")}
	d := w.gitDeployment("analytics")
	w.create(d)
	w.settle()
	w.staging("feature", true)
	w.settle()
	workloads := func() string {
		var all []string
		for _, obj := range w.all(&appsv1.DeploymentList{}) {
			api, _ := obj.(*appsv1.Deployment)
			for _, c := range api.Spec.Template.Spec.InitContainers {
				all = append(all, strings.Join(c.Args, " "))
			}
		}
		slices.Sort(all)
		return strings.Join(all, "\n")
	}
	before := workloads()
	w.gitErr = git.ErrRepositoryNotFound
	change(w, d, func(d *v1alpha1.Deployment) { d.Spec.Model.Git.URL = "https://git.example.com/moved.git" })
	w.settle()
	w.expectReady(d, "False GitRepositoryNotFound", "repository not found")
	env := &v1alpha1.Environment{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "analytics-production"}}
	w.expectReady(env, "True Succeeded", "1.2.3")
	if after := workloads(); strings.Count(before, "model.git") != 2 || after != before {
		w.t.Errorf("before the new repository was read, the pods fetch\n%s\nand fetched\n%s", after, before)
	}
	w.gitErr, w.refs = nil, []git.Ref{ref("main", "c"), ref("feature", "d")}
	w.settle()
	w.expectReady(d, "True Succeeded", "1.2.3")
	after := workloads()
	if w.expectReady(env, "True Succeeded", "1.2.3"); env.Status.ModelCommit != ref("", "c").Commit || strings.Count(after, "moved.git") != 2 ||
		!strings.Contains(after, ref("", "c").Commit) || !strings.Contains(after, ref("", "d").Commit) {
		w.t.Errorf("production serves %s, the pods fetch\n%s", env.Status.ModelCommit, after)
	}
}

func testReservedVariable(w *world) {
	w.populate()
	d := w.deployment("analytics")
	d.Spec.Env = []v1alpha1.EnvVar{{Name: "CUBEJS_API_SECRET", Value: ptr.To("x")}}
	w.create(d)
	w.settle()
	w.expectReady(d, "False InvalidSpec", "CUBEJS_API_SECRET")
}

func testRejectedValue(w *world) {
	w.populate()
	d := w.deployment("analytics")
	w.create(d)
	w.settle()
	setKey := func(key string) {
		w.t.Helper()
		change(w, d, func(d *v1alpha1.Deployment) {
			d.Spec.Env = []v1alpha1.EnvVar{{Name: "CUBEJS_DB_PASS", ValueFrom: &v1alpha1.EnvVarSource{
				SecretKeyRef: v1alpha1.SecretKeyReference{Name: "warehouse", Key: key},
			}}}
		})
	}
	setKey("a/b")
	for range 10 { // it is tried again and again, so the controllers do not settle
		w.pass()
	}
	w.expectReady(d, "False InvalidSpec", "valueFrom.secretKeyRef.key")
	setKey("password")
	w.settle()
	w.expectReady(d, "True Succeeded", "")
}

func testEnvironmentID(w *world) {
	w.populate()
	w.refs = []git.Ref{ref("main", "a"), ref("feature", "b")}
	w.create(w.gitDeployment("analytics"))
	w.settle()
	stagingID := func() string {
		for _, obj := range w.all(&v1alpha1.EnvironmentList{}) {
			if e, ok := obj.(*v1alpha1.Environment); ok && e.Spec.Type == v1alpha1.EnvironmentStaging {
				return e.Status.ID
			}
		}
		return ""
	}
	w.staging("feature", true)
	w.settle()
	before := stagingID()
	w.staging("feature", false)
	w.settle()
	if stagingID() != "" {
		w.t.Error("the staging environment still exists")
	}
	w.staging("feature", true)
	w.settle()
	if before == "" || stagingID() != before {
		w.t.Errorf("the ID of the environment was %q and is %q", before, stagingID())
	}
}

func testAccountConflicts(w *world) {
	acct := w.account()
	acct.Spec.Namespace = w.name + "-missing"
	w.create(acct)
	w.settle()
	w.expectReady(acct, "False NamespaceNotFound", w.name+"-missing")
	w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.name + "-missing"}})
	w.settle()
	w.expectReady(acct, "True Succeeded", "")
	rival := w.account()
	rival.Name = w.name + "-rival"
	rival.Spec.Namespace = w.name + "-other"
	w.create(rival)
	w.settle()
	w.expectReady(rival, "False HostTaken", w.name+".example.com")
	w.expectReady(acct, "True Succeeded", "")
	change(w, acct, func(a *v1alpha1.Account) { a.Spec.Host = v1alpha1.Host("new." + w.name + ".example.com") })
	w.settle()
	if w.get(rival); !slices.Equal(rival.Status.Hosts, []string{w.name + ".example.com"}) {
		w.t.Errorf("the released host is not taken over: %q", rival.Status.Hosts)
	}
}
