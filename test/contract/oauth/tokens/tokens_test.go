// Package tokens_test tests how OAuth tokens of people are obtained, refreshed and revoked at a provider, by several replicas.
package tokens_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/usertokens"
	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/contenttest"
	"github.com/quoin-dev/quoin/internal/content/usertoken"
	"github.com/quoin-dev/quoin/internal/keyring"
	"github.com/quoin-dev/quoin/internal/store"
	"github.com/quoin-dev/quoin/test/internal/oauthprovider"
)

const callback = "/auth/integrations/callback"

// world is an account with the integrations 3 and 4 of a provider, and the users ada and bob.
type world struct {
	testing.TB
	provider *oauthprovider.Provider
	account  *v1alpha1.Account
	api      client.Client
	db       *store.Store
	clock    *clocktesting.FakeClock
	service  *usertokens.Service
	logs     strings.Builder
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{TB: t, provider: oauthprovider.New(), clock: clocktesting.NewFakeClock(time.Now().UTC().Truncate(time.Microsecond))}
	t.Cleanup(w.provider.Close)
	w.account = &v1alpha1.Account{ObjectMeta: metav1.ObjectMeta{Name: "demo", UID: "a1"}, Spec: v1alpha1.AccountSpec{Host: "demo.example.com", Namespace: "demo"}}
	scheme := runtime.NewScheme()
	w.must(errors.Join(v1alpha1.AddToScheme(scheme), corev1.AddToScheme(scheme)))
	objects := []client.Object{w.account}
	for _, name := range []string{"ada", "bob"} {
		objects = append(objects, &v1alpha1.ScimUser{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: name}, Spec: v1alpha1.ScimUserSpec{UserName: name}})
	}
	for id, name := range map[int64]string{3: "warehouse", 4: "lake"} {
		i, secret := oauthprovider.Integration("demo", name, w.provider.Endpoints())
		i.Status.ID = id
		i.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue}}
		objects = append(objects, i, secret)
	}
	w.api = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
	db, err := store.Open(t.Context(), "sqlite://"+filepath.Join(t.TempDir(), "quoin.db"), nil, usertoken.Owner)
	w.must(err)
	t.Cleanup(func() { _ = db.Close() })
	w.db = db
	w.service = w.replica()
	return w
}

// replica returns the service of another process.
func (w *world) replica() *usertokens.Service {
	return usertokens.New(usertokens.Options{
		Store: &usertoken.Store{DB: w.db, Now: w.clock.Now, Record: func(context.Context, *store.Tx, audit.Event) error { return nil }},
		Keys:  &keyring.Keyring{Live: w.api, Now: w.clock.Now}, Cache: w.api, Live: w.api, HTTP: w.provider.Client(), Clock: w.clock,
		Log: slog.New(slog.NewTextHandler(&w.logs, nil)),
	})
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// response begins an authorization and returns the parameters of the provider's response.
func (w *world) response(user string, id int64) url.Values {
	w.Helper()
	begun, err := w.service.Begin(w.Context(), w.account, user, id)
	w.must(err)
	redirect, err := w.provider.Consent(begun.URL)
	w.must(err)
	if redirect.Scheme+"://"+redirect.Host+redirect.Path != "https://demo.example.com"+callback {
		w.Errorf("the redirect URI is %s", redirect)
	}
	return redirect.Query()
}

func (w *world) authorize(user string, id int64) {
	w.Helper()
	_, err := w.service.Complete(w.Context(), w.account, user, callback, w.response(user, id))
	w.must(err)
}

func (w *world) token(user string, id int64) *usertoken.Token {
	w.Helper()
	t, err := w.service.Find(w.Context(), w.account, user, id)
	w.must(err)
	return t
}

var named = &v1alpha1.Deployment{Spec: v1alpha1.DeploymentSpec{OAuthIntegrations: []v1alpha1.LocalReference{{Name: "warehouse"}, {Name: "absent"}}}}

// credential returns what data tokens of a person have for the integration warehouse.
func (w *world) credential(user string) usertokens.Credential {
	w.Helper()
	all, err := w.service.Credentials(w.Context(), w.account, user, named)
	w.must(err)
	return all["warehouse"]
}

func (w *world) rows() int { w.Helper(); return contenttest.Count(w.TB, w.db, "user_oauth_token") }

func (w *world) round() { w.Helper(); w.must(w.service.Round(w.Context())) }

func TestTokenIsObtained(t *testing.T) {
	w := newWorld(t)
	begun, err := w.service.Begin(t.Context(), w.account, "ada", 3)
	w.must(err)
	u, err := url.Parse(begun.URL)
	w.must(err)
	query := u.Query()
	if query.Get("code_challenge_method") != "S256" || len(query.Get("code_challenge")) != 43 || len(query.Get("state")) < 40 || query.Get("response_type") != "code" || strings.Contains(begun.URL, w.provider.ClientSecret) {
		t.Errorf("the address is %s", begun.URL)
	}
	name, err := w.service.Complete(t.Context(), w.account, "ada", callback, w.response("ada", 3))
	w.must(err)
	if got := w.token("ada", 3); name != "warehouse" || got.Status != usertoken.Active || !got.AccessExpiresAt.Equal(w.clock.Now().Add(time.Hour)) || got.RefreshExpiresAt.IsZero() {
		t.Errorf("%s: %+v", name, got)
	}
	c := w.credential("ada")
	if !w.provider.IsLive(c.AccessToken) || !strings.HasPrefix(c.AccessToken, "access-") || !c.AccessTokenExpiresAt.Equal(w.clock.Now().Add(time.Hour)) || c.Status != "active" {
		t.Errorf("the credential is %+v", c)
	}
	if other := w.credential("bob"); other.AccessToken != "" {
		t.Errorf("another person has %+v", other)
	}
	if all, err := w.service.Credentials(t.Context(), w.account, "ada", &v1alpha1.Deployment{}); len(all) != 0 || err != nil {
		t.Errorf("a deployment that names no integration has %v, %v", all, err)
	}
	w.noSecrets(c.AccessToken)
}

// noSecrets checks that tokens are neither in the database nor in the log.
func (w *world) noSecrets(secrets ...string) {
	w.Helper()
	rows, err := w.db.Reader().QueryContext(w.Context(), "SELECT sealed || last_error || key_id FROM user_oauth_token UNION ALL SELECT sealed || hash FROM user_oauth_flow")
	w.must(err)
	defer func() { _ = rows.Close() }()
	text := w.logs.String()
	for rows.Next() {
		var row string
		w.must(rows.Scan(&row))
		text += row
	}
	w.must(rows.Err())
	for _, secret := range append(secrets, "refresh-", "access-", w.provider.ClientSecret) {
		if strings.Contains(text, secret) {
			w.Errorf("%s is in %s", secret, text)
		}
	}
}

// rejects checks that a response is rejected with a message for the person, and that nothing is stored.
func (w *world) rejects(user, path string, response url.Values, part string) {
	w.Helper()
	before := w.rows()
	_, err := w.service.Complete(w.Context(), w.account, user, path, response)
	var rejected *content.Error
	if !errors.As(err, &rejected) || !strings.Contains(rejected.Message, part) {
		w.Errorf("got %v, want %q", err, part)
	}
	if w.rows() != before {
		w.Error("a token is stored")
	}
}

func TestResponsesAreRejected(t *testing.T) {
	w := newWorld(t)
	const again = "was not begun by you"
	w.rejects("ada", callback, url.Values{"state": {"forged"}, "code": {"x"}}, again)
	w.rejects("ada", callback, url.Values{"code": {"x"}}, again)
	used := w.response("ada", 3)
	_, err := w.service.Complete(t.Context(), w.account, "ada", callback, used)
	w.must(err)
	w.rejects("ada", callback, used, again)
	w.rejects("bob", callback, w.response("ada", 3), again)
	w.rejects("ada", callback+"/lake", w.response("ada", 3), "another provider")
	late := w.response("ada", 3)
	w.clock.Step(usertoken.FlowLifetime)
	w.rejects("ada", callback, late, again)
	denied := url.Values{"state": {w.response("ada", 3).Get("state")}, "error": {`access_denied<script>`}}
	w.rejects("ada", callback, denied, "access_deniedscript")
	// A code of another authorization: its verifier is another one.
	injected, other := w.response("ada", 3), w.response("bob", 3)
	injected.Set("code", other.Get("code"))
	w.rejects("ada", callback, injected, "invalid_grant")
	foreign := w.account.DeepCopy()
	foreign.UID, foreign.Name = "a2", "other"
	stolen := w.response("ada", 3)
	w.account, foreign = foreign, w.account
	w.rejects("ada", callback, stolen, again)
	w.account = foreign
	w.provider.Fail(func(*http.Request) (int, string) { return 503, "" })
	w.rejects("ada", callback, w.response("ada", 3), "the status of the response is 503")
	w.provider.Fail(nil)
	w.authorize("ada", 3)
	if _, err := w.service.Begin(t.Context(), w.account, "ada", 5); err == nil {
		t.Error("an integration that does not exist is authorized")
	}
}

func TestTokenIsRefreshedOnce(t *testing.T) {
	w := newWorld(t)
	w.authorize("ada", 3)
	before := w.credential("ada")
	w.round()
	if n := w.provider.Refreshes(); n != 0 {
		t.Errorf("%d refreshes of a new token", n)
	}
	w.clock.Step(56 * time.Minute)
	replicas := []*usertokens.Service{w.replica(), w.replica(), w.replica(), w.replica()}
	var group sync.WaitGroup
	for _, r := range replicas {
		group.Go(func() {
			if err := r.Round(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	after := w.credential("ada")
	if n := w.provider.Refreshes(); n != 1 || after.AccessToken == before.AccessToken || !w.provider.IsLive(after.AccessToken) || after.Status != "active" {
		t.Errorf("%d refreshes, the credential is %+v", n, after)
	}
	w.noSecrets(before.AccessToken, after.AccessToken)
}

// TestTokenIsRefreshedOnUse: the worker did not run.
func TestTokenIsRefreshedOnUse(t *testing.T) {
	w := newWorld(t)
	w.authorize("ada", 3)
	before := w.credential("ada")
	w.clock.Step(2 * time.Hour)
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			got, err := w.service.Credentials(t.Context(), w.account, "ada", named)
			if c := got["warehouse"]; err != nil || c.AccessToken == before.AccessToken || !w.provider.IsLive(c.AccessToken) {
				t.Errorf("the credential is %+v, %v", c, err)
			}
		})
	}
	group.Wait()
	if c := w.credential("ada"); w.provider.Refreshes() != 1 || c.AccessToken == before.AccessToken || !w.provider.IsLive(c.AccessToken) {
		t.Errorf("%d refreshes, the credential is %+v", w.provider.Refreshes(), c)
	}
}

func TestRefreshFails(t *testing.T) {
	w := newWorld(t)
	w.authorize("ada", 3)
	requests := 0
	w.provider.Fail(func(*http.Request) (int, string) { requests++; return 500, "" })
	w.clock.Step(56 * time.Minute)
	w.round()
	w.round()
	got := w.token("ada", 3)
	if got.Status != usertoken.Failing || got.LastError != "the status of the response is 500" || requests != 1 {
		t.Errorf("%d requests: %+v", requests, got)
	}
	if c := w.credential("ada"); c.AccessToken == "" || c.Status != "refresh_failed" { // it is valid for minutes
		t.Errorf("the credential is %+v", c)
	}
	var pauses []time.Duration
	for range 6 {
		began, before := w.clock.Now(), requests
		for requests == before && w.clock.Since(began) < time.Hour {
			w.clock.Step(5 * time.Second)
			w.round()
		}
		pauses = append(pauses, w.clock.Since(began))
	}
	if pauses[0] > 35*time.Second || pauses[5] < 4*time.Minute || pauses[5] > 35*time.Minute {
		t.Errorf("the pauses are %s", pauses)
	}
	if c := w.credential("ada"); c.AccessToken != "" || c.Status != "refresh_failed" {
		t.Errorf("an expired token is handed out: %+v", c)
	}
	w.provider.Fail(nil)
	w.clock.Step(time.Hour)
	w.round()
	if got := w.token("ada", 3); got.Status != usertoken.Active || got.LastError != "" || w.credential("ada").AccessToken == "" {
		t.Errorf("after the failure: %+v", got)
	}
}

func TestAuthorizationEnds(t *testing.T) {
	w := newWorld(t)
	w.authorize("ada", 3)
	w.provider.RevokeAll()
	w.clock.Step(56 * time.Minute)
	w.round()
	got := w.token("ada", 3)
	if got.Status != usertoken.Ended || got.LastError != "the provider has rejected the request: invalid_grant" {
		t.Errorf("%+v", got)
	}
	w.clock.Step(time.Hour)
	w.round()
	if c := w.credential("ada"); c.AccessToken != "" || c.Status != "authorization_required" {
		t.Errorf("the credential is %+v", c)
	}
	w.noSecrets()
	w.authorize("ada", 3)
	if got := w.token("ada", 3); got.Status != usertoken.Active || got.LastError != "" {
		t.Errorf("after another authorization: %+v", got)
	}
}

func TestTokenIsRevoked(t *testing.T) {
	w := newWorld(t)
	w.authorize("ada", 3)
	w.authorize("bob", 3)
	of := w.credential("bob")
	w.provider.Fail(func(*http.Request) (int, string) { return 503, "" })
	w.must(w.service.Revoke(t.Context(), w.account, "ada", 3))
	if err := w.service.Revoke(t.Context(), w.account, "ada", 3); err == nil {
		t.Error("a token is deleted twice")
	}
	w.round()
	if n := w.provider.Live(); n != 4 {
		t.Errorf("%d tokens are valid", n)
	}
	w.provider.Fail(nil)
	w.clock.Step(time.Minute)
	w.round()
	if n := w.provider.Live(); n != 2 || w.rows() != 1 || !w.provider.IsLive(of.AccessToken) {
		t.Errorf("%d tokens are valid at the provider, %d are stored", n, w.rows())
	}
	w.noSecrets(of.AccessToken)
}

// TestTokensStayWithTheirProvider: an integration whose endpoints are changed to another host sends it no tokens that were issued
// before.
func TestTokensStayWithTheirProvider(t *testing.T) {
	w := newWorld(t)
	w.authorize("ada", 3)
	w.authorize("bob", 3)
	other, requests := oauthprovider.New(), 0
	t.Cleanup(other.Close)
	other.Fail(func(*http.Request) (int, string) { requests++; return 500, "" })
	i := &v1alpha1.OAuthIntegration{}
	w.must(w.api.Get(t.Context(), client.ObjectKey{Namespace: "demo", Name: "warehouse"}, i))
	before := i.Spec
	i.Spec.RevocationURL = v1alpha1.HTTPSEndpoint(other.URL + "/revoke")
	w.must(w.api.Update(t.Context(), i))
	w.clock.Step(56 * time.Minute)
	w.round() // the tokens are refreshed, and still revoked where they were issued
	i.Spec.TokenURL = v1alpha1.HTTPSEndpoint(other.URL + "/token")
	w.must(w.api.Update(t.Context(), i))
	w.clock.Step(56 * time.Minute)
	w.round()
	if got := w.token("ada", 3); got.Status != usertoken.Failing || !strings.Contains(got.LastError, "another host") || w.credential("ada").AccessToken == "" {
		t.Errorf("%+v", got)
	}
	w.must(w.service.Revoke(t.Context(), w.account, "bob", 3))
	w.round()
	if requests > 0 || w.provider.Refreshes() != 2 || w.provider.Live() != 4 || w.rows() != 1 {
		t.Errorf("%d requests to another host, %d refreshes, %d tokens are valid, %d are stored", requests, w.provider.Refreshes(), w.provider.Live(), w.rows())
	}
	i.Spec = before
	w.must(w.api.Update(t.Context(), i))
	w.clock.Step(time.Hour)
	w.round()
	if got := w.token("ada", 3); got.Status != usertoken.Active || got.LastError != "" || w.provider.Refreshes() != 3 {
		t.Errorf("%d refreshes: %+v", w.provider.Refreshes(), got)
	}
}

func TestPeopleLeave(t *testing.T) {
	w := newWorld(t)
	w.authorize("ada", 3)
	w.authorize("ada", 4)
	w.authorize("bob", 3)
	w.must(w.service.Sweep(t.Context()))
	if w.rows() != 3 || w.credential("ada").AccessToken == "" {
		t.Fatalf("%d tokens are left", w.rows())
	}
	ada := &v1alpha1.ScimUser{}
	w.must(w.api.Get(t.Context(), client.ObjectKey{Namespace: "demo", Name: "ada"}, ada))
	ada.Spec.Active = ptr.To(false)
	w.must(w.api.Update(t.Context(), ada))
	if c := w.credential("ada"); c.AccessToken != "" {
		t.Errorf("a deactivated person has %+v", c)
	}
	w.must(w.service.Sweep(t.Context()))
	w.round()
	if n := w.provider.Live(); n != 2 || w.rows() != 1 {
		t.Errorf("%d tokens are valid at the provider, %d are stored", n, w.rows())
	}
	// Another person with the id of one who was deleted.
	w.must(w.api.Delete(t.Context(), &v1alpha1.ScimUser{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "bob"}}))
	w.must(w.api.Create(t.Context(), &v1alpha1.ScimUser{
		ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "bob", CreationTimestamp: metav1.NewTime(w.clock.Now().Add(time.Hour))}, Spec: v1alpha1.ScimUserSpec{UserName: "bob"},
	}))
	if c := w.credential("bob"); c.AccessToken != "" {
		t.Errorf("another person has %+v", c)
	}
	w.must(w.service.Sweep(t.Context()))
	w.round()
	if w.provider.Live() != 0 || w.rows() != 0 {
		t.Errorf("%d tokens are valid at the provider, %d are stored", w.provider.Live(), w.rows())
	}
}

// TestRunObservesLeavers: the worker deletes the tokens of a person who leaves at once.
func TestRunObservesLeavers(t *testing.T) {
	w := newWorld(t)
	w.authorize("ada", 3)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.service.Run(ctx) }()
	w.service.Left(client.ObjectKey{Namespace: "demo", Name: "ada"})
	deadline := time.Now().Add(time.Minute)
	for w.rows() > 0 && time.Now().Before(deadline) {
		time.Sleep(10 * time.Millisecond)
	}
	stop()
	w.must(<-ended)
	if w.rows() != 0 || w.provider.Live() != 0 {
		t.Errorf("%d tokens are stored, %d are valid", w.rows(), w.provider.Live())
	}
}

// deleteIntegration deletes the integration 3, and the Secret with the client's secret.
func (w *world) deleteIntegration() {
	w.Helper()
	name := metav1.ObjectMeta{Namespace: "demo", Name: "warehouse"}
	w.must(w.api.Delete(w.Context(), &v1alpha1.OAuthIntegration{ObjectMeta: name}))
	name.Name += "-client"
	w.must(w.api.Delete(w.Context(), &corev1.Secret{ObjectMeta: name}))
}

// TestIntegrationIsDeleted: its tokens are shown and handed out no more, and are revoked at the provider.
func TestIntegrationIsDeleted(t *testing.T) {
	w := newWorld(t)
	w.authorize("ada", 3)
	w.authorize("ada", 4)
	w.authorize("bob", 3)
	w.deleteIntegration()
	all, err := w.service.List(t.Context(), w.account, "ada")
	w.must(err)
	if len(all) != 1 || all[0].Integration != 4 || w.credential("ada").AccessToken != "" {
		t.Errorf("listed %+v", all)
	}
	if _, err := w.service.Find(t.Context(), w.account, "ada", 3); err == nil {
		t.Error("the token is shown")
	}
	w.must(w.service.Sweep(t.Context()))
	w.round()
	if w.rows() != 1 || w.provider.Live() != 2 {
		t.Errorf("%d tokens are stored, %d are valid", w.rows(), w.provider.Live())
	}
	w.noSecrets()
}

// TestRunObservesDeletedIntegrations: the worker revokes the tokens at once.
func TestRunObservesDeletedIntegrations(t *testing.T) {
	w := newWorld(t)
	w.authorize("ada", 3)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	w.deleteIntegration()
	go func() { ended <- w.service.Run(ctx) }()
	w.service.IntegrationDeleted()
	for deadline := time.Now().Add(time.Minute); w.rows() > 0 && time.Now().Before(deadline); {
		time.Sleep(10 * time.Millisecond)
	}
	stop()
	w.must(<-ended)
	if w.rows() != 0 || w.provider.Live() != 0 {
		t.Errorf("%d tokens are stored, %d are valid", w.rows(), w.provider.Live())
	}
}

// TestDueTokenOfADeletedIntegration: no sweep has run before the token is due.
func TestDueTokenOfADeletedIntegration(t *testing.T) {
	w := newWorld(t)
	w.authorize("ada", 3)
	w.deleteIntegration()
	w.clock.Step(56 * time.Minute)
	w.round()
	w.round()
	if w.rows() != 0 || w.provider.Live() != 0 || w.provider.Refreshes() != 0 {
		t.Errorf("%d tokens are stored, %d are valid, %d refreshes", w.rows(), w.provider.Live(), w.provider.Refreshes())
	}
}

// TestProviderOfADeletedIntegrationIsGone: the revocation is tried again, and given up after a day.
func TestProviderOfADeletedIntegrationIsGone(t *testing.T) {
	w := newWorld(t)
	w.authorize("ada", 3)
	w.authorize("bob", 3)
	w.deleteIntegration()
	requests := 0
	w.provider.Fail(func(*http.Request) (int, string) { requests++; return 503, "" })
	w.must(w.service.Sweep(t.Context()))
	began := w.clock.Now()
	for w.rows() > 0 && w.clock.Since(began) < 72*time.Hour {
		w.round()
		w.clock.Step(5 * time.Minute)
	}
	if took := w.clock.Since(began); w.rows() != 0 || took < 6*time.Hour || took > 48*time.Hour || requests > 200 {
		t.Errorf("%d tokens are stored after %s and %d requests", w.rows(), took, requests)
	}
	if n := strings.Count(w.logs.String(), "Cannot revoke an OAuth token at its provider"); n != 2 {
		t.Errorf("%d lines are logged: %s", n, w.logs.String())
	}
	w.noSecrets()
}

// TestIntegrationWithoutStatus: an integration of a backup has its number in the label, until the controller reconciles it. Its
// tokens stay.
func TestIntegrationWithoutStatus(t *testing.T) {
	w := newWorld(t)
	w.authorize("ada", 3)
	i := &v1alpha1.OAuthIntegration{}
	w.must(w.api.Get(t.Context(), client.ObjectKey{Namespace: "demo", Name: "warehouse"}, i))
	w.must(w.api.Delete(t.Context(), i))
	restored := i.DeepCopy()
	restored.ResourceVersion, restored.Labels, restored.Status = "", map[string]string{v1alpha1.LabelID: "3"}, v1alpha1.OAuthIntegrationStatus{}
	w.must(w.api.Create(t.Context(), restored))
	w.must(w.service.Sweep(t.Context()))
	w.clock.Step(56 * time.Minute)
	w.round()
	if w.rows() != 1 || w.provider.Live() != 2 {
		t.Errorf("%d tokens are stored, %d are valid", w.rows(), w.provider.Live())
	}
	restored.Status = i.Status
	w.must(w.api.Update(t.Context(), restored))
	w.clock.Step(2 * time.Minute)
	w.round()
	if got := w.token("ada", 3); got.Status != usertoken.Active || w.provider.Refreshes() != 1 {
		t.Errorf("%d refreshes: %+v", w.provider.Refreshes(), got)
	}
}

// TestSecretIsDeletedFirst: a person deletes the token of an integration whose Secret does not exist any more.
func TestSecretIsDeletedFirst(t *testing.T) {
	w := newWorld(t)
	w.authorize("ada", 3)
	w.must(w.api.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "warehouse-client"}}))
	w.must(w.service.Revoke(t.Context(), w.account, "ada", 3))
	w.round()
	if w.rows() != 0 || w.provider.Live() != 0 {
		t.Errorf("%d tokens are stored, %d are valid", w.rows(), w.provider.Live())
	}
}

// TestRefreshAfterDeletion: the person deletes the token while it is refreshed. The new token is revoked.
func TestRefreshAfterDeletion(t *testing.T) {
	w := newWorld(t)
	w.authorize("ada", 3)
	w.clock.Step(56 * time.Minute)
	once := sync.Once{}
	w.provider.Fail(func(r *http.Request) (int, string) {
		if r.PostFormValue("grant_type") == "refresh_token" {
			once.Do(func() { w.must(w.service.Revoke(context.Background(), w.account, "ada", 3)) })
		}
		return 0, ""
	})
	w.round()
	w.clock.Step(time.Minute)
	w.round()
	if n := w.provider.Live(); w.provider.Refreshes() != 1 || n > 1 || w.rows() != 0 {
		t.Errorf("%d refreshes, %d tokens are valid, %d are stored", w.provider.Refreshes(), n, w.rows())
	}
}

// TestRefreshAfterAnotherAuthorization: the person authorizes the integration again while the token is refreshed. Nothing is revoked:
// some providers revoke the whole authorization with one token.
func TestRefreshAfterAnotherAuthorization(t *testing.T) {
	w := newWorld(t)
	w.authorize("ada", 3)
	r, db := w.faultyReplica()
	once, revocations := sync.Once{}, 0
	w.provider.Fail(func(r *http.Request) (int, string) {
		switch {
		case r.URL.Path == "/revoke":
			revocations++
		case r.PostFormValue("grant_type") == "refresh_token":
			db.set(func() error {
				once.Do(func() { w.authorize("ada", 3) })
				return nil
			})
		}
		return 0, ""
	})
	w.clock.Step(56 * time.Minute)
	w.must(r.Round(t.Context()))
	if c := w.credential("ada"); w.provider.Refreshes() != 1 || revocations != 0 || !w.provider.IsLive(c.AccessToken) || c.Status != "active" {
		t.Errorf("%d refreshes, %d revocations, the credential is %+v", w.provider.Refreshes(), revocations, c)
	}
}

func TestLostKeysEndAuthorizations(t *testing.T) {
	w := newWorld(t)
	w.authorize("ada", 3)
	w.must(w.api.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: keyring.SecretName}}))
	w.must(w.api.Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: keyring.SecretName}, Data: map[string][]byte{"2": []byte(strings.Repeat("k", 32))},
	}))
	w.clock.Step(56 * time.Minute)
	w.round()
	if got := w.token("ada", 3); got.Status != usertoken.Ended || !strings.Contains(got.LastError, keyring.SecretName) {
		t.Errorf("%+v", got)
	}
}

func TestLifetimeIsNotTold(t *testing.T) {
	w := newWorld(t)
	w.provider.Lifetime(0)
	w.authorize("ada", 3)
	if got := w.token("ada", 3); !got.AccessExpiresAt.IsZero() {
		t.Errorf("%+v", got)
	}
	if c := w.credential("ada"); c.AccessToken == "" || c.AccessTokenExpiresAt != nil {
		t.Errorf("the credential is %+v", c)
	}
	w.clock.Step(46 * time.Minute)
	w.round()
	if w.provider.Refreshes() != 1 {
		t.Errorf("%d refreshes", w.provider.Refreshes())
	}
}

// FuzzResponse: whatever the parameters of a response are, only the response of the provider to the authorization that the
// person has begun gives a token.
func FuzzResponse(f *testing.F) {
	for _, seed := range []string{"", "state=&code=", "state=a&code=b", "error=access_denied", "state=%00&code=%ff", "state=a&state=b", "iss=https://evil.example", "code=" + strings.Repeat("a", 5000)} {
		f.Add(seed, callback)
	}
	f.Add("state=a", "/auth/integrations/callback/../../x")
	w := newWorld(f)
	begun, err := w.service.Begin(f.Context(), w.account, "bob", 3)
	w.must(err)
	u, err := url.Parse(begun.URL)
	w.must(err)
	f.Add("code=b&state="+u.Query().Get("state"), callback)
	f.Fuzz(func(t *testing.T, query, path string) {
		values, err := url.ParseQuery(query)
		if err != nil {
			return
		}
		_, err = w.service.Complete(t.Context(), w.account, "ada", path, values)
		var rejected *content.Error
		if !errors.As(err, &rejected) || slices.ContainsFunc([]rune(rejected.Message), func(r rune) bool { return r < ' ' || r == '<' }) {
			t.Errorf("%q: %v", query, err)
		}
		if n := contenttest.Count(t, w.db, "user_oauth_token"); n != 0 {
			t.Errorf("%q: %s", query, fmt.Sprint(n, " tokens are stored"))
		}
	})
}
