package deployment

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
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
	"github.com/quoin-dev/quoin/internal/git"
	"github.com/quoin-dev/quoin/internal/reconciler"
)

// answer is what a remote says.
type answer struct {
	refs []git.Ref
	err  error
}

// visit is a look that a remote sees; it ends when it is answered.
type visit struct {
	ctx    context.Context
	url    string
	secret map[string][]byte
	answer chan answer
}

// desk are Remotes whose remote is the test.
type desk struct {
	t       *testing.T
	remotes *Remotes
	clock   *clocktesting.FakePassiveClock
	asked   chan visit
}

func newDesk(t *testing.T, live client.Reader) *desk {
	t.Helper()
	d := &desk{t: t, clock: clocktesting.NewFakePassiveClock(time.Unix(1000, 0)), asked: make(chan visit, 100)}
	d.remotes = NewRemotes(live, func(ctx context.Context, url string, secret map[string][]byte) ([]git.Ref, string, error) {
		r := visit{ctx, url, secret, make(chan answer)}
		d.asked <- r
		a := <-r.answer
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

// wait waits for the look under way to begin.
func (d *desk) wait() visit {
	d.t.Helper()
	return receive(d.t, d.asked, "a look at the remote")
}

// answers ends a look and waits for the wake that follows it.
func (d *desk) answers(r visit, a answer) {
	d.t.Helper()
	r.answer <- a
	if e := receive(d.t, d.remotes.wake, "a wake"); e.Object.GetName() != "sales" || e.Object.GetNamespace() != "acme" {
		d.t.Errorf("%s/%s is woken", e.Object.GetNamespace(), e.Object.GetName())
	}
}

func (d *desk) look(obj *v1alpha1.Deployment) remoteState {
	return d.remotes.Look(d.t.Context(), obj)
}

// idle makes sure that no look is under way.
func (d *desk) idle() {
	d.t.Helper()
	d.remotes.mu.Lock()
	defer d.remotes.mu.Unlock()
	for key, state := range d.remotes.known {
		if state.looking {
			d.t.Errorf("%s is being looked at", key)
		}
	}
}

func refsAt(digit string) answer {
	return answer{refs: []git.Ref{{Name: "main", Commit: commit(digit)}}}
}

// TestRemotes: a remote is read in the background at its interval; what is known meanwhile is
// what was read last.
func TestRemotes(t *testing.T) {
	d := newDesk(t, nil)
	obj := gitDeployment("")
	if state := d.look(obj); state.known() || state.err != nil || state.next <= 0 || state.next > 2*time.Second {
		t.Errorf("before the first answer: %+v", state)
	}
	first := d.wait()
	if deadline, ok := first.ctx.Deadline(); !ok || time.Until(deadline) > lookTimeout {
		t.Error("a remote that hangs is waited for without end")
	}
	d.look(obj) // a second look at the same time is not begun
	d.answers(first, refsAt("a"))

	state := d.look(obj)
	if diff := cmp.Diff(refsAt("a").refs, state.refs); diff != "" || !state.known() || state.production(obj) != "main" {
		t.Errorf("after the answer: %+v", state)
	}
	if state.next < time.Minute || state.next > time.Minute+6*time.Second {
		t.Errorf("looks again after %s; want a minute and up to a tenth more", state.next)
	}
	d.clock.SetTime(d.clock.Now().Add(59 * time.Second))
	d.look(obj)
	d.idle()
	d.clock.SetTime(d.clock.Now().Add(time.Second))
	if state := d.look(obj); state.refs[0].Commit != commit("a") {
		t.Errorf("while the remote is read: %+v", state)
	}
	d.answers(d.wait(), refsAt("b"))
	if state := d.look(obj); state.refs[0].Commit != commit("b") {
		t.Errorf("after the second answer: %+v", state)
	}
	d.idle()
}

func TestRemotesInterval(t *testing.T) {
	d := newDesk(t, nil)
	obj := gitDeployment("live")
	obj.Spec.Model.Git.Interval = &metav1.Duration{Duration: 10 * time.Second}
	d.look(obj)
	d.answers(d.wait(), refsAt("a"))
	d.clock.SetTime(d.clock.Now().Add(10 * time.Second))
	if state := d.look(obj); state.production(obj) != "live" {
		t.Errorf("production is %q", state.production(obj))
	}
	d.answers(d.wait(), refsAt("b"))
}

// TestRemotesOutliveTheReconciliation: the look goes on when the reconciliation that began it ends.
func TestRemotesOutliveTheReconciliation(t *testing.T) {
	d := newDesk(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	d.remotes.Look(ctx, gitDeployment(""))
	r := d.wait()
	cancel()
	if err := r.ctx.Err(); err != nil {
		t.Errorf("the look ends with %v", err)
	}
	d.answers(r, refsAt("a"))
}

// TestRemotesFail: a failure keeps what was known, is counted, and is tried at the interval.
func TestRemotesFail(t *testing.T) {
	d := newDesk(t, nil)
	obj := gitDeployment("")
	refused := errors.New("connection refused")
	d.look(obj)
	d.answers(d.wait(), refsAt("a"))
	for failures := 1; failures <= 3; failures++ {
		d.clock.SetTime(d.clock.Now().Add(time.Minute))
		d.look(obj)
		d.answers(d.wait(), answer{err: refused})
		state := d.look(obj)
		if !errors.Is(state.err, refused) || state.failures != failures || !state.known() || state.refs[0].Commit != commit("a") {
			t.Errorf("after %d failures: %+v", failures, state)
		}
		d.idle()
	}
	d.clock.SetTime(d.clock.Now().Add(time.Minute))
	d.look(obj)
	d.answers(d.wait(), refsAt("b"))
	if state := d.look(obj); state.err != nil || state.failures != 0 || state.refs[0].Commit != commit("b") {
		t.Errorf("after it answers again: %+v", state)
	}
}

// TestRemotesForgetAnotherSource: what one source said is not said of another.
func TestRemotesForgetAnotherSource(t *testing.T) {
	cases := map[string]func(obj *v1alpha1.Deployment){
		"url":         func(obj *v1alpha1.Deployment) { obj.Spec.Model.Git.URL = "https://git.example.com/other.git" },
		"secret":      func(obj *v1alpha1.Deployment) { obj.Spec.Model.Git.SecretRef = nil },
		"another one": func(obj *v1alpha1.Deployment) { obj.UID = "2" },
	}
	for name, change := range cases {
		t.Run(name, func(t *testing.T) {
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: "git"}, Data: map[string][]byte{"bearerToken": []byte("t")}}
			d := newDesk(t, secrets(t, secret))
			obj := gitDeployment("")
			obj.Spec.Model.Git.SecretRef = &v1alpha1.LocalReference{Name: "git"}
			d.look(obj)
			d.answers(d.wait(), refsAt("a"))
			d.clock.SetTime(d.clock.Now().Add(time.Minute))
			d.look(obj)
			late := d.wait()
			change(obj)
			if state := d.look(obj); state.known() {
				t.Errorf("of the new source is known: %+v", state)
			}
			d.answers(d.wait(), refsAt("c"))
			d.answers(late, refsAt("b"))
			if state := d.look(obj); state.refs[0].Commit != commit("c") {
				t.Errorf("the late answer of the old source counts: %+v", state)
			}
		})
	}
	t.Run("a request waits for the look under way", func(t *testing.T) {
		d := newDesk(t, nil)
		obj := gitDeployment("")
		d.look(obj)
		late := d.wait()
		obj.Annotations = map[string]string{v1alpha1.AnnotationReconcile: "now"}
		if state := d.look(obj); state.request != "" || !state.looking {
			t.Errorf("a second look begins beside the first: %+v", state)
		}
		d.answers(late, refsAt("b"))
		if state := d.look(obj); state.known() || state.request != "now" {
			t.Errorf("what was seen before the request answers it: %+v", state)
		}
		d.answers(d.wait(), refsAt("c"))
		if state := d.look(obj); state.refs[0].Commit != commit("c") || state.request != "now" {
			t.Errorf("after the look that was asked for: %+v", state)
		}
	})
	t.Run("another branch is the same source", func(t *testing.T) {
		d := newDesk(t, nil)
		d.look(gitDeployment(""))
		d.answers(d.wait(), refsAt("a"))
		if state := d.look(gitDeployment("live")); !state.known() {
			t.Error("the remote is read again")
		}
		d.idle()
	})
}

func TestRemotesForget(t *testing.T) {
	d := newDesk(t, nil)
	d.look(gitDeployment(""))
	r := d.wait()
	d.remotes.Forget(keyOf("sales"))
	d.answers(r, refsAt("a"))
	if len(d.remotes.known) != 0 {
		t.Error("the answer to a look brings the memory back")
	}
	if state := d.look(gitDeployment("")); state.known() {
		t.Error("something is remembered")
	}
	d.answers(d.wait(), refsAt("b"))
}

// TestRemotesAtOnce: some remotes that hang do not keep the controller from working, and no
// more than a few are read at the same time.
func TestRemotesAtOnce(t *testing.T) {
	d := newDesk(t, nil)
	const many = looksAtOnce + 3
	for i := range many {
		obj := gitDeployment("")
		obj.Name = fmt.Sprint("d", i)
		d.look(obj)
	}
	var open []visit
	for range looksAtOnce {
		open = append(open, d.wait())
	}
	if len(d.asked) > 0 {
		t.Errorf("more than %d remotes are read at once", looksAtOnce)
	}
	for i := range many {
		open[i].answer <- refsAt("a")
		receive(t, d.remotes.wake, "a wake")
		if len(open) < many {
			open = append(open, d.wait())
		}
	}
}

// secrets is an API server with secrets.
func secrets(t *testing.T, objs ...client.Object) client.WithWatch {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objs...).Build()
}

// TestRemotesSecret: a secret that is of no use is named, with what is wrong and what helps.
func TestRemotesSecret(t *testing.T) {
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
		live         client.Reader
		reason, says string
	}{
		"missing":   {secrets(t), "GitSecretUnreadable", `spec.model.git.secretRef: secret "git" does not exist`},
		"forbidden": {failing(apierrors.NewForbidden(resource, "git", errors.New("rbac"))), "GitSecretUnreadable", `bind ClusterRole quoin-account to it with a RoleBinding in namespace "acme"`},
		"malformed": {secrets(t, secret(map[string][]byte{"username": []byte("ada")})), "GitSecretUnreadable", `secret "git" cannot be used: invalid credentials: key "password" is missing`},
		"no answer": {failing(errors.New("connection refused")), "GitFailed", `spec.model.git: read secret "git": connection refused`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, tc.live)
			obj := gitDeployment("")
			obj.Spec.Model.Git.SecretRef = &v1alpha1.LocalReference{Name: "git"}
			d.look(obj)
			receive(t, d.remotes.wake, "a wake")
			d.idle()
			state := d.look(obj)
			o := state.outcome()
			reconciler.Summarise(obj, o)
			ready := obj.Status.Conditions[0]
			if ready.Reason != tc.reason || !strings.Contains(ready.Message, tc.says) {
				t.Errorf("says %s: %s; want %s: …%s…", ready.Reason, ready.Message, tc.reason, tc.says)
			}
			if o.After != state.next || o.Err() != nil {
				t.Errorf("tried again after %s (%v); want %s", o.After, o.Err(), state.next)
			}
		})
	}
	t.Run("passed on", func(t *testing.T) {
		d := newDesk(t, secrets(t, secret(map[string][]byte{"bearerToken": []byte("t")})))
		obj := gitDeployment("")
		obj.Spec.Model.Git.SecretRef = &v1alpha1.LocalReference{Name: "git"}
		d.look(obj)
		r := d.wait()
		if string(r.secret["bearerToken"]) != "t" || r.url != obj.Spec.Model.Git.URL {
			t.Errorf("looked at %s with %v", r.url, r.secret)
		}
		d.answers(r, refsAt("a"))
	})
}
