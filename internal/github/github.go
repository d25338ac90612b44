// Package github is a client of GitHub, or of a GitHub Enterprise Server, with the credentials of a
// GitHub App. It reads the installations of the App and their repositories, and issues tokens that
// read one repository.
//
// It does not decide which caller may use which installation.
package github

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/golang-jwt/jwt/v5"
	gh "github.com/google/go-github/v89/github"
)

// DefaultURL is the address of GitHub.
const DefaultURL = "https://github.com"

const (
	// requestTimeout limits each request.
	requestTimeout = 15 * time.Second
	// maxCABytes is the maximum size of the file with certificate authorities, which is copied into Secrets.
	maxCABytes = 256 << 10
	// maxResponseBytes is read of a response.
	maxResponseBytes = 8 << 20
	// jwtLifetime of the JWTs of the App: GitHub accepts up to ten minutes. They begin earlier, for clocks
	// that are behind.
	jwtLifetime, jwtSkew = 8 * time.Minute, time.Minute
	// tokenReserve is the remaining lifetime up to which a token is used for further requests.
	tokenReserve = 5 * time.Minute
)

// Options configure an App.
type Options struct {
	// AppID is the id of the GitHub App.
	AppID int64
	// Slug is the name of the App in URLs.
	Slug string
	// KeyFile has the private key of the App in PEM. It is read again for each JWT.
	KeyFile string
	// BaseURL of GitHub or of a GitHub Enterprise Server; DefaultURL when empty.
	BaseURL string
	// CAFile has certificate authorities of the server in PEM, in addition to those of the system; none when empty.
	// It is read when the App is created.
	CAFile string
	// Transport sends the requests; that of package http when nil.
	Transport http.RoundTripper
	// Now is the clock; time.Now when nil.
	Now func() time.Time
}

// App is a GitHub App. It is safe for concurrent use. Create it with New.
type App struct {
	o Options
	// web is the base URL without a trailing slash.
	web *url.URL
	// client authenticates as the App.
	client *gh.Client
	// ca has the certificate authorities of the server in PEM.
	ca []byte

	mu sync.Mutex
	// tokens list repositories and branches, by installation.
	tokens map[int64]Token
}

// Token is an access token of an installation. It formats as a placeholder.
type Token struct {
	value string
	// Expires is when GitHub no longer accepts the token.
	Expires time.Time
}

// Reveal returns the token.
func (t Token) Reveal() string { return t.value }

// String implements fmt.Stringer; it omits the token.
func (Token) String() string { return "github.Token{…}" }

// GoString implements fmt.GoStringer; it omits the token.
func (Token) GoString() string { return "github.Token{…}" }

// New returns an App. It returns an error if the key cannot be used.
func New(o Options) (*App, error) {
	if o.BaseURL == "" {
		o.BaseURL = DefaultURL
	}
	ca, err := readCA(o.CAFile)
	if err != nil {
		return nil, err
	}
	if o.Transport == nil {
		o.Transport = newTransport(ca)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	web, err := url.Parse(strings.TrimSuffix(o.BaseURL, "/"))
	if err != nil || web.Host == "" {
		return nil, errors.New("the URL of GitHub is not valid")
	}
	a := &App{o: o, web: web, ca: ca, tokens: map[int64]Token{}}
	if _, err := a.signedJWT(); err != nil {
		return nil, err
	}
	a.client, err = a.newClient(a.signedJWT)
	return a, err
}

// readCA returns the content of a file with certificates; nil if file is empty.
func readCA(file string) ([]byte, error) {
	if file == "" {
		return nil, nil
	}
	ca, err := os.ReadFile(file) //nolint:gosec // the file that the administrator names
	if err != nil {
		return nil, fmt.Errorf("read the certificate authorities of GitHub: %w", err)
	}
	if len(ca) > maxCABytes || !x509.NewCertPool().AppendCertsFromPEM(ca) {
		return nil, fmt.Errorf("%q has no certificates in PEM, or more than %d bytes", file, maxCABytes)
	}
	return ca, nil
}

// newTransport returns a transport that trusts further certificate authorities.
func newTransport(ca []byte) http.RoundTripper {
	base, ok := http.DefaultTransport.(*http.Transport)
	if len(ca) == 0 || !ok {
		return http.DefaultTransport
	}
	roots, err := x509.SystemCertPool()
	if err != nil { // there are none
		roots = x509.NewCertPool()
	}
	roots.AppendCertsFromPEM(ca)
	trusting := base.Clone()
	trusting.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	return trusting
}

// CA returns the certificate authorities of the server in PEM; nil for those of the system. Git servers are on the
// same host.
func (a *App) CA() []byte { return a.ca }

// apiURL returns the base URL of the REST API.
func (a *App) apiURL() string {
	if a.web.String() == DefaultURL {
		return "https://api.github.com/"
	}
	return a.web.String() + "/api/v3/"
}

// signedJWT returns a JWT that authenticates the App.
func (a *App) signedJWT() (string, error) {
	pem, err := os.ReadFile(a.o.KeyFile)
	if err != nil {
		return "", fmt.Errorf("read the key of the GitHub App: %w", err)
	}
	key, err := jwt.ParseRSAPrivateKeyFromPEM(pem)
	if err != nil {
		return "", fmt.Errorf("the key of the GitHub App in %q is not an RSA private key in PEM", a.o.KeyFile)
	}
	now := a.o.Now()
	return jwt.NewWithClaims(jwt.SigningMethodRS256, jwt.RegisteredClaims{
		Issuer: strconv.FormatInt(a.o.AppID, 10), IssuedAt: jwt.NewNumericDate(now.Add(-jwtSkew)), ExpiresAt: jwt.NewNumericDate(now.Add(jwtLifetime)),
	}).SignedString(key)
}

// newClient returns a client that authenticates with what credential returns.
func (a *App) newClient(credential func() (string, error)) (*gh.Client, error) {
	api := a.apiURL()
	client := &http.Client{
		Transport: &transport{next: a.o.Transport, credential: credential},
		Timeout:   requestTimeout,
		CheckRedirect: func(r *http.Request, via []*http.Request) error {
			// The transport would send the credential to any host.
			if len(via) > 3 || r.URL.Scheme != via[0].URL.Scheme || r.URL.Host != via[0].URL.Host {
				return http.ErrUseLastResponse
			}
			return nil
		},
	}
	return gh.NewClient(gh.WithHTTPClient(client), gh.WithURLs(&api, &api), gh.WithUserAgent("quoin-apiserver"))
}

// transport authenticates requests and limits responses.
type transport struct {
	next       http.RoundTripper
	credential func() (string, error)
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	credential, err := t.credential()
	if err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+credential)
	response, err := t.next.RoundTrip(r)
	if err == nil {
		response.Body = http.MaxBytesReader(nil, response.Body, maxResponseBytes)
	}
	return response, err
}

// LinkURL returns the page on which a user installs the App.
func (a *App) LinkURL() string {
	return a.web.JoinPath("apps", a.o.Slug, "installations", "new").String()
}

// SettingsURL returns the page with the installations of the user.
func (a *App) SettingsURL() string { return a.web.JoinPath("settings", "installations").String() }

// CloneURL returns the URL from which Git fetches a repository.
func (a *App) CloneURL(owner, repository string) string {
	return a.web.JoinPath(owner, repository+".git").String()
}

var validName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,100}$`)

// ValidName reports whether a name can be that of an owner or a repository: it is part of paths.
func ValidName(name string) bool { return validName.MatchString(name) && name != "." && name != ".." }

// RepositoryOf returns the name of the repository with a clone URL; false if it is not one of this
// GitHub.
func (a *App) RepositoryOf(cloneURL string) (owner, name string, ok bool) {
	path, ok := strings.CutPrefix(cloneURL, a.web.String()+"/")
	if !ok {
		return "", "", false
	}
	owner, name, ok = strings.Cut(strings.TrimSuffix(path, ".git"), "/")
	return owner, name, ok && ValidName(owner) && ValidName(name)
}

// ReadToken returns a new token that reads one repository, by name, and nothing else. GitHub issues
// tokens with a lifetime of one hour.
func (a *App) ReadToken(ctx context.Context, installation int64, repository string) (Token, error) {
	return a.newToken(ctx, installation, &gh.InstallationTokenOptions{
		Repositories: []string{repository},
		Permissions:  &gh.InstallationPermissions{Contents: gh.Ptr("read"), Metadata: gh.Ptr("read")},
	})
}

// WriteToken returns a new token that reads and writes the contents of one repository, by name.
func (a *App) WriteToken(ctx context.Context, installation int64, repository string) (Token, error) {
	return a.newToken(ctx, installation, &gh.InstallationTokenOptions{
		Repositories: []string{repository},
		Permissions:  &gh.InstallationPermissions{Contents: gh.Ptr("write"), Metadata: gh.Ptr("read")},
	})
}

func (a *App) newToken(ctx context.Context, installation int64, o *gh.InstallationTokenOptions) (Token, error) {
	issued, _, err := a.client.Apps.CreateInstallationToken(ctx, installation, o)
	if err != nil {
		return Token{}, failure(fmt.Sprintf("installation %d", installation), err)
	}
	if issued.GetToken() == "" || issued.GetExpiresAt().IsZero() {
		return Token{}, &Error{Reason: Unavailable, Message: "GitHub returned no token"}
	}
	return Token{issued.GetToken(), issued.GetExpiresAt().Time}, nil
}

// as returns a client that reads as an installation. Its token is used for several requests.
func (a *App) as(ctx context.Context, installation int64) (*gh.Client, error) {
	a.mu.Lock()
	token, ok := a.tokens[installation]
	a.mu.Unlock()
	if !ok || token.Expires.Sub(a.o.Now()) < tokenReserve {
		var err error
		token, err = a.newToken(ctx, installation, &gh.InstallationTokenOptions{
			Permissions: &gh.InstallationPermissions{Contents: gh.Ptr("read"), Metadata: gh.Ptr("read")},
		})
		if err != nil {
			return nil, err
		}
		a.keep(installation, token)
	}
	return a.newClient(func() (string, error) { return token.value, nil })
}

// keep keeps the token of an installation, and removes those that have expired.
func (a *App) keep(installation int64, token Token) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for id, t := range a.tokens {
		if t.Expires.Before(a.o.Now()) {
			delete(a.tokens, id)
		}
	}
	a.tokens[installation] = token
}
