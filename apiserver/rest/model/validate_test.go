package model

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/access"
	"github.com/quoin-dev/quoin/apiserver/rest/model/ask"
	"github.com/quoin-dev/quoin/internal/apitest"
	"github.com/quoin-dev/quoin/internal/content/devmode"
	"github.com/quoin-dev/quoin/internal/content/repository"
	"github.com/quoin-dev/quoin/internal/engine"
	"github.com/quoin-dev/quoin/internal/kube"
	"github.com/quoin-dev/quoin/internal/store"
	"github.com/quoin-dev/quoin/internal/store/storetest"
)

// environmentAt returns an environment that serves a commit, with a condition Ready.
func environmentAt(name, commit string, status metav1.ConditionStatus, reason, message string) *v1alpha1.Environment {
	return &v1alpha1.Environment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: name, UID: "e1", Generation: 3},
		Spec:       v1alpha1.EnvironmentSpec{ModelCommit: commit},
		Status: v1alpha1.EnvironmentStatus{CommonStatus: v1alpha1.CommonStatus{Conditions: []metav1.Condition{{
			Type: v1alpha1.ConditionReady, Status: status, Reason: reason, Message: message, ObservedGeneration: 3,
		}}}},
	}
}

func credentials(environment string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: engine.CredentialsName(environment)},
		Data:       map[string][]byte{engine.KeyAPISecret: []byte("the api secret"), engine.KeySQLPassword: []byte("the password")},
	}
}

// answering returns the server of an environment that answers with a status and a body.
func answering(status int, text string) Ask {
	return func(_ context.Context, _ *v1alpha1.Environment, token string) (int, io.ReadCloser, error) {
		return status, io.NopCloser(strings.NewReader(strings.ReplaceAll(text, "{token}", token))), nil
	}
}

func validationWorld(t *testing.T) *world {
	t.Helper()
	return newWorld(t, storetest.SQLiteURL(t), credentials("sales-production"), credentials("sales-next"))
}

func (w *world) put(o client.Object) {
	w.Helper()
	_ = w.kube.Delete(context.Background(), o.DeepCopyObject().(client.Object)) // it may not exist
	w.must(w.kube.Create(context.Background(), o))
}

func TestValidateAsksTheServerOfTheBranch(t *testing.T) {
	w := validationWorld(t)
	w.put(environmentAt("sales-production", w.head("main").String(), metav1.ConditionTrue, "Succeeded", ""))
	for name, tc := range map[string]struct {
		status int
		body   string
		words  []string
	}{
		"compiles":  {200, `{"cubes":[{"name":"orders"},{"name":"users","measures":[{"name":"x"}]}]}`, []string{`"valid":true`, `"cubesCount":2`, `"errors":[]`, `"mode":"production"`, `"branchName":"main"`, `"deploymentId":7`}},
		"no access": {403, `{"error":"API scope is missing: meta"}`, []string{`"valid":true`, `"errors":[]`}},
		"an error of a file": {500, `{"error":"Error: Compile errors:\norders.yml Errors:\n(cubes.0.sql = 1) must be a string\n    at x (/cube/x.js:1:1)"}`,
			[]string{`"valid":false`, `"fileName":"orders.yml"`, `"message":"(cubes.0.sql = 1) must be a string"`}},
		"an error of no file": {500, `{"error":"Cube 'x' is not found"}`, []string{`"valid":false`, `"errors":[{"message":"Cube 'x' is not found"}]`}},
		"a secret":            {500, `{"error":"connect with the password and {token}"}`, []string{`connect with *** and ***`}},
	} {
		t.Run(name, func(*testing.T) {
			w.ask = answering(tc.status, tc.body)
			w.call(ada, "GET", "/data-model/validate", nil).is(200, tc.words...)
			w.call(ada, "GET", "/data-model/validate?branchName=&devMode=false", nil).is(200, tc.words...)
		})
	}
}

func TestValidateReportsARejectedCommit(t *testing.T) {
	w := validationWorld(t)
	w.ask = func(context.Context, *v1alpha1.Environment, string) (int, io.ReadCloser, error) {
		t.Error("the server was asked")
		return 0, nil, errors.New("refused")
	}
	w.call(ada, "POST", "/branches", map[string]any{"name": "next"}).is(200)
	w.put(environmentAt("sales-next", w.head("next").String(), metav1.ConditionFalse, v1alpha1.ReasonModelBroken,
		"The data model does not compile: Compile errors: | a.yml Errors: | x is bad | y is bad | b.js Errors: | z is bad | at async f"))
	w.call(ada, "GET", "/data-model/validate?branchName=next", nil).is(200, `"mode":"dev_mode"`, `"valid":false`,
		`"errors":[{"fileName":"model/a.yml","message":"x is bad"},{"fileName":"model/a.yml","message":"y is bad"},{"fileName":"b.js","message":"z is bad"}]`)

	d := &v1alpha1.Deployment{}
	w.must(w.kube.Get(t.Context(), client.ObjectKeyFromObject(w.deployment), d))
	d.Status.FailedModel = &v1alpha1.FailedModel{Commit: w.head("main").String(), Message: "a.yml: bad"}
	w.must(w.kube.Update(t.Context(), d))
	w.call(ada, "GET", "/data-model/validate", nil).is(200, `"valid":false`, `"message":"a.yml: bad"`)
}

// The compiler names files of a project from its folder model on; users know them by their whole path.
func TestValidateNamesFilesOfAProject(t *testing.T) {
	w := validationWorld(t)
	dev := w.enter(ada, "main")
	w.write(dev, map[string]string{"cube.js": "", "model/cubes/a.yml": "a", "b.yml": "b"})
	environment := "sales-" + slug(dev)
	w.put(credentials(environment))
	w.put(environmentAt(environment, w.head(dev).String(), metav1.ConditionFalse, v1alpha1.ReasonModelBroken,
		"The data model does not compile: Compile errors: | cubes/a.yml Errors: | x | b.yml Errors: | y | c.yml Errors: | z | Syntax error during 'cubes/a.yml' parsing: Unexpected token (5:1): | ); | ^ | last"))
	w.call(ada, "GET", "/data-model/validate?devMode=true", nil).is(200,
		`"errors":[{"fileName":"model/cubes/a.yml","message":"x"},{"fileName":"b.yml","message":"y"},{"fileName":"c.yml","message":"z"},`+
			`{"fileName":"model/cubes/a.yml","message":"Syntax error during 'cubes/a.yml' parsing: Unexpected token (5:1)"},{"fileName":"model/cubes/a.yml","message":"last"}]`)
}

func TestValidateSelectsTheBranch(t *testing.T) {
	w := validationWorld(t)
	w.call(ada, "GET", "/data-model/validate?branchName=main&devMode=true", nil).is(400, "branchName", "devMode")
	w.call(ada, "GET", "/data-model/validate?branchName=gone", nil).is(404, "gone")
	w.call(ada, "GET", "/data-model/validate?devMode=true", nil).is(400, "not in dev mode")
	dev := w.enter(ada, "main")
	w.write(dev, map[string]string{"model/x.yml": "x\n"})
	environment := "sales-" + slug(dev)
	w.put(credentials(environment))
	w.put(environmentAt(environment, w.head(dev).String(), metav1.ConditionTrue, "Succeeded", ""))
	w.ask = answering(200, `{"cubes":[]}`)
	w.call(ada, "GET", "/data-model/validate?devMode=true", nil).is(200, `"branchName":"`+dev+`"`, `"mode":"dev_mode"`, `"cubesCount":0`)
	reader := *bob
	reader.Grants = access.OnAll(v1alpha1.PermissionSchemaRead)
	w.call(&reader, "GET", "/data-model/validate?branchName="+dev, nil).is(200, `"valid":true`)
	reader.Grants = access.OnAll(v1alpha1.PermissionFolderRead)
	w.call(&reader, "GET", "/data-model/validate", nil).is(403, "SchemaRead")
}

func TestValidateNeedsAnAnswer(t *testing.T) {
	w := validationWorld(t)
	w.put(environmentAt("sales-production", w.head("main").String(), metav1.ConditionTrue, "Succeeded", ""))
	asked := 0
	w.ask = func(context.Context, *v1alpha1.Environment, string) (int, io.ReadCloser, error) {
		asked++
		return 0, nil, errors.New("connection refused")
	}
	w.call(ada, "GET", "/data-model/validate", nil).is(503, "does not answer")
	if asked != maxUnanswered {
		t.Errorf("asked %d times", asked)
	}
}

// TestValidateEndsWithTheRequest: a validation whose client disconnects ends, also while the server is being asked, and
// neither asks nor wakes an environment afterwards.
func TestValidateEndsWithTheRequest(t *testing.T) {
	w := validationWorld(t)
	sleeping := environmentAt("sales-production", w.head("main").String(), metav1.ConditionTrue, v1alpha1.ReasonAsleep, "Asleep")
	sleeping.Spec.IdleSeconds = ptr.To[int32](1800)
	for name, e := range map[string]*v1alpha1.Environment{
		"while the server is asked": environmentAt("sales-production", w.head("main").String(), metav1.ConditionTrue, "Succeeded", ""),
		"while the pods start":      environmentAt("sales-production", w.head("main").String(), metav1.ConditionUnknown, v1alpha1.ReasonProgressing, "2 of 3 pods"),
		"while it wakes":            sleeping,
	} {
		t.Run(name, func(t *testing.T) {
			ctx, disconnect := context.WithCancel(t.Context())
			defer disconnect()
			w.put(e.DeepCopy())
			asked := 0
			w.ask = func(ctx context.Context, _ *v1alpha1.Environment, _ string) (int, io.ReadCloser, error) {
				asked++
				disconnect()
				<-ctx.Done()
				return 0, nil, ctx.Err()
			}
			if name != "while the server is asked" {
				time.AfterFunc(validateInterval/2, disconnect)
			}
			w.callWith(ctx, ada, "GET", "/data-model/validate", nil).is(503, "try again")
			if ctx.Err() == nil || asked > 1 {
				t.Errorf("the server was asked %d times; the request has ended: %t", asked, ctx.Err() != nil)
			}
		})
	}
}

// TestValidateWakesTheEnvironment: a sleeping environment is woken, and asked when it serves the commit.
func TestValidateWakesTheEnvironment(t *testing.T) {
	w := validationWorld(t)
	e := environmentAt("sales-production", w.head("main").String(), metav1.ConditionTrue, v1alpha1.ReasonAsleep, "Asleep")
	w.put(e.DeepCopy())
	w.call(ada, "GET", "/data-model/validate", nil).is(409, "scaled to zero")
	e.Spec.IdleSeconds = ptr.To[int32](1800)
	w.put(e)
	w.ask = answering(200, `{"cubes":[]}`)
	done := make(chan *answer)
	go func() { done <- w.call(ada, "GET", "/data-model/validate", nil) }()
	for {
		woken := &v1alpha1.Environment{}
		w.must(w.kube.Get(t.Context(), client.ObjectKeyFromObject(e), woken))
		if woken.Annotations[v1alpha1.AnnotationWakeRequested] != "" {
			woken.Status.Conditions[0].Reason = "Succeeded"
			w.must(w.kube.Update(t.Context(), woken))
			break
		}
	}
	(<-done).is(200, `"valid":true`)
}

func TestModelsThatQuoinDoesNotKeepAreNotWritten(t *testing.T) {
	w := newWorld(t, storetest.SQLiteURL(t))
	requests := []struct{ method, path string }{{"POST", "/dev-mode"}, {"DELETE", "/dev-mode"}, {"POST", "/commit"}, {"POST", "/merge"}, {"POST", "/merge-to-default"}}
	w.deployment.Spec.Model = v1alpha1.ModelSource{ConfigMapRef: &v1alpha1.LocalReference{Name: "sales-model"}}
	for _, r := range requests {
		w.call(ada, r.method, r.path, nil).is(409, "sales-model", "spec.model.repository", "spec.model.git")
	}
	w.call(ada, "POST", "/branches", map[string]any{"name": "x", "activate": true}).is(409, "sales-model")
	w.call(ada, "GET", "/data-model/validate?devMode=true", nil).is(409, "sales-model")
	w.deployment.Spec.Model = v1alpha1.ModelSource{Git: &v1alpha1.GitSource{URL: "https://git.example.com/a.git"}}
	for _, r := range requests { // the world has no mirrors, as without a database
		w.call(ada, r.method, r.path, nil).is(503, "--database-url")
	}
	unavailable := store.NewDatabase("postgres://127.0.0.1:1/quoin", nil)
	for message, o := range map[string]Options{
		"has no --database-url":         {},
		"the database is not available": {Repositories: &repository.Repositories{DB: unavailable, Record: w.record}, DevMode: &devmode.DevMode{DB: unavailable}},
	} {
		w.deployment = sales()
		w.serve(o)
		for _, r := range requests {
			w.call(ada, r.method, r.path, nil).is(503, message)
		}
		w.call(ada, "POST", "/branches", map[string]any{"name": "x"}).is(503, message)
		w.call(ada, "GET", "/data-model/validate", nil).is(503, message)
	}
}

// sliceAt returns the endpoints of an environment at an address.
func sliceAt(name, environment, address string, port int32, ready bool) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "demo", Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: engine.APIName(environment)}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: ptr.To(engine.PortNameSQL), Port: ptr.To[int32](1)}, {Name: ptr.To(engine.PortNameHTTP), Port: &port}},
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}}},
	}
}

// TestAskOverHTTP: a ready pod of the environment is asked for its metadata with the token; it is not
// followed elsewhere.
func TestAskOverHTTP(t *testing.T) {
	elsewhere := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path != "/cubejs-api/v1/meta":
			elsewhere++
		case r.Header.Get("Authorization") == "redirect":
			http.Redirect(w, r, "/elsewhere", http.StatusFound)
		default:
			_, _ = io.WriteString(w, r.Header.Get("Authorization"))
		}
	}))
	defer server.Close()
	host, text, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	objects := []client.Object{
		sliceAt("a", "sales-production", "192.0.2.1", 1, false), sliceAt("b", "sales-production", host, int32(port), true),
		sliceAt("c", "sales-next", "192.0.2.2", 1, false),
	}
	api := fake.NewClientBuilder().WithScheme(apitest.Scheme(t)).WithObjects(objects...).Build()
	over := ask.OverHTTP(kube.NewClient(api, api, "test"), nil)
	of := func(name string) *v1alpha1.Environment {
		return &v1alpha1.Environment{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: name}}
	}
	for token, want := range map[string]int{"token": 200, "redirect": 302} {
		status, body, err := over(t.Context(), of("sales-production"), token)
		if err != nil || status != want {
			t.Fatalf("%s: %d, %v", token, status, err)
		}
		if text, err := io.ReadAll(body); token == "token" && string(text) != token {
			t.Errorf("the server got the token %q, %v", text, err)
		}
		if err := body.Close(); err != nil {
			t.Error(err)
		}
	}
	if elsewhere != 0 {
		t.Error("a redirect was followed")
	}
	for _, name := range []string{"sales-next", "sales-gone"} {
		if _, _, err := over(t.Context(), of(name), "token"); err == nil {
			t.Errorf("%s, which has no ready pod, was asked", name)
		}
	}
}
