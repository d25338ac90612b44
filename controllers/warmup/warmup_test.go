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
	"github.com/quoin-dev/quoin/internal/freshness"
	"github.com/quoin-dev/quoin/internal/kube"
)

// answer is the response of a pod.
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

// fixture is a pod on a real Kubernetes API server, and its controller.
type fixture struct {
	t        *testing.T
	api      client.WithWatch
	clock    *clocktesting.FakeClock
	pod      *corev1.Pod
	answers  []answer
	requests int
	writes   int
	tokens   []string
	r        *Reconciler
	// secretErr, if not nil, is the error of reading the secret.
	secretErr error
}

func newFixture(t *testing.T, o Options) *fixture {
	t.Helper()
	api, namespace := apitest.Direct(t)
	c := &fixture{t: t, api: api, clock: clocktesting.NewFakeClock(time.Now())}
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
			a := c.answers[min(c.requests, len(c.answers)-1)]
			c.requests++
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

// status updates the status as the kubelet does: whether the containers are ready.
func (c *fixture) status(ready corev1.ConditionStatus, ip string) {
	c.t.Helper()
	before := c.pod.DeepCopy()
	c.pod.Status.PodIP, c.pod.Status.Phase = ip, corev1.PodRunning
	c.pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.ContainersReady, Status: ready, LastTransitionTime: metav1.Unix(1, 0)}}
	if err := c.api.Status().Patch(c.t.Context(), c.pod, client.StrategicMergeFrom(before)); err != nil {
		c.t.Fatal(err)
	}
}

// reconcile reconciles the pod, and returns its condition and the time until the next request.
func (c *fixture) reconcile() (corev1.PodCondition, time.Duration) {
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

// TestConditionByResponses: the condition by the responses of a pod, and the time until the next
// request.
func TestConditionByResponses(t *testing.T) {
	type step struct {
		status, message string
		after           time.Duration
	}
	const first = "False NoAnswer"
	cases := map[string]struct {
		answers []answer
		steps   []step
		writes  int
	}{
		"compiles":                  {[]answer{compiled}, []step{{"True Compiled", "has compiled", 0}, {"True Compiled", "", 0}}, 1},
		"does not compile":          {[]answer{broken}, []step{{first, "Not confirmed yet: Compile errors: | orders.yml: bad", retryInterval}, {"False ModelBroken", "Compile errors: | orders.yml: bad", confirmedInterval}, {"False ModelBroken", "", confirmedInterval}}, 2},
		"failed once":               {[]answer{broken, compiled}, []step{{first, "Not confirmed yet", retryInterval}, {"True Compiled", "", 0}}, 2},
		"failed, then unreachable":  {[]answer{broken, refused, broken, broken}, []step{{first, "Not confirmed yet", retryInterval}, {first, "does not answer", retryInterval}, {first, "Not confirmed yet", retryInterval}, {"False ModelBroken", "bad", confirmedInterval}}, 4},
		"other message":             {[]answer{broken, {500, `{"error":"worse"}`, nil}}, []step{{first, "bad", retryInterval}, {"False ModelBroken", "worse", confirmedInterval}}, 2},
		"fixed":                     {[]answer{broken, broken, compiled}, []step{{first, "", retryInterval}, {"False ModelBroken", "", confirmedInterval}, {"True Compiled", "", 0}}, 3},
		"confirmed, then no answer": {[]answer{broken, broken, refused, compiling}, []step{{first, "", retryInterval}, {"False ModelBroken", "", confirmedInterval}, {"False ModelBroken", "bad", confirmedInterval}, {"False ModelBroken", "bad", confirmedInterval}}, 2},
		"does not answer":           {[]answer{refused}, []step{{first, "does not answer on its port", retryInterval}, {first, "", retryInterval}}, 1},
		"compiles slowly":           {[]answer{compiling, compiling, compiled}, []step{{"False Compiling", "compiles its data model", compilingInterval}, {"False Compiling", "", compilingInterval}, {"True Compiled", "", 0}}, 2},
		"not allowed":               {[]answer{{403, `{"error":"API scope is missing: meta"}`, nil}}, []step{{"True MetadataNotAllowed", "API scope is missing: meta", 0}}, 1},
		"rejects the token":         {[]answer{{403, `{"error":"Invalid token"}`, nil}}, []step{{first, "403: Invalid token", retryInterval}}, 1},
		"not JSON":                  {[]answer{{500, "<html>", nil}}, []step{{first, "500 without an error message", retryInterval}, {first, "", retryInterval}, {first, "", retryInterval}}, 1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := newFixture(t, Options{})
			c.answers = tc.answers
			for i, want := range tc.steps {
				condition, after := c.reconcile()
				if got := string(condition.Status) + " " + condition.Reason; got != want.status || !strings.Contains(condition.Message, want.message) || after != want.after {
					t.Errorf("step %d: %s (%s), requeued after %s; want %+v", i, got, condition.Message, after, want)
				}
				c.clock.Step(after)
			}
			if c.writes != tc.writes {
				t.Errorf("%d writes, want %d", c.writes, tc.writes)
			}
		})
	}
}

// TestCompileLimitCountsFromTheFirstRequest, across failures and restarts of the controller.
func TestCompileLimitCountsFromTheFirstRequest(t *testing.T) {
	c := newFixture(t, Options{})
	c.answers = []answer{compiling, refused, compiling}
	for range 3 {
		c.reconcile()
		c.clock.Step(time.Minute)
	}
	c.clock.Step(engine.CompileLimit - 4*time.Minute)
	if condition, after := c.reconcile(); condition.Reason != engine.WarmUpCompiling || after != compilingInterval {
		t.Errorf("after 14 minutes: %+v", condition)
	}
	c.clock.Step(time.Minute)
	condition, after := c.reconcile()
	if condition.Reason != engine.WarmUpTooSlow || !strings.Contains(condition.Message, "15m0s") || after != confirmedInterval {
		t.Errorf("after 15 minutes: %+v, requeued after %s", condition, after)
	}
	if condition, after := c.reconcile(); condition.Reason != engine.WarmUpTooSlow || after != confirmedInterval {
		t.Errorf("later: %+v, requeued after %s", condition, after)
	}
	c.answers = []answer{compiled}
	if condition, _ := c.reconcile(); condition.Status != corev1.ConditionTrue {
		t.Errorf("compiled afterwards: %+v", condition)
	}
}

// TestCompileLimitBeginsWhenTheSecretIsReadable: until then there is no request, and the pod compiles nothing.
func TestCompileLimitBeginsWhenTheSecretIsReadable(t *testing.T) {
	c := newFixture(t, Options{})
	c.secretErr, c.answers = apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "x", errors.New("rbac")), []answer{compiling}
	c.reconcile()
	c.clock.Step(2 * engine.CompileLimit)
	c.secretErr = nil
	if condition, _ := c.reconcile(); condition.Reason != engine.WarmUpCompiling {
		t.Errorf("after the first request: %+v", condition)
	}
	c.clock.Step(engine.CompileLimit - time.Minute)
	if condition, _ := c.reconcile(); condition.Reason != engine.WarmUpCompiling {
		t.Errorf("after 14 minutes: %+v", condition)
	}
	c.clock.Step(2 * time.Minute)
	if condition, _ := c.reconcile(); condition.Reason != engine.WarmUpTooSlow {
		t.Errorf("after 16 minutes: %+v", condition)
	}
}

func TestPodsThatGetNoRequest(t *testing.T) {
	for name, prepare := range map[string]func(c *fixture){
		"not listening": func(c *fixture) { c.status(corev1.ConditionFalse, "10.0.0.7") },
		"no address": func(c *fixture) {
			pod := c.pod.DeepCopy()
			pod.Name, pod.ResourceVersion, pod.UID = "new", "", ""
			if err := c.api.Create(c.t.Context(), pod); err != nil {
				c.t.Fatal(err)
			}
			c.pod = pod
			c.status(corev1.ConditionTrue, "")
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newFixture(t, Options{})
			prepare(c)
			if condition, after := c.reconcile(); condition.Reason != "" || after != 0 || c.requests > 0 {
				t.Errorf("%+v, requeued after %s, %d requests", condition, after, c.requests)
			}
		})
	}
	t.Run("deleted", func(t *testing.T) {
		c := newFixture(t, Options{})
		if _, err := c.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: "none", Name: "x"}}); err != nil {
			t.Error(err)
		}
	})
}

// TestOffOpensGates of existing pods.
func TestOffOpensGates(t *testing.T) {
	c := newFixture(t, Options{Off: true})
	c.status(corev1.ConditionFalse, "")
	if condition, _ := c.reconcile(); condition.Status != corev1.ConditionTrue || condition.Reason != engine.WarmUpOff || c.requests > 0 {
		t.Errorf("%+v, %d requests", condition, c.requests)
	}
}

// TestOpenGateIsNotTracked: a pod is not reconciled again after its gate is open, so that nothing ends the record of the write.
func TestOpenGateIsNotTracked(t *testing.T) {
	c := newFixture(t, Options{Off: true})
	c.reconcile()
	id := freshness.ID{Kind: c.r.client.KindOf(c.pod), Key: client.ObjectKeyFromObject(c.pod)}
	if c.r.client.Tracker().Behind(id, "") {
		t.Error("the write of the condition is recorded for ever")
	}
}

func TestUnreadableSecretIsReported(t *testing.T) {
	secrets := schema.GroupResource{Resource: "secrets"}
	for name, tc := range map[string]struct {
		err          error
		reason, text string
		after        time.Duration
	}{
		"forbidden": {apierrors.NewForbidden(secrets, "x", errors.New("rbac")), engine.WarmUpUnreadable, "bind ClusterRole quoin-account", confirmedInterval},
		"missing":   {apierrors.NewNotFound(secrets, "x"), engine.WarmUpMissing, "does not exist", retryInterval},
	} {
		t.Run(name, func(t *testing.T) {
			c := newFixture(t, Options{})
			c.secretErr = tc.err
			condition, after := c.reconcile()
			if condition.Reason != tc.reason || !strings.Contains(condition.Message, tc.text) || after != tc.after || c.requests > 0 {
				t.Errorf("%+v, requeued after %s", condition, after)
			}
			c.secretErr, c.answers = nil, []answer{compiled}
			if condition, _ := c.reconcile(); condition.Status != corev1.ConditionTrue {
				t.Errorf("readable: %+v", condition)
			}
		})
	}
	t.Run("the API server fails", func(t *testing.T) {
		c := newFixture(t, Options{})
		c.secretErr = apierrors.NewInternalError(errors.New("x"))
		if _, err := c.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(c.pod)}); err == nil {
			t.Error("no error")
		}
	})
}

// TestRequestToPod: path, method and token, and no secret of it in the condition.
func TestRequestToPod(t *testing.T) {
	var path, token, method string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path, token, method = r.URL.Path, r.Header.Get("Authorization"), r.Method
		w.WriteHeader(http.StatusInternalServerError)
		fmt.Fprintf(w, `{"error":"token %s, secret s3cret, password passw0rd"}`, token)
	}))
	defer server.Close()
	c := newFixture(t, Options{Ask: func(ctx context.Context, _ *corev1.Pod, token string) (int, []byte, error) {
		return get(ctx, newHTTPClient(), server.URL, token)
	}})
	condition, _ := c.reconcile()
	for _, secret := range []string{"s3cret", "passw0rd", token} {
		if strings.Contains(condition.Message, secret) {
			t.Errorf("contains %q: %s", secret, condition.Message)
		}
	}
	if path != "/cubejs-api/v1/meta" || method != http.MethodGet {
		t.Errorf("request %s %s", method, path)
	}
	if _, err := jwt.Parse(token, func(*jwt.Token) (any, error) { return []byte("s3cret"), nil }, jwt.WithValidMethods([]string{"HS256"})); err != nil {
		t.Errorf("token: %v", err)
	}
}

// TestHTTPClient: redirects, timeouts and large bodies.
func TestHTTPClient(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	endless := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasPrefix(r.Host, "127.0.0.1") && r.Header.Get("Authorization") == "redirect":
			http.Redirect(w, r, "http://169.254.169.254/", http.StatusFound)
		case r.Header.Get("Authorization") == "slow":
			<-endless
		case r.Header.Get("Authorization") == "large":
			fmt.Fprint(w, `{"cubes":["`+strings.Repeat("x", 2*maxBody))
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
	if status, body, err := get(t.Context(), newHTTPClient(), server.URL, "large"); err != nil || status != http.StatusOK || len(body) != maxBody {
		t.Errorf("large: %d, %d bytes, %v", status, len(body), err)
	}
	if _, _, err := get(within(50*time.Millisecond), newHTTPClient(), server.URL, "slow"); !errors.Is(err, errCompiling) {
		t.Errorf("slow: %v", err)
	}
	if _, _, err := get(t.Context(), newHTTPClient(), "http://"+closed.Addr().String(), ""); err == nil || errors.Is(err, errCompiling) {
		t.Errorf("closed port: %v", err)
	}
	hanging := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, &net.OpError{Op: "dial", Err: ctx.Err()}
	}}}
	if _, _, err := get(within(50*time.Millisecond), hanging, server.URL, ""); err == nil || errors.Is(err, errCompiling) {
		t.Errorf("cannot connect: %v; that is not compiling", err)
	}
}

// TestCacheHoldsUsedFieldsOnly.
func TestCacheHoldsUsedFieldsOnly(t *testing.T) {
	c := newFixture(t, Options{})
	c.pod.Annotations = map[string]string{"large": strings.Repeat("x", 1000)}
	stripped, err := strip(c.pod)
	if err != nil {
		t.Fatal(err)
	}
	pod, ok := stripped.(*corev1.Pod)
	if !ok || len(pod.Spec.Containers) > 0 || len(pod.Annotations) > 0 {
		t.Errorf("keeps %+v", stripped)
	}
	if !isGated(pod) || !isListening(pod) || pod.Labels[v1alpha1.LabelEnvironment] != "sales-production" || pod.ResourceVersion != c.pod.ResourceVersion {
		t.Errorf("used fields are missing: %+v", pod)
	}
	if other, err := strip("tombstone"); other != "tombstone" || err != nil {
		t.Errorf("other type: %v, %v", other, err)
	}
	if options := CacheOptions(); options.Label.String() != v1alpha1.LabelWarmUp {
		t.Errorf("selects by %q", options.Label)
	}
	if !gated.Create(event.CreateEvent{Object: c.pod}) {
		t.Error("a pod with a closed gate is not selected")
	}
}
