package dbtobjects

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/content/dbtsync"
	"github.com/quoin-dev/quoin/internal/engine"
	"github.com/quoin-dev/quoin/internal/store"
)

// TestDelivery: the pod delivers a manifest, also a second time, until the sync has ended.
func TestDelivery(t *testing.T) {
	w := newWorld(t)
	obj := w.start("acme")
	password := w.password(obj)
	malformed := of(obj, password)
	malformed.body = strings.NewReader(`{"manifest":{"a":1}}`)
	if status, text := w.send(malformed); status != 400 || !strings.Contains(text, "not a manifest") {
		t.Errorf("%d %s", status, text)
	}
	none := of(obj, password)
	none.body = strings.NewReader(`{"manifest":null}`)
	if status, text := w.send(none); status != 400 || !strings.Contains(text, "manifest: it is absent or empty") {
		t.Errorf("%d %s", status, text)
	}
	other := of(obj, password)
	other.method = http.MethodPost
	if status, text := w.send(other); status != 405 || !strings.Contains(text, "PUT") {
		t.Errorf("%d %s", status, text)
	}
	w.stage(obj, v1alpha1.DbtStageCompiling)
	for range 2 { // the pod has no response and sends it again
		if status, text := w.send(of(obj, password)); status != 204 {
			t.Errorf("%d %s", status, text)
		}
	}
	w.stage(obj, v1alpha1.DbtStageProcessing)
	w.pass()
	p, err := w.syncs.OfObject(t.Context(), w.scope("acme"), obj.Name, string(obj.UID))
	if err != nil || p.Waits || p.Stage != dbtsync.ProcessingManifest {
		t.Fatalf("%+v %v", p, err)
	}
	if status, _ := w.send(of(obj, password)); status != 204 {
		t.Errorf("%d for the same manifest while it is processed", status)
	}
	if err := w.syncs.Cancel(t.Context(), w.scope("acme"), p.ID); err != nil {
		t.Fatal(err)
	}
	if status, text := w.send(of(obj, password)); status != 401 || !strings.Contains(text, "has not ended") {
		t.Errorf("after the end: %d %s", status, text)
	}
	w.pass()
	if status, _ := w.send(of(obj, password)); status != 401 || w.get("acme", obj.Name).Status.Stage != v1alpha1.DbtStageFailed {
		t.Errorf("after the end, which the object has: %d", status)
	}
}

// TestSecretOfAnEarlierObject: an object that was deleted and created again waits until the Secret of the deleted one is deleted.
func TestSecretOfAnEarlierObject(t *testing.T) {
	w := newWorld(t)
	create := func() {
		t.Helper()
		obj := &v1alpha1.DbtSync{Spec: v1alpha1.DbtSyncSpec{
			DeploymentRef: v1alpha1.LocalReference{Name: "sales"}, Source: v1alpha1.DbtSource{Git: &v1alpha1.DbtGitSource{URL: "https://git.example.com/dbt.git"}},
		}}
		obj.Namespace, obj.Name = "acme", "nightly"
		w.must(w.kube.Create(t.Context(), obj))
		w.pass()
	}
	create()
	first := w.get("acme", "nightly")
	password := w.password(first)
	w.must(w.kube.Delete(t.Context(), first))
	w.pass()
	w.later(time.Minute)
	create()
	if again := w.get("acme", "nightly"); again.Status.Stage != "" || again.UID == first.UID {
		t.Errorf("with the Secret of the deleted object: %+v", again.Status)
	}
	secret := &corev1.Secret{}
	w.must(w.kube.Get(t.Context(), client.ObjectKey{Namespace: "acme", Name: engine.DbtDeliveryName("nightly")}, secret))
	w.must(w.kube.Delete(t.Context(), secret)) // the garbage collector
	w.pass()
	if again := w.get("acme", "nightly"); again.Status.Stage != v1alpha1.DbtStageInitializing || w.password(again) == password {
		t.Errorf("with a Secret of its own: %+v", again.Status)
	}
}

// TestDeliveryWithAnOutdatedCache: what decides is the row and the Secret, whatever the cache has.
func TestDeliveryWithAnOutdatedCache(t *testing.T) {
	for _, stage := range []string{"", v1alpha1.DbtStageInitializing, v1alpha1.DbtStageCreatingSandbox} {
		w := newWorld(t)
		obj := w.start("acme")
		password := w.password(obj)
		w.stage(obj, v1alpha1.DbtStageCompiling)
		w.outdated = func(o *v1alpha1.DbtSync) { o.Status = v1alpha1.DbtSyncStatus{Stage: stage} }
		if status, text := w.send(of(obj, password)); status != 204 {
			t.Errorf("stage %q: %d %s", stage, status, text)
		}
		p, err := w.syncs.OfObject(t.Context(), w.scope("acme"), obj.Name, string(obj.UID))
		w.must(err)
		w.must(w.syncs.Fail(t.Context(), p, p.Stage, nil, "some reason"))
		if status, text := w.send(of(obj, password)); status != 401 {
			t.Errorf("stage %q, after the end: %d %s", stage, status, text)
		}
	}
}

// TestWhoMayDeliver: only the password of the Secret that Quoin has created for the sync is accepted, and all
// others have the same response.
func TestWhoMayDeliver(t *testing.T) {
	w := newWorld(t)
	own, second, foreign := w.start("acme"), w.start("acme"), w.start("globex")
	password := w.password(own)
	user := &v1alpha1.DbtSync{Spec: v1alpha1.DbtSyncSpec{
		DeploymentRef: v1alpha1.LocalReference{Name: "sales"}, Source: v1alpha1.DbtSource{Git: &v1alpha1.DbtGitSource{URL: "https://git.example.com/dbt.git"}},
	}}
	user.Namespace, user.Name = "acme", "new"
	w.must(w.kube.Create(t.Context(), user)) // it has no row and no Secret yet
	planted := user.DeepCopy()
	planted.Name, planted.ResourceVersion = "planted", ""
	w.must(w.kube.Create(t.Context(), planted))
	secret := &corev1.Secret{Data: map[string][]byte{corev1.BasicAuthPasswordKey: []byte("chosen")}}
	secret.Namespace, secret.Name = "acme", engine.DbtDeliveryName(planted.Name)
	w.must(w.kube.Create(t.Context(), secret))

	cases := map[string]delivery{
		"no password":                      of(own, ""),
		"a made-up password":               of(own, "guess"),
		"a prefix of the password":         of(own, password[:len(password)-1]),
		"a password that is too long":      of(own, strings.Repeat("x", maxPassword+1)),
		"the password of another sync":     of(own, w.password(second)),
		"that of another account":          of(own, w.password(foreign)),
		"to the sync of another account":   of(foreign, password),
		"a sync that does not exist":       {namespace: "acme", name: "none", password: password},
		"a namespace that does not exist":  {namespace: "none", name: own.Name, password: password},
		"a sync that is not admitted":      of(user, password),
		"a Secret that is not of the sync": of(planted, "chosen"),
	}
	i := 0
	for name, d := range cases {
		i++
		d.from = fmt.Sprintf("10.0.1.%d", i)
		if d.body == nil {
			d.body = strings.NewReader("{}")
		}
		if status, text := w.send(d); status != 401 || text != "the password of a dbt sync that has not ended is required" {
			t.Errorf("%s: %d %s", name, status, text)
		}
	}
	for name, path := range map[string]string{"no name": "/dbt-syncs/acme", "another path": "/dbt-syncs/acme/" + own.Name, "more": "/dbt-syncs/acme/" + own.Name + "/manifest/x", "upper case": "/dbt-syncs/ACME/x/manifest"} {
		response, err := http.Get(w.web.URL + path)
		w.must(err)
		_ = response.Body.Close()
		if response.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %d", name, response.StatusCode)
		}
	}
	for _, obj := range []*v1alpha1.DbtSync{own, second, foreign} {
		p, err := w.syncs.OfObject(t.Context(), w.scope(obj.Namespace), obj.Name, string(obj.UID))
		w.must(err)
		w.must(w.syncs.Release(t.Context(), p, nil))
		if s, err := w.syncs.Get(t.Context(), w.scope(obj.Namespace), p.ID); err != nil || s.Error != "the pod has ended without delivering the manifest" {
			t.Errorf("%s has a manifest: %+v %v", obj.Name, s, err)
		}
	}
}

// TestObjectOfAnotherDeployment: the object of a sync over REST does not become one of a deployment that was created
// later, under the same name.
func TestObjectOfAnotherDeployment(t *testing.T) {
	w := newWorld(t)
	obj := w.start("acme")
	d := deployment("acme")
	w.must(w.kube.Delete(t.Context(), d))
	d.UID = "another"
	w.must(w.kube.Create(t.Context(), d))
	w.pass()
	after := w.get("acme", obj.Name)
	if after.Status.Stage != v1alpha1.DbtStageFailed || !strings.Contains(after.Status.Error, "does not exist") {
		t.Errorf("%+v", after.Status)
	}
	created := w.scope("acme")
	w.must(w.kube.Get(t.Context(), client.ObjectKeyFromObject(d), d))
	created.Deployment.UID = string(d.UID)
	if page, err := w.syncs.List(t.Context(), created, dbtsync.Filter{}, store.PageRequest{Limit: 1}); err != nil || len(page.Items) != 0 {
		t.Errorf("%d syncs, %v", len(page.Items), err)
	}
}

// TestDeletedDeployment: a sync ends when its deployment is deleted, whatever its stage.
func TestDeletedDeployment(t *testing.T) {
	for _, stage := range []string{v1alpha1.DbtStageInitializing, v1alpha1.DbtStageProcessing} {
		w := newWorld(t)
		obj := w.start("acme")
		w.stage(obj, stage)
		w.must(w.kube.Delete(t.Context(), deployment("acme")))
		w.pass()
		if after := w.get("acme", obj.Name); after.Status.Stage != v1alpha1.DbtStageFailed || after.Status.Error != "the deployment was deleted" {
			t.Errorf("%s: %+v", stage, after.Status)
		}
		if s, err := w.syncs.Get(t.Context(), w.scope("acme"), obj.Annotations[v1alpha1.AnnotationSyncJobID]); err != nil || s.Status != dbtsync.Failed {
			t.Errorf("%s: %+v %v", stage, s, err)
		}
	}
}

// TestDeletedSecret: a password is no longer accepted when its Secret has been replaced, a few seconds later.
func TestDeletedSecret(t *testing.T) {
	w := newWorld(t)
	obj := w.start("acme")
	password := w.password(obj)
	if status, _ := w.send(of(obj, password)); status != 204 {
		t.Fatal(status)
	}
	secret := &corev1.Secret{}
	w.must(w.kube.Get(t.Context(), client.ObjectKey{Namespace: "acme", Name: engine.DbtDeliveryName(obj.Name)}, secret))
	w.must(w.kube.Delete(t.Context(), secret))
	w.later(passwordFor)
	if status, _ := w.send(of(obj, password)); status != 401 {
		t.Errorf("%d without a Secret", status)
	}
}

// TestLargeDeliveries: more than the limit is rejected, whether its length is declared or not.
func TestLargeDeliveries(t *testing.T) {
	w := newWorld(t)
	obj := w.start("acme")
	password := w.password(obj)
	declared := of(obj, password)
	declared.body = strings.NewReader(`{"manifest":` + strings.Repeat("x", maxBody))
	if status, text := w.send(declared); status != 413 || !strings.Contains(text, fmt.Sprint(maxBody)) {
		t.Errorf("%d %s", status, text)
	}
	undeclared := of(obj, password)
	undeclared.body = io.MultiReader(strings.NewReader(`{"manifest":{"docs":"`), io.LimitReader(letters{}, maxBody), strings.NewReader(`"}}`))
	if status, text := w.send(undeclared); status != 413 || !strings.Contains(text, fmt.Sprint(maxBody)) {
		t.Errorf("%d %s", status, text)
	}
	if got := BodyLimit(&http.Request{Method: http.MethodPost, URL: request(t, "/dbt-syncs/acme/x/manifest").URL}); got != 0 {
		t.Errorf("a POST may have %d bytes", got)
	}
	if status, text := w.send(of(obj, password)); status != 204 {
		t.Errorf("the manifest after that: %d %s", status, text)
	}
}

func request(t *testing.T, path string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, path, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// letters is text without end.
type letters struct{}

// Read implements io.Reader.
func (letters) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

// TestDeliveriesAtOnce: a few manifests are received at a time; further pods are told to try again.
func TestDeliveriesAtOnce(t *testing.T) {
	w := newWorld(t)
	obj := w.start("acme")
	password := w.password(obj)
	type result struct {
		status int
		err    error
	}
	results := make(chan result, maxDeliveries)
	var writers []*io.PipeWriter
	for range maxDeliveries {
		body, writer := io.Pipe()
		writers = append(writers, writer)
		d := of(obj, password)
		d.body = body
		go func() {
			status, _, err := w.request(d)
			results <- result{status, err}
		}()
		_, err := writer.Write([]byte(`{"manifest":`))
		w.must(err)
	}
	for len(w.objects.deliveries) < maxDeliveries { // until the server has the requests
		time.Sleep(time.Millisecond)
	}
	if status, text := w.send(of(obj, password)); status != 429 || !strings.Contains(text, "too many manifests") {
		t.Errorf("%d %s", status, text)
	}
	for _, writer := range writers {
		_, err := io.WriteString(writer, manifest+"}")
		w.must(err)
		w.must(writer.Close())
	}
	for range maxDeliveries {
		if r := <-results; r.err != nil || r.status != 204 {
			t.Errorf("%+v", r)
		}
	}
	if status, text := w.send(of(obj, password)); status != 204 {
		t.Errorf("%d %s", status, text)
	}
}

// TestMadeUpDeliveries: clients that make up names and passwords cause almost no reads of the Kubernetes API
// server, from however many addresses; the pod delivers its manifest meanwhile.
func TestMadeUpDeliveries(t *testing.T) {
	w := newWorld(t)
	obj, second := w.start("acme"), w.start("acme")
	password := w.password(obj)
	flood := func(from string, n int, next func(i int) delivery) (limited int) {
		for i := range n {
			d := next(i)
			d.from = from
			status, text := w.send(d)
			switch status {
			case 401:
			case 429:
				limited++
			default:
				t.Errorf("%d %s", status, text)
			}
		}
		return limited
	}
	named := func(int) delivery { return of(obj, "guess") }
	unknown := func(i int) delivery {
		return delivery{namespace: "acme", name: fmt.Sprint("made-up-", i), password: "guess"}
	}

	if limited := flood("10.0.2.1", 60, unknown); limited != 60-failureBurst {
		t.Errorf("%d of 60 requests were limited", limited)
	}
	if reads := w.reads.Load(); reads != 0 {
		t.Errorf("%d reads for names that do not exist", reads)
	}
	// The address has used up its failures, so it causes no read of a Secret either.
	if limited := flood("10.0.2.1", 10, named); limited != 10 || w.reads.Load() != 0 {
		t.Errorf("%d of 10 requests were limited, %d reads", limited, w.reads.Load())
	}
	for i := range 20 {
		flood(fmt.Sprintf("10.0.3.%d", i+1), 3, named)
	}
	if reads := w.reads.Load(); reads != 1 {
		t.Errorf("%d reads for made-up passwords of one sync", reads)
	}
	// The pod delivers, even from the address of the attacker: its password is cached.
	for _, from := range []string{"10.0.4.1", "10.0.2.1"} {
		d := of(obj, password)
		d.from = from
		if status, text := w.send(d); status != 204 {
			t.Errorf("from %s: %d %s", from, status, text)
		}
	}
	if reads := w.reads.Load(); reads != 1 {
		t.Errorf("%d reads", reads)
	}
	d := of(second, w.password(second))
	d.from = "10.0.2.1"
	if status, text := w.send(d); status != 429 || w.reads.Load() != 1 {
		t.Errorf("%d %s, %d reads", status, text, w.reads.Load())
	}
	w.later(time.Second)
	d.body = strings.NewReader(`{"manifest":` + manifest + `}`)
	if status, text := w.send(d); status != 204 || w.reads.Load() != 2 {
		t.Errorf("a second later: %d %s, %d reads", status, text, w.reads.Load())
	}
}
