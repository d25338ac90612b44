package signin_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quoin-dev/quoin/test/internal/apiclient"
	"github.com/quoin-dev/quoin/test/internal/clustertest"
	"github.com/quoin-dev/quoin/test/internal/freeport"
)

const (
	verifier = "a-verifier-of-the-client-a-verifier-of-the-client"
	redirect = "http://127.0.0.1:4000/callback"
)

// killable is a process of `quoin apiserver`, a client and a browser.
type killable struct {
	*testing.T
	process      *clustertest.Process
	cli, browser *program
}

func startKillable(t *testing.T) *killable {
	t.Helper()
	if err := cluster.Build(); err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "idp.pem"), idp.CertificatePEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	address, err := freeport.Address()
	if err != nil {
		t.Fatal(err)
	}
	k := &killable{T: t, process: cluster.APIServer(filepath.Join(folder, "log"), address), cli: newProgram(t, nil)}
	k.process.Args = append(k.process.Args, "--namespace", clustertest.Namespace, "--database-url", "sqlite://"+filepath.Join(folder, "quoin.db"))
	k.process.Env = []string{"SSL_CERT_DIR=" + folder}
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	k.browser = newProgram(t, jar)
	own := transport.Clone()
	toServer := own.DialContext
	own.DialContext = func(ctx context.Context, network, target string) (net.Conn, error) {
		if strings.HasPrefix(idp.URL, "https://"+target) {
			return toServer(ctx, network, target)
		}
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
	t.Cleanup(own.CloseIdleConnections)
	k.cli.client.Transport, k.browser.client.Transport = own, own
	k.browser.client.CheckRedirect = func(r *http.Request, _ []*http.Request) error {
		if strings.HasPrefix(r.URL.String(), redirect) {
			return http.ErrUseLastResponse
		}
		return nil
	}
	t.Cleanup(k.process.Kill)
	k.start()
	return k
}

// start starts the process, and waits until its database is open.
func (k *killable) start() {
	k.Helper()
	if err := k.process.Start(); err != nil {
		k.Fatal(err)
	}
	apiclient.Soon(k.T, func() error {
		r, err := k.cli.client.PostForm(site+"/auth/oauth2/revoke", url.Values{"client_id": {"cube-cli"}, "token": {"x"}})
		if err != nil {
			return fmt.Errorf("%w\n%s", err, k.process.Log())
		}
		defer func() { _ = r.Body.Close() }()
		if r.StatusCode != http.StatusOK {
			return fmt.Errorf("%s\n%s", r.Status, k.process.Log())
		}
		return nil
	})
}

// kill sends SIGKILL, and starts the process again.
func (k *killable) kill() {
	k.Helper()
	k.process.Kill()
	k.start()
}

// code returns an authorization code that the person in the browser allows.
func (k *killable) code() string {
	k.Helper()
	sum := sha256.Sum256([]byte(verifier))
	page := k.browser.want(200, http.MethodGet, "/auth/oauth2/authorize?"+url.Values{
		"response_type": {"code"}, "client_id": {"cube-cli"}, "redirect_uri": {redirect}, "state": {"s"},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(sum[:])}, "code_challenge_method": {"S256"},
	}.Encode(), nil, "Allow access?")
	form := url.Values{"decision": {"allow"}}
	for _, match := range hidden.FindAllStringSubmatch(page.text, -1) {
		form.Set(match[1], match[2])
	}
	location, err := url.Parse(k.browser.want(303, http.MethodPost, "/auth/oauth2/authorize", form).header.Get("Location"))
	if err != nil || location.Query().Get("code") == "" {
		k.Fatalf("redirected to %s", location)
	}
	return location.Query().Get("code")
}

func (k *killable) exchange(status int, code string) response {
	k.Helper()
	return k.cli.want(status, http.MethodPost, "/auth/oauth2/token", url.Values{
		"grant_type": {"authorization_code"}, "client_id": {"cube-cli"}, "code": {code}, "redirect_uri": {redirect}, "code_verifier": {verifier},
	})
}

// me checks the status of a request with an access token.
func (k *killable) me(status int, tokens response) {
	k.Helper()
	k.cli.token = tokens.field("access_token")
	k.cli.want(status, http.MethodGet, "/api/v1/users/me", nil)
	k.cli.token = ""
}

// TestKilledProcess: a process that is killed between code, tokens and refresh has lost no session and no token after it is
// started again, and a code gives tokens once.
func TestKilledProcess(t *testing.T) {
	idp.Set(map[string]any{"sub": "u2", "email": "grace@example.com", "name": "Grace"})
	t.Cleanup(func() { idp.Set(map[string]any{"sub": "u1", "email": "ada@example.com", "name": "Ada"}) })
	k := startKillable(t)

	stolen := k.code()
	k.kill()
	tokens := k.exchange(200, stolen)
	k.kill()
	k.me(200, tokens)
	if again := k.exchange(400, stolen); again.field("error") != "invalid_grant" {
		t.Errorf("the code again: %s", again.text)
	}
	k.me(401, tokens)

	tokens = k.exchange(200, k.code())
	k.kill()
	refresh := url.Values{"grant_type": {"refresh_token"}, "client_id": {"cube-cli"}, "refresh_token": {tokens.field("refresh_token")}}
	refreshed := k.cli.want(200, http.MethodPost, "/auth/oauth2/refresh", refresh)
	k.kill()
	k.me(200, refreshed)

	k.browser.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	k.browser.want(200, http.MethodGet, "/auth/sessions", nil, "Your sessions", "Signed in as Grace")
}
