package signin_test

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/signin"
	"github.com/quoin-dev/quoin/apiserver/usertokens"
	"github.com/quoin-dev/quoin/internal/content/usertoken"
	"github.com/quoin-dev/quoin/internal/keyring"
	"github.com/quoin-dev/quoin/test/internal/oauthprovider"
)

// integrations is a world with an OAuth integration, and the person bob besides ada.
type integrations struct {
	*world
	provider *oauthprovider.Provider
	service  *usertokens.Service
}

const (
	callbackPath = "/auth/integrations/callback"
	warehouse    = 3
)

func newIntegrations(t *testing.T) *integrations {
	t.Helper()
	w := &integrations{world: newWorld(t), provider: oauthprovider.New()}
	t.Cleanup(w.provider.Close)
	w.people.users = append(w.people.users, &v1alpha1.ScimUser{ObjectMeta: metav1.ObjectMeta{Name: "bob", Namespace: "demo"}, Spec: v1alpha1.ScimUserSpec{UserName: "bob@example.com", Active: ptr.To(true)}})
	i, secret := oauthprovider.Integration("demo", "warehouse", w.provider.Endpoints())
	i.Status.ID = warehouse
	i.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue}}
	scheme := runtime.NewScheme()
	w.must(errors.Join(v1alpha1.AddToScheme(scheme), corev1.AddToScheme(scheme)))
	objects := []client.Object{w.account, i, secret}
	for _, u := range w.people.users {
		objects = append(objects, u.DeepCopy())
	}
	api := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
	w.service = usertokens.New(usertokens.Options{
		Store: &usertoken.Store{DB: w.db, Record: signin.RecordTx, Now: w.clock.Now}, Keys: &keyring.Keyring{Live: api, Now: w.clock.Now},
		Cache: api, Live: api, HTTP: w.provider.Client(), Clock: w.clock,
	})
	w.options.Integrations = w.service
	w.serve()
	return w
}

// begin returns the address that a person opens.
func (w *integrations) begin(user string) string {
	w.Helper()
	begun, err := w.service.Begin(w.Context(), w.account, user, warehouse)
	w.must(err)
	return begun.URL
}

// response returns the address to which the provider redirects the browser of a person.
func (w *integrations) response(user string) *url.URL {
	w.Helper()
	redirect, err := w.provider.Consent(w.begin(user))
	w.must(err)
	return redirect
}

// has checks the tokens that are stored.
func (w *integrations) has(users ...string) {
	w.Helper()
	for _, user := range users {
		if all, err := w.service.List(w.Context(), w.account, user); err != nil || len(all) != 1 {
			w.Errorf("%s has %d tokens, %v", user, len(all), err)
		}
	}
	if n := w.rows("user_oauth_token"); n != len(users) {
		w.Errorf("%d tokens are stored, want those of %v", n, users)
	}
}

// as returns a browser in which a person is signed in.
func (w *integrations) as(name string) *browser {
	w.Helper()
	w.idp.Set(map[string]any{"sub": name, "email": name + "@example.com", "name": "Ada"})
	return w.browser().signIn()
}

func TestIntegrationIsAuthorizedInABrowser(t *testing.T) {
	w := newIntegrations(t)
	b := w.as("ada")
	p := b.want(b.follow(w.begin("ada")), 200, "You have authorized warehouse")
	if policy := p.header.Get("Content-Security-Policy"); !strings.Contains(policy, "default-src 'none'") || p.header.Get("Cache-Control") != "no-store" || strings.Contains(p.text, "access-") {
		t.Errorf("the page is %s with %v", p, p.header)
	}
	w.has("ada")
	w.wantEvent("Authorized OAuth integration succeeded ada@example.com")
}

// TestPersonSignsInOnTheWay: the browser has no session when the provider redirects to the account.
func TestPersonSignsInOnTheWay(t *testing.T) {
	w := newIntegrations(t)
	w.idp.Set(map[string]any{"sub": "ada", "email": "ada@example.com"})
	b := w.browser()
	b.want(b.follow(w.begin("ada")), 200, "You have authorized warehouse")
	w.has("ada")
}

// TestAuthorizationOfAnother: an attacker begins an authorization and makes a victim open the address. The attacker gets no
// token of the victim, and the victim none of the attacker.
func TestAuthorizationOfAnother(t *testing.T) {
	w := newIntegrations(t)
	victim := w.as("ada")
	victim.want(victim.follow(w.begin("bob")), 400, "was not begun by you")
	victim.want(victim.get(w.response("bob").String()), 400, "was not begun by you")
	w.has()
	w.wantEvent("Failed to authorize OAuth integration failed ada@example.com")
	// The code of the attacker in the victim's own authorization: it was issued for another code challenge.
	own, stolen := w.response("ada"), w.response("bob").Query().Get("code")
	query := own.Query()
	query.Set("code", stolen)
	own.RawQuery = query.Encode()
	victim.want(victim.get(own.String()), 400, "invalid_grant")
	w.has()
	for _, e := range w.recorded() {
		if strings.Contains(e, stolen) || strings.Contains(e, query.Get("state")) {
			t.Errorf("the event has a secret: %s", e)
		}
	}
}

func TestForgedAndReplayedResponses(t *testing.T) {
	w := newIntegrations(t)
	b := w.as("ada")
	code := w.response("ada").Query().Get("code")
	state := w.response("ada").Query().Get("state")
	for name, c := range map[string]struct{ path, query string }{
		"no parameters":    {callbackPath, ""},
		"a forged state":   {callbackPath, "code=" + code + "&state=" + guess("")},
		"no state":         {callbackPath, "code=" + code},
		"no code":          {callbackPath, "state=" + state},
		"two states":       {callbackPath, "code=" + code + "&state=" + guess("") + "&state=" + state},
		"a markup in text": {callbackPath, "state=" + guess("") + "&error=%3Cscript%3E"},
		"an unknown path":  {callbackPath + "/other", "code=" + code + "&state=" + guess("")},
	} {
		p := b.get(c.path + "?" + c.query)
		if p.status != 400 || strings.Contains(p.text, "<script>") {
			t.Errorf("%s: %s", name, p)
		}
	}
	w.has()
	redirect := w.response("ada")
	b.want(b.get(redirect.String()), 200, "You have authorized")
	b.want(b.get(redirect.String()), 400, "was completed before")
	w.has("ada")
	if p := b.get(callbackPath + "/a/b"); p.status != http.StatusNotFound {
		t.Errorf("a longer path: %s", p)
	}
	if p := b.post(callbackPath, url.Values{"state": {state}}); p.status != http.StatusMethodNotAllowed {
		t.Errorf("POST: %s", p)
	}
}

// TestAuthorizationInAForeignAccount: the state of an account is unknown in another one.
func TestAuthorizationInAForeignAccount(t *testing.T) {
	w := newIntegrations(t)
	b := w.as("ada")
	redirect := w.response("ada")
	own := w.account
	w.account = own.DeepCopy()
	w.account.UID, w.account.Name = "a2", "other"
	w.serve()
	// The session is one of the other account, so the browser signs in there.
	b.want(b.follow(redirect.String()), 400, "was not begun by you")
	w.account = own
	w.has()
}

// TestReturnToTheCallback: a sign-in returns to the response of a provider, and to no other address.
func TestReturnToTheCallback(t *testing.T) {
	w := newIntegrations(t)
	b := w.browser()
	for _, target := range []string{"//evil.example/auth/integrations/callback", "https://evil.example/auth/integrations/callback", "/auth/integrations/callback/../../x", "/auth/integrations/callbackx"} {
		b.want(b.follow("/auth/login?"+url.Values{"return": {target}}.Encode()), 200, "Your sessions")
	}
}
