package modelendpoint

import (
	"bytes"
	"context"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/apitest"
	"github.com/quoin-dev/quoin/internal/kube"
	"github.com/quoin-dev/quoin/internal/reconciler"
)

func TestMain(m *testing.M) { apitest.Main(m) }

// modelServer is a server at https://example.com, with the certificate in pem.
type modelServer struct {
	pem []byte

	mu       sync.Mutex
	requests []*http.Request
	status   int
	body     string
	down     bool
	address  string
}

func newModelServer(t *testing.T) *modelServer {
	t.Helper()
	s := &modelServer{status: http.StatusOK, body: `{"object":"list","data":[{"id":"gpt-x"},{"id":"other"}]}`}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.requests = append(s.requests, r)
		w.Header().Set("Location", "https://example.com/other")
		w.WriteHeader(s.status)
		_, _ = w.Write([]byte(s.body))
	}))
	t.Cleanup(server.Close)
	s.pem = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	s.address = server.Listener.Addr().String()
	return s
}

func (s *modelServer) dial(ctx context.Context, network, _ string) (net.Conn, error) {
	s.mu.Lock()
	address := s.address
	if s.down {
		address = "127.0.0.1:1"
	}
	s.mu.Unlock()
	return (&net.Dialer{}).DialContext(ctx, network, address)
}

func (s *modelServer) set(status int, down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status, s.down = status, down
}

// take returns the requests since the last call.
func (s *modelServer) take() []*http.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := s.requests
	s.requests = nil
	return taken
}

// world is an endpoint on a real Kubernetes API server, and its reconciler.
type world struct {
	t         *testing.T
	api       client.WithWatch
	namespace string
	server    *modelServer
	now       time.Time
	clock     *clocktesting.FakePassiveClock
	events    *events.FakeRecorder
	r         *reconciler.Reconciler[*v1alpha1.ModelEndpoint]
}

// newWorld creates an endpoint, which is named like the namespace, with a Secret that has its key and certificates.
func newWorld(t *testing.T, edits ...func(*v1alpha1.ModelEndpointSpec)) *world {
	t.Helper()
	api, namespace := apitest.Direct(t)
	w := &world{t: t, api: api, namespace: namespace, server: newModelServer(t), now: time.Now().Truncate(time.Second).Add(time.Minute)}
	w.create(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "model"},
		Data:       map[string][]byte{"apiKey": []byte("sk-hidden\n"), "ca.crt": w.server.pem, "empty": nil, "words": []byte("two words")},
	})
	e := &v1alpha1.ModelEndpoint{ObjectMeta: metav1.ObjectMeta{Name: namespace}, Spec: v1alpha1.ModelEndpointSpec{
		Protocol: v1alpha1.ModelOpenAI, BaseURL: "https://example.com/v1/", Model: "gpt-x",
		APIKeySecretRef: &v1alpha1.SecretKeyReference{Name: "model", Key: "apiKey"}, CASecretRef: &v1alpha1.SecretKeyReference{Name: "model", Key: "ca.crt"},
	}}
	for _, edit := range edits {
		edit(&e.Spec)
	}
	w.create(e)
	t.Cleanup(func() { _ = api.Delete(context.WithoutCancel(t.Context()), e) })
	w.restart(api)
	return w
}

func (w *world) create(o client.Object) {
	w.t.Helper()
	if err := w.api.Create(w.t.Context(), o); err != nil {
		w.t.Fatal(err)
	}
}

// restart replaces the reconciler by a new one without memory.
func (w *world) restart(api client.WithWatch) {
	w.clock, w.events = clocktesting.NewFakePassiveClock(w.now), events.NewFakeRecorder(100)
	w.r = New(kube.NewClient(api, api, "quoin-test"), w.events, w.clock, Options{Namespace: w.namespace, Dial: w.server.dial})
}

// reconcile reconciles the endpoint after a time, and returns it with the time until the next reconciliation.
func (w *world) reconcile(after time.Duration) (*v1alpha1.ModelEndpoint, time.Duration) {
	w.t.Helper()
	w.now = w.now.Add(after)
	w.clock.SetTime(w.now)
	key := client.ObjectKey{Name: w.namespace}
	result, err := w.r.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: key})
	if err != nil {
		w.t.Fatal(err)
	}
	e := &v1alpha1.ModelEndpoint{}
	if err := w.api.Get(w.t.Context(), key, e); err != nil {
		w.t.Fatal(err)
	}
	text := &bytes.Buffer{}
	fmt.Fprint(text, e.Status)
	if strings.Contains(text.String(), "hidden") {
		w.t.Errorf("the status has the key: %s", text)
	}
	return e, result.RequeueAfter
}

// change changes the endpoint with a merge patch.
func (w *world) change(patch string) {
	w.t.Helper()
	e := &v1alpha1.ModelEndpoint{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}}
	if err := w.api.Patch(w.t.Context(), e, client.RawPatch("application/merge-patch+json", []byte(patch))); err != nil {
		w.t.Fatal(err)
	}
}

// reported returns the events since the last call.
func (w *world) reported() []string {
	var all []string
	for {
		select {
		case e := <-w.events.Events:
			if strings.Contains(e, "hidden") {
				w.t.Errorf("an event has the key: %s", e)
			}
			all = append(all, e)
		default:
			return all
		}
	}
}

func (w *world) wantCondition(e *v1alpha1.ModelEndpoint, kind, status, reason, message string) {
	w.t.Helper()
	c := meta.FindStatusCondition(e.Status.Conditions, kind)
	if c == nil || string(c.Status) != status || c.Reason != reason || !strings.Contains(c.Message, message) {
		w.t.Errorf("%s is %+v, want %s, %s: %s", kind, c, status, reason, message)
	}
}

func TestEndpointIsReadyAndReachable(t *testing.T) {
	for name, c := range map[string]struct {
		protocol v1alpha1.ModelProtocol
		path     string
		header   string
		value    string
	}{
		"OpenAI":    {v1alpha1.ModelOpenAI, "/v1/models", "Authorization", "Bearer sk-hidden"},
		"Anthropic": {v1alpha1.ModelAnthropic, "/v1/v1/models?limit=1000", "X-Api-Key", "sk-hidden"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(s *v1alpha1.ModelEndpointSpec) { s.Protocol = c.protocol })
			e, again := w.reconcile(0)
			w.wantCondition(e, "Ready", "True", "Succeeded", "Agents of all accounts can use gpt-x")
			w.wantCondition(e, "Reachable", "True", "Reachable", "The server answers")
			if e.Status.BaseURL != "https://example.com/v1" || e.Status.ObservedGeneration != e.Generation || again != probeInterval {
				t.Errorf("the status is %+v, the next reconciliation is in %s", e.Status, again)
			}
			requests := w.server.take()
			if len(requests) != 1 || requests[0].URL.String() != c.path || requests[0].Header.Get(c.header) != c.value || requests[0].Method != http.MethodGet {
				t.Fatalf("the requests are %+v", requests)
			}
			if version := requests[0].Header.Get("Anthropic-Version"); (version != "") != (c.protocol == v1alpha1.ModelAnthropic) {
				t.Errorf("the version is %q", version)
			}
			next, _ := w.reconcile(time.Minute)
			if next.ResourceVersion != e.ResourceVersion || len(w.server.take()) != 0 {
				t.Error("another reconciliation writes, or probes before the interval has passed")
			}
			next, _ = w.reconcile(probeInterval)
			if next.ResourceVersion != e.ResourceVersion || len(w.server.take()) != 1 {
				t.Error("a probe without a change writes, or there is none after the interval")
			}
			if got := w.reported(); len(got) != 1 || !strings.Contains(got[0], "Normal Succeeded") {
				t.Errorf("the events are %q", got)
			}
		})
	}
}

func TestEndpointWithoutAKey(t *testing.T) {
	w := newWorld(t, func(s *v1alpha1.ModelEndpointSpec) { s.APIKeySecretRef = nil })
	e, _ := w.reconcile(0)
	w.wantCondition(e, "Reachable", "True", "Reachable", "")
	if requests := w.server.take(); len(requests) != 1 || requests[0].Header.Get("Authorization") != "" {
		t.Errorf("the requests are %+v", requests)
	}
}

func TestSecretsThatCannotBeUsed(t *testing.T) {
	ref := func(name, key string) *v1alpha1.SecretKeyReference {
		return &v1alpha1.SecretKeyReference{Name: name, Key: key}
	}
	for name, c := range map[string]struct {
		edit    func(*v1alpha1.ModelEndpointSpec)
		message string
	}{
		"no Secret":         {func(s *v1alpha1.ModelEndpointSpec) { s.APIKeySecretRef = ref("none", "apiKey") }, `spec.apiKeySecretRef: Secret "none" does not exist in namespace`},
		"no key":            {func(s *v1alpha1.ModelEndpointSpec) { s.APIKeySecretRef = ref("model", "none") }, `has no value for the key "none"`},
		"an empty value":    {func(s *v1alpha1.ModelEndpointSpec) { s.APIKeySecretRef = ref("model", "empty") }, `has no value for the key "empty"`},
		"words":             {func(s *v1alpha1.ModelEndpointSpec) { s.APIKeySecretRef = ref("model", "words") }, "an API key has 1 to 8192 printable ASCII characters"},
		"no CA":             {func(s *v1alpha1.ModelEndpointSpec) { s.CASecretRef = ref("none", "ca.crt") }, `spec.caSecretRef: Secret "none" does not exist`},
		"not a certificate": {func(s *v1alpha1.ModelEndpointSpec) { s.CASecretRef = ref("model", "words") }, "there is no certificate in PEM form"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, c.edit)
			e, again := w.reconcile(0)
			w.wantCondition(e, "Ready", "False", "ModelSecretUnreadable", c.message)
			w.wantCondition(e, "Stalled", "True", "ModelSecretUnreadable", c.message)
			w.wantCondition(e, "Reachable", "Unknown", "NotProbed", "not ready")
			if again != retryInterval || len(w.server.take()) != 0 {
				t.Errorf("the Secret is read again in %s", again)
			}
		})
	}
}

func TestSecretIsReadAgain(t *testing.T) {
	w := newWorld(t, func(s *v1alpha1.ModelEndpointSpec) { s.APIKeySecretRef.Name = "later" })
	e, _ := w.reconcile(0)
	w.wantCondition(e, "Stalled", "True", "ModelSecretUnreadable", "")
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "later"}, Data: map[string][]byte{"apiKey": []byte("sk-hidden")}}
	w.create(secret)
	e, _ = w.reconcile(retryInterval)
	w.wantCondition(e, "Ready", "True", "Succeeded", "")
	if meta.FindStatusCondition(e.Status.Conditions, "Stalled") != nil {
		t.Errorf("the conditions are %+v", e.Status.Conditions)
	}
	w.server.take()
	secret.Data["apiKey"] = []byte("sk-hidden-2")
	if err := w.api.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	w.reconcile(time.Second)
	if requests := w.server.take(); len(requests) != 1 || requests[0].Header.Get("Authorization") != "Bearer sk-hidden-2" {
		t.Errorf("the requests with a new key are %+v", requests)
	}
	w.change(`{"metadata":{"annotations":{"platform.quoin.dev/reconcile-requested-at":"now"}}}`)
	w.reconcile(time.Second)
	if len(w.server.take()) != 1 {
		t.Error("a requested reconciliation does not probe")
	}
}

func TestSecretsAreForbidden(t *testing.T) {
	w := newWorld(t)
	w.restart(interceptor.NewClient(w.api, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if _, ok := o.(*corev1.Secret); ok {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, key.Name, nil)
			}
			return c.Get(ctx, key, o, opts...)
		},
	}))
	e, again := w.reconcile(0)
	w.wantCondition(e, "Ready", "False", "ModelSecretUnreadable", "is forbidden for the controller")
	if again != retryInterval {
		t.Errorf("it is tried again in %s", again)
	}
}

// TestServerThatDoesNotAnswer: the endpoint stays ready, is probed after doubling intervals, and events are written when the state
// changes.
func TestServerThatDoesNotAnswer(t *testing.T) {
	w := newWorld(t)
	w.reconcile(0)
	w.reported()
	w.server.set(http.StatusOK, true)
	e, again := w.reconcile(probeInterval)
	w.wantCondition(e, "Ready", "True", "Succeeded", "")
	w.wantCondition(e, "Reachable", "False", "Unreachable", "The server does not answer: connection refused")
	if got := w.reported(); len(got) != 1 || !strings.Contains(got[0], "Warning Unreachable") {
		t.Errorf("the events are %q", got)
	}
	version := e.ResourceVersion
	for _, want := range []time.Duration{firstRetry, firstRetry, 2 * firstRetry, 4 * firstRetry, 8 * firstRetry, 16 * firstRetry, probeInterval, probeInterval} {
		if again != want {
			t.Fatalf("the next probe is in %s, want %s", again, want)
		}
		e, again = w.reconcile(again)
	}
	if e.ResourceVersion != version || len(w.reported()) != 0 {
		t.Error("repeated failures write to the status, or events")
	}
	w.server.set(http.StatusUnauthorized, false)
	e, _ = w.reconcile(probeInterval)
	w.wantCondition(e, "Ready", "True", "Succeeded", "")
	w.wantCondition(e, "Reachable", "False", "APIKeyRejected", "401 Unauthorized")
	w.server.set(http.StatusOK, false)
	e, again = w.reconcile(probeInterval)
	w.wantCondition(e, "Reachable", "True", "Reachable", "")
	if got := w.reported(); len(got) != 2 || !strings.Contains(got[0], "Warning APIKeyRejected") || !strings.Contains(got[1], "Normal Reachable") || again != probeInterval {
		t.Errorf("the events are %q, the next probe is in %s", got, again)
	}
}

// TestFailedWriteLosesNoProbe: a result that cannot be written is written by the next reconciliation, without another probe.
func TestFailedWriteLosesNoProbe(t *testing.T) {
	w := newWorld(t)
	failing := false
	w.restart(interceptor.NewClient(w.api, interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			if failing {
				return apierrors.NewConflict(schema.GroupResource{Resource: "modelendpoints"}, o.GetName(), nil)
			}
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		},
	}))
	w.server.set(http.StatusServiceUnavailable, false)
	e, _ := w.reconcile(0)
	w.wantCondition(e, "Reachable", "False", "Unreachable", "")
	w.server.set(http.StatusOK, false)
	failing = true
	w.reconcile(time.Minute)
	failing = false
	w.server.take()
	e, _ = w.reconcile(time.Second)
	w.wantCondition(e, "Reachable", "True", "Reachable", "")
	if n := len(w.server.take()); n != 0 {
		t.Errorf("%d more probes", n)
	}
}

// TestNewURLIsProbedSoon: the intervals begin anew after a change of the spec.
func TestNewURLIsProbedSoon(t *testing.T) {
	w := newWorld(t)
	w.server.set(http.StatusOK, true)
	w.reconcile(0)
	w.reconcile(time.Hour)
	w.server.take()
	w.change(`{"spec":{"baseURL":"https://example.com/v2"}}`)
	if _, again := w.reconcile(time.Second); again != firstRetry {
		t.Errorf("the next probe is in %s", again)
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	w := newWorld(t)
	w.server.set(http.StatusFound, false)
	e, _ := w.reconcile(0)
	w.wantCondition(e, "Reachable", "False", "Unreachable", "redirects to another address")
	if requests := w.server.take(); len(requests) != 1 {
		t.Errorf("there are %d requests", len(requests))
	}
}

func TestUntrustedCertificate(t *testing.T) {
	w := newWorld(t, func(s *v1alpha1.ModelEndpointSpec) { s.CASecretRef = nil })
	e, _ := w.reconcile(0)
	w.wantCondition(e, "Ready", "True", "Succeeded", "")
	w.wantCondition(e, "Reachable", "False", "Unreachable", "certificate signed by unknown authority")
}

func TestLoopbackIsNotProbed(t *testing.T) {
	w := newWorld(t, func(s *v1alpha1.ModelEndpointSpec) { s.BaseURL = "http://localhost:8080/v1" })
	e, _ := w.reconcile(0)
	w.wantCondition(e, "Ready", "True", "Succeeded", "")
	w.wantCondition(e, "Reachable", "Unknown", "NotProbed", "each replica of quoin apiserver")
	if len(w.server.take()) != 0 {
		t.Error("localhost is probed")
	}
}

func TestAllowedAccounts(t *testing.T) {
	w := newWorld(t)
	w.change(`{"spec":{"allowedAccounts":["` + w.namespace + `","missing"]}}`)
	e, _ := w.reconcile(0)
	w.wantCondition(e, "Ready", "True", "Succeeded", "No account can use gpt-x; spec.allowedAccounts names accounts that do not exist: missing, "+w.namespace)
	a := &v1alpha1.Account{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}, Spec: v1alpha1.AccountSpec{Namespace: w.namespace, Host: v1alpha1.Host(w.namespace + ".example.com")}}
	w.create(a)
	e, _ = w.reconcile(time.Second)
	w.wantCondition(e, "Ready", "True", "Succeeded", "Agents of these accounts can use gpt-x: "+w.namespace+"; spec.allowedAccounts names accounts that do not exist: missing")
	if got := ofAccount(w.api)(t.Context(), a); len(got) != 1 || got[0].Name != w.namespace {
		t.Errorf("the endpoints of the account are %v", got)
	}
}

func TestDeletedEndpointIsForgotten(t *testing.T) {
	w := newWorld(t)
	e, _ := w.reconcile(0)
	if err := w.api.Delete(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	if _, err := w.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: w.namespace}}); err != nil {
		t.Fatal(err)
	}
	w.create(&v1alpha1.ModelEndpoint{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}, Spec: e.Spec})
	w.server.take()
	w.reconcile(time.Second)
	if len(w.server.take()) != 1 {
		t.Error("an endpoint that was created again is not probed")
	}
}
