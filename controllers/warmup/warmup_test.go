package warmup

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/apitest"
	"github.com/quoin-dev/quoin/internal/engine"
	"github.com/quoin-dev/quoin/internal/kube"
)

// answer is what a pod says once it is asked.
type answer struct {
	status int
	body   string
	err    error
}

var (
	compiled  = answer{200, `{"cubes":[]}`, nil}
	broken    = answer{500, `{"error":"Error: Compile errors:\norders.yml: bad\n    at f (/cube/x.js:1:1)"}`, nil}
	compiling = answer{0, "", fmt.Errorf("%w: deadline", errCompiling)}
	refused   = answer{0, "", errors.New("dial tcp 10.0.0.7:4000: connect: connection refused")}
)

// clinic is a pod on a real API server and the controller that asks it.
type clinic struct {
	t       *testing.T
	api     client.WithWatch
	clock   *clocktesting.FakeClock
	pod     *corev1.Pod
	answers []answer
	asked   int
	writes  int
	tokens  []string
	r       *Reconciler
	// secretErr is what reading the secret ends with.
	secretErr error
}

func newClinic(t *testing.T, o Options) *clinic {
	t.Helper()
	api, namespace := apitest.Direct(t)
	c := &clinic{t: t, api: api, clock: clocktesting.NewFakeClock(time.Now())}
	c.pod = &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "sales-production-api-1", Labels: map[string]string{
			v1alpha1.LabelEnvironment: "sales-production", v1alpha1.LabelWarmUp: "1111111111111111",
		}},
		Spec: corev1.PodSpec{
			Containers:     []corev1.Container{{Name: "cube", Image: "cube"}},
			ReadinessGates: []corev1.PodReadinessGate{{ConditionType: v1alpha1.PodModelCompiled}},
		},
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "sales-production-credentials"},
		Data:       map[string][]byte{engine.KeyAPISecret: []byte("s3cret"), engine.KeySQLPassword: []byte("passw0rd")},
	}
	for _, obj := range []client.Object{c.pod, secret} {
		if err := api.Create(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
	}
	c.status(corev1.ConditionTrue, "10.0.0.7")
	if o.Ask == nil {
		o.Ask = func(_ context.Context, _ *corev1.Pod, token string) (int, []byte, error) {
			a := c.answers[min(c.asked, len(c.answers)-1)]
			c.asked++
			c.tokens = append(c.tokens, token)
			return a.status, []byte(a.body), a.err
		}
	}
	watched := interceptor.NewClient(api, interceptor.Funcs{
		Get: func(ctx context.Context, api client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if _, ok := obj.(*corev1.Secret); ok && c.secretErr != nil {
				return c.secretErr
			}
			return api.Get(ctx, key, obj, opts...)
		},
		SubResourcePatch: func(ctx context.Context, api client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			c.writes++
			return api.SubResource(sub).Patch(ctx, obj, patch, opts...)
		},
	})
	c.r = New(kube.NewClient(watched, watched, "quoin-test"), c.clock, o)
	return c
}

// status is what the kubelet writes: whether the containers are ready.
func (c *clinic) status(ready corev1.ConditionStatus, ip string) {
	c.t.Helper()
	before := c.pod.DeepCopy()
	c.pod.Status.PodIP, c.pod.Status.Phase = ip, corev1.PodRunning
	c.pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.ContainersReady, Status: ready, LastTransitionTime: metav1.Unix(1, 0)}}
	if err := c.api.Status().Patch(c.t.Context(), c.pod, client.StrategicMergeFrom(before)); err != nil {
		c.t.Fatal(err)
	}
}

// look reconciles the pod, and returns its condition and when it is looked at again.
func (c *clinic) look() (corev1.PodCondition, time.Duration) {
	c.t.Helper()
	result, err := c.r.Reconcile(c.t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(c.pod)})
	if err != nil {
		c.t.Fatal(err)
	}
	pod := &corev1.Pod{}
	if err := c.api.Get(c.t.Context(), client.ObjectKeyFromObject(c.pod), pod); err != nil {
		c.t.Fatal(err)
	}
	if len(pod.Status.Conditions) == 0 || pod.Status.Conditions[0].Type != corev1.ContainersReady {
		c.t.Fatalf("the kubelet's condition is lost: %+v", pod.Status.Conditions)
	}
	return *ptr.To(ptr.Deref(engine.Compiled(pod), corev1.PodCondition{})), result.RequeueAfter
}

// TestVerdicts: what a pod answers, what is written down, and when it is asked again.
func TestVerdicts(t *testing.T) {
	type step struct {
		status, says string
		after        time.Duration
	}
	const first = "False NoAnswer"
	cases := map[string]struct {
		answers []answer
		steps   []step
		writes  int
	}{
		"compiles":                 {[]answer{compiled}, []step{{"True Compiled", "has compiled", 0}, {"True Compiled", "", 0}}, 1},
		"does not compile":         {[]answer{broken}, []step{{first, "Asked once: Compile errors: | orders.yml: bad", soon}, {"False ModelBroken", "Compile errors: | orders.yml: bad", later}, {"False ModelBroken", "", later}}, 2},
		"failed once":              {[]answer{broken, compiled}, []step{{first, "Asked once", soon}, {"True Compiled", "", 0}}, 2},
		"failed, then was away":    {[]answer{broken, refused, broken, broken}, []step{{first, "Asked once", soon}, {first, "does not answer", soon}, {first, "Asked once", soon}, {"False ModelBroken", "bad", later}}, 4},
		"says it in other words":   {[]answer{broken, {500, `{"error":"worse"}`, nil}}, []step{{first, "bad", soon}, {"False ModelBroken", "worse", later}}, 2},
		"is mended":                {[]answer{broken, broken, compiled}, []step{{first, "", soon}, {"False ModelBroken", "", later}, {"True Compiled", "", 0}}, 3},
		"certain, then silent":     {[]answer{broken, broken, refused, compiling}, []step{{first, "", soon}, {"False ModelBroken", "", later}, {"False ModelBroken", "bad", later}, {"False ModelBroken", "bad", later}}, 2},
		"does not answer":          {[]answer{refused}, []step{{first, "does not answer on its port", soon}, {first, "", soon}}, 1},
		"takes its time":           {[]answer{compiling, compiling, compiled}, []step{{"False Compiling", "compiles its data model", atOnce}, {"False Compiling", "", atOnce}, {"True Compiled", "", 0}}, 2},
		"may not be asked":         {[]answer{{403, `{"error":"API scope is missing: meta"}`, nil}}, []step{{"True MetadataNotAllowed", "API scope is missing: meta", 0}}, 1},
		"does not take the token":  {[]answer{{403, `{"error":"Invalid token"}`, nil}}, []step{{first, "403: Invalid token", soon}}, 1},
		"is another kind of thing": {[]answer{{500, "<html>", nil}}, []step{{first, "500 without a text", soon}, {first, "", soon}, {first, "", soon}}, 1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := newClinic(t, Options{})
			c.answers = tc.answers
			for i, want := range tc.steps {
				condition, after := c.look()
				if got := string(condition.Status) + " " + condition.Reason; got != want.status || !strings.Contains(condition.Message, want.says) || after != want.after {
					t.Errorf("step %d: %s (%s), again after %s; want %+v", i, got, condition.Message, after, want)
				}
				c.clock.Step(after)
			}
			if c.writes != tc.writes {
				t.Errorf("%d writes, want %d", c.writes, tc.writes)
			}
		})
	}
}

// TestCompileLimit: the time counts from the first question, whatever came between, and a new
// controller does not begin anew.
func TestCompileLimit(t *testing.T) {
	c := newClinic(t, Options{})
	c.answers = []answer{compiling, refused, compiling}
	for range 3 {
		c.look()
		c.clock.Step(time.Minute)
	}
	c.clock.Step(engine.CompileLimit - 4*time.Minute)
	if condition, after := c.look(); condition.Reason != engine.WarmUpCompiling || after != atOnce {
		t.Errorf("after 14 minutes: %+v", condition)
	}
	c.clock.Step(time.Minute)
	condition, after := c.look()
	if condition.Reason != engine.WarmUpTooSlow || !strings.Contains(condition.Message, "15m0s") || after != later {
		t.Errorf("after 15 minutes: %+v, again after %s", condition, after)
	}
	if condition, after := c.look(); condition.Reason != engine.WarmUpTooSlow || after != later {
		t.Errorf("later: %+v, again after %s", condition, after)
	}
	c.answers = []answer{compiled}
	if condition, _ := c.look(); condition.Status != corev1.ConditionTrue {
		t.Errorf("when it has compiled after all: %+v", condition)
	}
}

func TestWhoIsNotAsked(t *testing.T) {
	for name, prepare := range map[string]func(c *clinic){
		"ports are shut": func(c *clinic) { c.status(corev1.ConditionFalse, "10.0.0.7") },
		"no address": func(c *clinic) {
			pod := c.pod.DeepCopy()
			pod.Name, pod.ResourceVersion, pod.UID = "fresh", "", ""
			if err := c.api.Create(c.t.Context(), pod); err != nil {
				c.t.Fatal(err)
			}
			c.pod = pod
			c.status(corev1.ConditionTrue, "")
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newClinic(t, Options{})
			prepare(c)
			if condition, after := c.look(); condition.Reason != "" || after != 0 || c.asked > 0 {
				t.Errorf("%+v, again after %s, asked %d times", condition, after, c.asked)
			}
		})
	}
	t.Run("gone", func(t *testing.T) {
		c := newClinic(t, Options{})
		if _, err := c.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: "none", Name: "x"}}); err != nil {
			t.Error(err)
		}
	})
}

// TestOff: pods that have a gate from before are not left standing.
func TestOff(t *testing.T) {
	c := newClinic(t, Options{Off: true})
	c.status(corev1.ConditionFalse, "")
	if condition, _ := c.look(); condition.Status != corev1.ConditionTrue || condition.Reason != engine.WarmUpOff || c.asked > 0 {
		t.Errorf("%+v, asked %d times", condition, c.asked)
	}
}

func TestSecretThatCannotBeRead(t *testing.T) {
	secrets := schema.GroupResource{Resource: "secrets"}
	for name, tc := range map[string]struct {
		err  error
		says string
	}{
		"forbidden": {apierrors.NewForbidden(secrets, "x", errors.New("rbac")), "bind ClusterRole quoin-account"},
		"missing":   {apierrors.NewNotFound(secrets, "x"), "does not exist"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newClinic(t, Options{})
			c.secretErr = tc.err
			condition, after := c.look()
			if condition.Reason != engine.WarmUpUnreadable || !strings.Contains(condition.Message, tc.says) || after != later || c.asked > 0 {
				t.Errorf("%+v, again after %s", condition, after)
			}
			c.secretErr, c.answers = nil, []answer{compiled}
			if condition, _ := c.look(); condition.Status != corev1.ConditionTrue {
				t.Errorf("when it can be read: %+v", condition)
			}
		})
	}
	t.Run("the API server fails", func(t *testing.T) {
		c := newClinic(t, Options{})
		c.secretErr = apierrors.NewInternalError(errors.New("x"))
		if _, err := c.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(c.pod)}); err == nil {
			t.Error("no error")
		}
	})
}

// TestQuestion: what arrives at a pod, and that nothing of it is shown.
func TestQuestion(t *testing.T) {
	var path, token, method string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path, token, method = r.URL.Path, r.Header.Get("Authorization"), r.Method
		w.WriteHeader(http.StatusInternalServerError)
		fmt.Fprintf(w, `{"error":"token %s, secret s3cret, password passw0rd"}`, token)
	}))
	defer server.Close()
	c := newClinic(t, Options{Ask: func(ctx context.Context, _ *corev1.Pod, token string) (int, []byte, error) {
		return get(ctx, newHTTPClient(), server.URL, token)
	}})
	condition, _ := c.look()
	for _, secret := range []string{"s3cret", "passw0rd", token} {
		if strings.Contains(condition.Message, secret) {
			t.Errorf("shows %q: %s", secret, condition.Message)
		}
	}
	if path != "/cubejs-api/v1/meta" || method != http.MethodGet {
		t.Errorf("asks %s %s", method, path)
	}
	if _, err := jwt.Parse(token, func(*jwt.Token) (any, error) { return []byte("s3cret"), nil }, jwt.WithValidMethods([]string{"HS256"})); err != nil {
		t.Errorf("token: %v", err)
	}
}

// TestConversations: how talking to a pod can end.
func TestConversations(t *testing.T) {
	shut, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	shut.Close()
	endless := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasPrefix(r.Host, "127.0.0.1") && r.Header.Get("Authorization") == "redirect":
			http.Redirect(w, r, "http://169.254.169.254/", http.StatusFound)
		case r.Header.Get("Authorization") == "slow":
			<-endless
		case r.Header.Get("Authorization") == "large":
			fmt.Fprint(w, `{"cubes":["`+strings.Repeat("x", 2*maxAnswer))
		}
	}))
	defer server.Close()
	defer close(endless)
	within := func(d time.Duration) context.Context {
		ctx, cancel := context.WithTimeout(t.Context(), d)
		t.Cleanup(cancel)
		return ctx
	}
	if status, _, err := get(t.Context(), newHTTPClient(), server.URL, "redirect"); err != nil || status != http.StatusFound {
		t.Errorf("redirect: %d, %v; it must not be followed", status, err)
	}
	if status, body, err := get(t.Context(), newHTTPClient(), server.URL, "large"); err != nil || status != http.StatusOK || len(body) != maxAnswer {
		t.Errorf("large: %d, %d bytes, %v", status, len(body), err)
	}
	if _, _, err := get(within(50*time.Millisecond), newHTTPClient(), server.URL, "slow"); !errors.Is(err, errCompiling) {
		t.Errorf("slow: %v", err)
	}
	if _, _, err := get(t.Context(), newHTTPClient(), "http://"+shut.Addr().String(), ""); err == nil || errors.Is(err, errCompiling) {
		t.Errorf("shut: %v", err)
	}
	hanging := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, &net.OpError{Op: "dial", Err: ctx.Err()}
	}}}
	if _, _, err := get(within(50*time.Millisecond), hanging, server.URL, ""); err == nil || errors.Is(err, errCompiling) {
		t.Errorf("cannot connect: %v; that is not compiling", err)
	}
}

// TestCacheHoldsLittle: what is looked at is there, and nothing else.
func TestCacheHoldsLittle(t *testing.T) {
	c := newClinic(t, Options{})
	c.pod.Annotations = map[string]string{"large": strings.Repeat("x", 1000)}
	slimmed, err := slim(c.pod)
	if err != nil {
		t.Fatal(err)
	}
	pod, ok := slimmed.(*corev1.Pod)
	if !ok || len(pod.Spec.Containers) > 0 || len(pod.Annotations) > 0 {
		t.Errorf("keeps %+v", slimmed)
	}
	if !waits(pod) || !listens(pod) || pod.Labels[v1alpha1.LabelEnvironment] != "sales-production" || pod.ResourceVersion != c.pod.ResourceVersion {
		t.Errorf("loses what is looked at: %+v", pod)
	}
	if other, err := slim("tombstone"); other != "tombstone" || err != nil {
		t.Errorf("another thing: %v, %v", other, err)
	}
	if options := CacheOptions(); options.Label.String() != v1alpha1.LabelWarmUp {
		t.Errorf("selects by %q", options.Label)
	}
	if !shut.Create(event.CreateEvent{Object: c.pod}) {
		t.Error("a pod with a gate is left out")
	}
}
