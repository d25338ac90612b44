package deployment

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/engine"
	"github.com/quoin-dev/quoin/internal/git"
	"github.com/quoin-dev/quoin/internal/reconciler"
)

// answer is the result of a fetch.
type answer struct {
	refs []git.Ref
	err  error
}

// fetch is a fetch in progress; it ends when the test sends an answer.
type fetch struct {
	ctx    context.Context
	url    string
	secret map[string][]byte
	answer chan answer
}

// remoteTest has Remotes whose fetches the test answers.
type remoteTest struct {
	t       *testing.T
	remotes *Remotes
	clock   *clocktesting.FakePassiveClock
	fetches chan fetch
}

func newRemoteTest(t *testing.T, live client.Reader) *remoteTest {
	t.Helper()
	d := &remoteTest{t: t, clock: clocktesting.NewFakePassiveClock(time.Unix(1000, 0)), fetches: make(chan fetch, 100)}
	d.remotes = NewRemotes(live, func(ctx context.Context, url string, secret map[string][]byte) ([]git.Ref, string, error) {
		f := fetch{ctx, url, secret, make(chan answer)}
		d.fetches <- f
		a := <-f.answer
		return a.refs, "main", a.err
	}, d.clock)
	return d
}

func receive[T any](t *testing.T, ch <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(20 * time.Second):
		t.Fatalf("%s did not come", what)
		panic("unreachable")
	}
}

// wait waits for a fetch to start.
func (d *remoteTest) wait() fetch {
	d.t.Helper()
	return receive(d.t, d.fetches, "a fetch of the remote")
}

// answer ends a fetch and waits for the wake that follows it.
func (d *remoteTest) answer(f fetch, a answer) {
	d.t.Helper()
	f.answer <- a
	if e := receive(d.t, d.remotes.wake, "a wake"); e.Object.GetName() != "sales" || e.Object.GetNamespace() != "acme" {
		d.t.Errorf("%s/%s is woken", e.Object.GetNamespace(), e.Object.GetName())
	}
}

func (d *remoteTest) state(obj *v1alpha1.Deployment) remoteState {
	return d.remotes.State(d.t.Context(), obj)
}

// idle fails the test when a fetch is in progress.
func (d *remoteTest) idle() {
	d.t.Helper()
	d.remotes.mu.Lock()
	defer d.remotes.mu.Unlock()
	for key, state := range d.remotes.states {
		if state.fetching {
			d.t.Errorf("%s is being fetched", key)
		}
	}
}

func refsAt(digit string) answer {
	return answer{refs: []git.Ref{{Name: "main", Commit: commit(digit)}}}
}

// TestRemotesAreFetchedAtTheirInterval in the background; until a fetch ends the previous state counts.
func TestRemotesAreFetchedAtTheirInterval(t *testing.T) {
	d := newRemoteTest(t, nil)
	obj := gitDeployment("")
	if state := d.state(obj); state.known() || state.err != nil || state.next < fetchTimeout || state.next > fetchTimeout*11/10 {
		t.Errorf("before the first fetch: %+v", state)
	}
	first := d.wait()
	if deadline, ok := first.ctx.Deadline(); !ok || time.Until(deadline) > fetchTimeout {
		t.Error("the fetch has no timeout")
	}
	d.state(obj) // must not start a second fetch
	d.answer(first, refsAt("a"))

	state := d.state(obj)
	if diff := cmp.Diff(refsAt("a").refs, state.refs); diff != "" || !state.known() || state.productionBranch(obj) != "main" {
		t.Errorf("after the fetch: %+v", state)
	}
	if state.next < time.Minute || state.next > time.Minute+6*time.Second {
		t.Errorf("next fetch after %s; want a minute and up to a tenth more", state.next)
	}
	d.clock.SetTime(d.clock.Now().Add(59 * time.Second))
	d.state(obj)
	d.idle()
	d.clock.SetTime(d.clock.Now().Add(time.Second))
	if state := d.state(obj); state.refs[0].Commit != commit("a") {
		t.Errorf("during the second fetch: %+v", state)
	}
	d.answer(d.wait(), refsAt("b"))
	if state := d.state(obj); state.refs[0].Commit != commit("b") {
		t.Errorf("after the second fetch: %+v", state)
	}
	d.idle()
}

func TestRemotesUseTheIntervalOfTheSpec(t *testing.T) {
	d := newRemoteTest(t, nil)
	obj := gitDeployment("live")
	obj.Spec.Model.Git.Interval = &metav1.Duration{Duration: 10 * time.Second}
	d.state(obj)
	d.answer(d.wait(), refsAt("a"))
	d.clock.SetTime(d.clock.Now().Add(10 * time.Second))
	if state := d.state(obj); state.productionBranch(obj) != "live" {
		t.Errorf("production is %q", state.productionBranch(obj))
	}
	d.answer(d.wait(), refsAt("b"))
}

// TestFetchOutlivesTheReconciliation that started it.
func TestFetchOutlivesTheReconciliation(t *testing.T) {
	d := newRemoteTest(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	d.remotes.State(ctx, gitDeployment(""))
	f := d.wait()
	cancel()
	if err := f.ctx.Err(); err != nil {
		t.Errorf("the fetch ends with %v", err)
	}
	d.answer(f, refsAt("a"))
}

// TestFailedFetchKeepsTheRefs, is counted, and is retried at the interval.
func TestFailedFetchKeepsTheRefs(t *testing.T) {
	d := newRemoteTest(t, nil)
	obj := gitDeployment("")
	refused := errors.New("connection refused")
	d.state(obj)
	d.answer(d.wait(), refsAt("a"))
	for failures := 1; failures <= 3; failures++ {
		d.clock.SetTime(d.clock.Now().Add(time.Minute))
		d.state(obj)
		d.answer(d.wait(), answer{err: refused})
		state := d.state(obj)
		if !errors.Is(state.err, refused) || state.failures != failures || !state.known() || state.refs[0].Commit != commit("a") {
			t.Errorf("after %d failures: %+v", failures, state)
		}
		d.idle()
	}
	d.clock.SetTime(d.clock.Now().Add(time.Minute))
	d.state(obj)
	d.answer(d.wait(), refsAt("b"))
	if state := d.state(obj); state.err != nil || state.failures != 0 || state.refs[0].Commit != commit("b") {
		t.Errorf("after a successful fetch: %+v", state)
	}
}

// TestChangedSourceDiscardsTheState: the refs of one source are not used for another.
func TestChangedSourceDiscardsTheState(t *testing.T) {
	cases := map[string]func(obj *v1alpha1.Deployment){
		"url":      func(obj *v1alpha1.Deployment) { obj.Spec.Model.Git.URL = "https://git.example.com/other.git" },
		"secret":   func(obj *v1alpha1.Deployment) { obj.Spec.Model.Git.SecretRef = nil },
		"namesake": func(obj *v1alpha1.Deployment) { obj.UID = "2" },
	}
	for name, change := range cases {
		t.Run(name, func(t *testing.T) {
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: "git"}, Data: map[string][]byte{"bearerToken": []byte("t")}}
			d := newRemoteTest(t, secrets(t, secret))
			obj := gitDeployment("")
			obj.Spec.Model.Git.SecretRef = &v1alpha1.LocalReference{Name: "git"}
			d.state(obj)
			d.answer(d.wait(), refsAt("a"))
			d.clock.SetTime(d.clock.Now().Add(time.Minute))
			d.state(obj)
			late := d.wait()
			change(obj)
			if state := d.state(obj); state.known() {
				t.Errorf("state of the new source: %+v", state)
			}
			d.answer(d.wait(), refsAt("c"))
			d.answer(late, refsAt("b"))
			if state := d.state(obj); state.refs[0].Commit != commit("c") {
				t.Errorf("the late answer of the old source is used: %+v", state)
			}
		})
	}
	t.Run("a request waits for the fetch in progress", func(t *testing.T) {
		d := newRemoteTest(t, nil)
		obj := gitDeployment("")
		d.state(obj)
		late := d.wait()
		obj.Annotations = map[string]string{v1alpha1.AnnotationReconcile: "now"}
		if state := d.state(obj); state.request != "" || !state.fetching {
			t.Errorf("a second concurrent fetch: %+v", state)
		}
		d.answer(late, refsAt("b"))
		if state := d.state(obj); state.known() || state.request != "now" {
			t.Errorf("the request is answered by an earlier fetch: %+v", state)
		}
		d.answer(d.wait(), refsAt("c"))
		if state := d.state(obj); state.refs[0].Commit != commit("c") || state.request != "now" {
			t.Errorf("after the requested fetch: %+v", state)
		}
	})
	t.Run("another branch is the same source", func(t *testing.T) {
		d := newRemoteTest(t, nil)
		d.state(gitDeployment(""))
		d.answer(d.wait(), refsAt("a"))
		if state := d.state(gitDeployment("live")); !state.known() {
			t.Error("the remote is fetched again")
		}
		d.idle()
	})
}

func TestForgetDiscardsTheState(t *testing.T) {
	d := newRemoteTest(t, nil)
	d.state(gitDeployment(""))
	f := d.wait()
	d.remotes.Forget(keyOf("sales"))
	d.answer(f, refsAt("a"))
	if len(d.remotes.states) != 0 {
		t.Error("the end of the fetch restores the state")
	}
	if state := d.state(gitDeployment("")); state.known() {
		t.Error("the state is kept")
	}
	d.answer(d.wait(), refsAt("b"))
}

// inAccount returns a deployment with its model in Git.
func inAccount(namespace string, number int) *v1alpha1.Deployment {
	obj := gitDeployment("")
	obj.Namespace, obj.Name = namespace, fmt.Sprint("d", number)
	return obj
}

// TestConcurrentFetchesAreLimited in total and for each account: remotes that hang neither block
// the controller nor exceed the limits.
func TestConcurrentFetchesAreLimited(t *testing.T) {
	d := newRemoteTest(t, nil)
	const accounts, each = maxConcurrentFetches/maxAccountFetches + 1, maxAccountFetches + 2
	for account := range accounts {
		for i := range each {
			d.state(inAccount(fmt.Sprint("account", account), i))
		}
	}
	var open []fetch
	for range maxConcurrentFetches {
		open = append(open, d.wait())
	}
	if len(d.fetches) > 0 {
		t.Errorf("more than %d concurrent fetches", maxConcurrentFetches)
	}
	for range accounts * each {
		if len(open) == 0 {
			open = append(open, d.wait())
		}
		open[0].answer <- refsAt("a")
		open = open[1:]
		receive(t, d.remotes.wake, "a wake")
	}
	d.idle()
	d.remotes.mu.Lock()
	defer d.remotes.mu.Unlock()
	if q := d.remotes.queue; q.InProgress() != 0 || q.Waiting() != 0 {
		t.Errorf("slots are still occupied: %+v", q)
	}
}

// TestAccountsTakeTurns: the hanging remotes of one account delay no other account, and the metric has the number of those that
// wait.
func TestAccountsTakeTurns(t *testing.T) {
	d := newRemoteTest(t, nil)
	const waiting = 3
	for i := range maxAccountFetches + waiting {
		d.state(inAccount("busy", i))
	}
	var open []fetch
	for range maxAccountFetches {
		open = append(open, d.wait())
	}
	if got := testutil.ToFloat64(fetchesWaiting); got != waiting {
		t.Errorf("%v fetches wait, want %d", got, waiting)
	}
	for i := range maxAccountFetches + waiting { // a Git host that does not answer must not cost a reconciliation a second
		if next := d.state(inAccount("busy", i)).next; next < fetchTimeout {
			t.Errorf("deployment %d is reconciled after %s although it is woken", i, next)
		}
	}
	d.state(inAccount("calm", 0))
	open = append(open, d.wait()) // that of the other account
	for i := range maxAccountFetches + waiting + 1 {
		open[i].answer <- refsAt("a")
		receive(t, d.remotes.wake, "a wake")
		if i < waiting {
			open = append(open, d.wait())
		}
	}
	if got := testutil.ToFloat64(fetchesWaiting); got != 0 {
		t.Errorf("%v fetches wait afterwards", got)
	}
}

// TestDiscardedFetchesOccupyNoSlots: changes of the source neither add fetches to the queue nor
// keep those of the previous source in progress.
func TestDiscardedFetchesOccupyNoSlots(t *testing.T) {
	d := newRemoteTest(t, nil)
	for i := range maxAccountFetches {
		d.state(inAccount("acme", i))
	}
	var open []fetch
	for range maxAccountFetches {
		open = append(open, d.wait())
	}
	waiting := inAccount("acme", maxAccountFetches)
	for i := range 100 {
		waiting.Spec.Model.Git.URL = fmt.Sprintf("https://git.example.com/%d.git", i)
		d.state(waiting)
	}
	running := inAccount("acme", 0)
	running.Spec.Model.Git.URL = "https://git.example.com/other.git"
	d.state(running)
	canceled := 0
	for _, f := range open {
		if f.ctx.Err() != nil {
			canceled++
		}
		f.answer <- refsAt("a")
	}
	if canceled != 1 {
		t.Errorf("%d fetches are canceled, want that of the previous source", canceled)
	}
	urls := []string{}
	for range 2 {
		f := d.wait()
		urls = append(urls, f.url)
		f.answer <- refsAt("a")
	}
	for range maxAccountFetches + 2 {
		receive(t, d.remotes.wake, "a wake")
	}
	if diff := cmp.Diff([]string{"https://git.example.com/99.git", "https://git.example.com/other.git"}, slices.Sorted(slices.Values(urls))); diff != "" || len(d.fetches) > 0 {
		t.Errorf("fetched (-want +got):\n%s", diff)
	}
}

// TestFailedFetchIsRepeatedEarly: a long interval does not delay the recovery by as much.
func TestFailedFetchIsRepeatedEarly(t *testing.T) {
	d := newRemoteTest(t, nil)
	obj := gitDeployment("")
	obj.Spec.Model.Git.Interval = &metav1.Duration{Duration: 3 * time.Minute}
	for _, after := range []time.Duration{time.Minute, 2 * time.Minute, 3 * time.Minute, 3 * time.Minute} {
		d.state(obj)
		d.answer(d.wait(), answer{err: errors.New("connection refused")})
		if next := d.state(obj).next; next < after || next > after*11/10 {
			t.Errorf("repeated after %s, want %s and up to a tenth more", next, after)
		}
		d.clock.SetTime(d.clock.Now().Add(after))
	}
}

// TestFailedFetchOfAKeptRepositoryIsRepeatedAtOnce: quoin apiserver may be starting. A deployment that is Ready does not wait for it.
func TestFailedFetchOfAKeptRepositoryIsRepeatedAtOnce(t *testing.T) {
	s := &remoteState{err: errors.New("unexpected status 503")}
	kept, other := &engine.Remote{Kept: true, Interval: 5 * time.Minute}, &engine.Remote{Interval: 5 * time.Minute}
	for i, want := range []struct{ kept, other time.Duration }{
		{3 * time.Second, time.Minute}, {6 * time.Second, 2 * time.Minute}, {12 * time.Second, 4 * time.Minute}, {24 * time.Second, 5 * time.Minute},
	} {
		s.failures = i + 1
		if got := s.interval(kept, true); got != want.kept {
			t.Errorf("after %d failures, a repository that Quoin keeps is read after %s, want %s", s.failures, got, want.kept)
		}
		for _, got := range []time.Duration{s.interval(other, false), s.interval(other, true), s.interval(kept, false)} {
			if got != want.other {
				t.Errorf("after %d failures, another repository, or one that nothing waits for, is read after %s, want %s", s.failures, got, want.other)
			}
		}
	}
}

// secrets returns a fake client with secrets.
func secrets(t *testing.T, objs ...client.Object) client.WithWatch {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objs...).Build()
}

// TestUnusableGitSecretIsReported with its name, the problem and the remedy.
func TestUnusableGitSecretIsReported(t *testing.T) {
	secret := func(data map[string][]byte) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: "git"}, Data: data}
	}
	failing := func(err error) client.Reader {
		return interceptor.NewClient(secrets(t), interceptor.Funcs{
			Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
				return err
			},
		})
	}
	resource := schema.GroupResource{Resource: "secrets"}
	cases := map[string]struct {
		live            client.Reader
		reason, message string
	}{
		"missing":   {secrets(t), "GitSecretUnreadable", `spec.model.git.secretRef: secret "git" does not exist`},
		"forbidden": {failing(apierrors.NewForbidden(resource, "git", errors.New("rbac"))), "GitSecretUnreadable", `bind ClusterRole quoin-account to it with a RoleBinding in namespace "acme"`},
		"malformed": {secrets(t, secret(map[string][]byte{"username": []byte("ada")})), "GitSecretUnreadable", `secret "git" cannot be used: invalid credentials: key "password" is missing`},
		"no answer": {failing(errors.New("connection refused")), "GitFailed", `spec.model.git: read secret "git": connection refused`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d := newRemoteTest(t, tc.live)
			obj := gitDeployment("")
			obj.Spec.Model.Git.SecretRef = &v1alpha1.LocalReference{Name: "git"}
			d.state(obj)
			receive(t, d.remotes.wake, "a wake")
			d.idle()
			state := d.state(obj)
			o := state.outcome(obj)
			reconciler.Summarise(obj, o)
			ready := obj.Status.Conditions[0]
			if ready.Reason != tc.reason || !strings.Contains(ready.Message, tc.message) {
				t.Errorf("condition %s: %s; want %s: …%s…", ready.Reason, ready.Message, tc.reason, tc.message)
			}
			if o.After != state.next || o.Err() != nil {
				t.Errorf("retried after %s (%v); want %s", o.After, o.Err(), state.next)
			}
		})
	}
	t.Run("used", func(t *testing.T) {
		d := newRemoteTest(t, secrets(t, secret(map[string][]byte{"bearerToken": []byte("t")})))
		obj := gitDeployment("")
		obj.Spec.Model.Git.SecretRef = &v1alpha1.LocalReference{Name: "git"}
		d.state(obj)
		f := d.wait()
		if string(f.secret["bearerToken"]) != "t" || f.url != obj.Spec.Model.Git.URL {
			t.Errorf("fetched %s with %v", f.url, f.secret)
		}
		d.answer(f, refsAt("a"))
	})
}
