package signin

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/auth"
	"github.com/quoin-dev/quoin/internal/content/oauth"
	"github.com/quoin-dev/quoin/internal/store"
)

// failing is everybody while err is nil.
type failing struct {
	everybody
	err error
}

func (f *failing) Person(ctx context.Context, account *v1alpha1.Account, issuer string, c auth.Claims) (*auth.Principal, error) {
	if f.err != nil {
		return nil, f.err
	}
	return f.everybody.Person(ctx, account, issuer, c)
}

const verifier, redirect = "vvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvv", "http://127.0.0.1/"

// exchange sends a code or token to the token endpoint, and checks the status of the answer.
func exchange(t *testing.T, server *Server, grant, parameter, secret string, want int) {
	t.Helper()
	account := &v1alpha1.Account{ObjectMeta: metav1.ObjectMeta{Name: "demo", UID: "a1"}, Spec: v1alpha1.AccountSpec{Host: "demo.example.com"}}
	form := url.Values{"client_id": {"cube-cli"}, "grant_type": {grant}, parameter: {secret}, "redirect_uri": {redirect}, "code_verifier": {verifier}}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, fuzzSite+tokenPath, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	server.ServeHTTP(w, r, account)
	if w.Code != want {
		t.Errorf("%d %s, want %d", w.Code, w.Body, want)
	}
}

// TestNothingIsUsedUpInAnOutage: a client that gets a 503, because Kubernetes does not answer whether the person is active, exchanges
// the same code or token after the outage.
func TestNothingIsUsedUpInAnOutage(t *testing.T) {
	sum := sha256.Sum256([]byte(verifier))
	ada := oauth.Person{Issuer: fuzzIssuer, Subject: "u1"}
	of := store.Account{UID: "a1", Name: "demo"}
	code := func(s *oauth.Store) (string, error) {
		return s.IssueCode(t.Context(), of, oauth.Code{
			ClientID: "cube-cli", RedirectURI: redirect, Challenge: base64.RawURLEncoding.EncodeToString(sum[:]), Person: ada,
		})
	}
	for name, c := range map[string]struct {
		grant, parameter string
		outage           time.Duration
		secret           func(s *oauth.Store) (string, error)
	}{
		"a code": {codeGrant, "code", 10 * time.Second, code},
		"a refresh token": {refreshGrant, "refresh_token", oauth.RetryWindow + time.Minute, func(s *oauth.Store) (string, error) {
			text, err := code(s)
			if err != nil {
				return "", err
			}
			tokens, err := s.Redeem(t.Context(), of, oauth.Redemption{Code: text, ClientID: "cube-cli", RedirectURI: redirect, Verifier: verifier})
			if err != nil {
				return "", err
			}
			return tokens.Refresh, nil
		}},
		"a device code": {deviceGrant, "device_code", time.Minute, func(s *oauth.Store) (string, error) {
			d, err := s.StartDevice(t.Context(), of, "cube-cli", "")
			if err != nil {
				return "", err
			}
			return d.Code, s.DecideDevice(t.Context(), of, d.UserCode, true, ada)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			db, err := store.Open(t.Context(), "sqlite://"+filepath.Join(t.TempDir(), "quoin.db"), nil, oauth.Owner)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = db.Close() }()
			clk, people := clocktesting.NewFakeClock(time.Now()), &failing{}
			sessions := &oauth.Store{DB: db, Record: RecordTx, Now: clk.Now}
			server := New(Options{Store: sessions, People: people, Clock: clk})
			secret, err := c.secret(sessions)
			if err != nil {
				t.Fatal(err)
			}
			people.err = errors.New("the Kubernetes API server does not answer")
			exchange(t, server, c.grant, c.parameter, secret, http.StatusServiceUnavailable)
			clk.Step(c.outage)
			people.err = nil
			exchange(t, server, c.grant, c.parameter, secret, http.StatusOK)
			people.err = auth.Invalid("the user is not active")
			exchange(t, server, c.grant, c.parameter, secret, http.StatusBadRequest)
		})
	}
}
