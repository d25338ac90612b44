// Package githubserver is a GitHub Enterprise Server for tests: the routes that Quoin uses, over real
// HTTP, with the checks of GitHub. It verifies the JWTs of the App, and issues tokens with the
// repositories and permissions that were requested.
package githubserver

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/quoin-dev/quoin/internal/github"
)

// AppID is the id of the App.
const AppID = 4711

// Installation is an installation of the App.
type Installation struct {
	Login     string
	Suspended bool
	// NoHooks denies the App the permission to manage push hooks, NoAdministration that to create repositories.
	NoHooks, NoAdministration bool
	// Repositories by name.
	Repositories map[string]*Repository
}

// Repository is a repository of an installation.
type Repository struct {
	ID       int64
	Private  bool
	Branches []string // the first one is the default
	Hooks    []Hook
	// Files are the contents of the files that were created over REST, by path.
	Files map[string]string
}

// Hook is a push hook.
type Hook struct {
	ID     int64    `json:"id"`
	Events []string `json:"events"`
	Active bool     `json:"active"`
	Config struct {
		URL         string `json:"url"`
		Secret      string `json:"secret,omitempty"`
		ContentType string `json:"content_type"`
	} `json:"config"`
}

// grant is what a token permits.
type grant struct {
	installation *Installation
	repositories []string // nil for all
	permissions  map[string]string
	expires      time.Time
}

// Server is the host. Change its fields under Lock.
type Server struct {
	sync.Mutex
	URL string
	// CA is the certificate of a server with HTTPS, in PEM.
	CA []byte
	// Options are those of the App.
	Options github.Options
	// Installations by id.
	Installations map[int64]*Installation
	// Git serves /<owner>/<repository>.git to callers with a token.
	Git http.Handler
	// Fail responds to requests instead of the server, if it returns true.
	Fail func(w http.ResponseWriter, r *http.Request) bool
	// Tokens are all tokens that have been issued, in order.
	Tokens []string
	// Lifetime of tokens.
	Lifetime time.Duration
	// Requests are the methods and paths of all requests.
	Requests []string

	// hooks and created are the numbers of hooks and repositories that have been created.
	hooks, created int64

	key    *rsa.PublicKey
	grants map[string]grant
	close  func()
}

// New starts a server. folder is for the key of the App.
func New(folder string) (*Server, error) { return newServer(folder, httptest.NewServer) }

// NewTLS is New for a server with HTTPS, whose certificate only CA verifies.
func NewTLS(folder string) (*Server, error) { return newServer(folder, httptest.NewTLSServer) }

func newServer(folder string, start func(http.Handler) *httptest.Server) (*Server, error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(folder, "github-app.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return nil, err
	}
	s := &Server{key: &key.PublicKey, grants: map[string]grant{}, Installations: map[int64]*Installation{}, Lifetime: time.Hour}
	server := start(http.HandlerFunc(s.serve))
	s.URL, s.close = server.URL, server.Close
	if certificate := server.Certificate(); certificate != nil {
		s.CA = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Raw})
	}
	s.Options = github.Options{AppID: AppID, Slug: "quoin-test", KeyFile: file, BaseURL: s.URL}
	return s, nil
}

// Close stops the server.
func (s *Server) Close() { s.close() }

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	s.Lock()
	s.Requests = append(s.Requests, r.Method+" "+r.URL.Path)
	fail := s.Fail
	s.Unlock()
	if fail != nil && fail(w, r) {
		return
	}
	path, isAPI := strings.CutPrefix(r.URL.Path, "/api/v3/")
	if !isAPI {
		s.serveGit(w, r)
		return
	}
	s.Lock()
	defer s.Unlock()
	if rest, ok := strings.CutPrefix(path, "app/installations/"); ok {
		s.serveApp(w, r, rest)
		return
	}
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	g, ok := s.grants[token]
	switch parts := strings.SplitN(path, "/", 4); {
	case !ok || time.Now().After(g.expires):
		problem(w, http.StatusUnauthorized, "Bad credentials")
	case path == "installation/repositories":
		s.listRepositories(w, r, g)
	case path == "orgs/"+g.installation.Login+"/repos" && r.Method == http.MethodPost:
		s.createRepository(w, r, g)
	case len(parts) >= 3 && parts[0] == "repos":
		s.serveRepository(w, r, g, parts[1], parts[2], strings.Join(parts[3:], "/"))
	default:
		problem(w, http.StatusNotFound, "Not Found")
	}
}

// serveApp serves the routes for which the App authenticates with a JWT.
func (s *Server) serveApp(w http.ResponseWriter, r *http.Request, path string) {
	raw, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	claims := &jwt.RegisteredClaims{}
	_, err := jwt.ParseWithClaims(raw, claims, func(*jwt.Token) (any, error) { return s.key, nil },
		jwt.WithValidMethods([]string{"RS256"}), jwt.WithIssuer(strconv.Itoa(AppID)), jwt.WithExpirationRequired(), jwt.WithIssuedAt())
	if err != nil || claims.ExpiresAt.Sub(claims.IssuedAt.Time) > 10*time.Minute {
		problem(w, http.StatusUnauthorized, "A JSON web token could not be decoded")
		return
	}
	number, action, _ := strings.Cut(path, "/")
	id, _ := strconv.ParseInt(number, 10, 64)
	installation := s.Installations[id]
	switch {
	case installation == nil:
		problem(w, http.StatusNotFound, "Not Found")
	case action == "" && r.Method == http.MethodGet:
		body := map[string]any{
			"id": id, "html_url": s.URL + "/settings/installations/" + number,
			"account": map[string]any{"id": 1000 + id, "login": installation.Login, "avatar_url": s.URL + "/avatar/" + number, "type": "Organization"},
		}
		if installation.Suspended {
			body["suspended_at"] = "2026-11-22T12:00:00Z"
		}
		respond(w, http.StatusOK, body)
	case action == "access_tokens" && r.Method == http.MethodPost:
		s.issue(w, r, installation)
	default:
		problem(w, http.StatusNotFound, "Not Found")
	}
}

// issue issues a token with what is requested, which must be part of the installation.
func (s *Server) issue(w http.ResponseWriter, r *http.Request, installation *Installation) {
	var body struct {
		Repositories []string          `json:"repositories"`
		Permissions  map[string]string `json:"permissions"`
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		problem(w, http.StatusBadRequest, "Problems parsing JSON")
		return
	}
	if installation.Suspended {
		problem(w, http.StatusForbidden, "This installation has been suspended")
		return
	}
	for _, name := range body.Repositories {
		if installation.Repositories[name] == nil {
			problem(w, http.StatusUnprocessableEntity, "There is at least one repository that does not exist or is not accessible")
			return
		}
	}
	if body.Permissions["repository_hooks"] != "" && installation.NoHooks || body.Permissions["administration"] != "" && installation.NoAdministration {
		problem(w, http.StatusUnprocessableEntity, "The permissions requested are not granted to this installation.")
		return
	}
	random := make([]byte, 16)
	_, _ = rand.Read(random)
	token := "ghs_" + hex.EncodeToString(random)
	expires := time.Now().Add(s.Lifetime).Truncate(time.Second)
	s.grants[token] = grant{installation, body.Repositories, body.Permissions, expires}
	s.Tokens = append(s.Tokens, token)
	respond(w, http.StatusCreated, map[string]any{"token": token, "expires_at": expires.UTC().Format(time.RFC3339)})
}

// Revoke makes all tokens invalid.
func (s *Server) Revoke() {
	s.Lock()
	defer s.Unlock()
	s.grants = map[string]grant{}
}

// reaches returns a repository that a token may use.
func (s *Server) reaches(g grant, owner, name string) *Repository {
	if !strings.EqualFold(owner, g.installation.Login) || g.repositories != nil && !slices.Contains(g.repositories, name) {
		return nil
	}
	return g.installation.Repositories[name]
}

func (s *Server) listRepositories(w http.ResponseWriter, r *http.Request, g grant) {
	var all []map[string]any
	for name := range g.installation.Repositories {
		all = append(all, s.repositoryOf(g, name))
	}
	slices.SortFunc(all, func(a, b map[string]any) int { return strings.Compare(fmt.Sprint(a["name"]), fmt.Sprint(b["name"])) })
	respond(w, http.StatusOK, map[string]any{"total_count": len(all), "repositories": page(r, all)})
}

func (s *Server) repositoryOf(g grant, name string) map[string]any {
	found := g.installation.Repositories[name]
	return map[string]any{
		"id": found.ID, "name": name, "owner": map[string]any{"login": g.installation.Login},
		"html_url": s.URL + "/" + g.installation.Login + "/" + name, "default_branch": found.Branches[0],
	}
}

// createRepository creates an empty repository in the organization of an installation.
func (s *Server) createRepository(w http.ResponseWriter, r *http.Request, g grant) {
	var body struct {
		Name    string `json:"name"`
		Private bool   `json:"private"`
	}
	switch err := json.NewDecoder(r.Body).Decode(&body); {
	case err != nil:
		problem(w, http.StatusBadRequest, "Problems parsing JSON")
	case g.permissions["administration"] != "write":
		problem(w, http.StatusForbidden, "Resource not accessible by integration")
	case g.installation.Repositories[body.Name] != nil:
		respond(w, http.StatusUnprocessableEntity, map[string]any{
			"message": "Repository creation failed.",
			"errors":  []any{map[string]any{"resource": "Repository", "code": "custom", "field": "name", "message": "name already exists on this account"}},
		})
	default:
		s.created++
		g.installation.Repositories[body.Name] = &Repository{ID: 1_000_000 + s.created, Private: body.Private, Branches: []string{"main"}, Files: map[string]string{}}
		respond(w, http.StatusCreated, s.repositoryOf(g, body.Name))
	}
}

// createFile creates a file on the default branch.
func (s *Server) createFile(w http.ResponseWriter, r *http.Request, found *Repository, path string) {
	var body struct {
		Content   []byte `json:"content"`
		Message   string `json:"message"`
		Committer struct {
			Name, Email string
		} `json:"committer"`
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil || body.Message == "" || body.Committer.Name == "" || body.Committer.Email == "" {
		problem(w, http.StatusUnprocessableEntity, "Invalid request")
		return
	}
	found.Files[path] = string(body.Content)
	respond(w, http.StatusCreated, map[string]any{"content": map[string]any{"path": path}})
}

// serveRepository serves the routes of a repository.
func (s *Server) serveRepository(w http.ResponseWriter, r *http.Request, g grant, owner, name, path string) {
	found := s.reaches(g, owner, name)
	branch, isRef := strings.CutPrefix(path, "git/ref/heads/")
	file, isFile := strings.CutPrefix(path, "contents/")
	switch {
	case found == nil:
		problem(w, http.StatusNotFound, "Not Found")
	case path == "":
		respond(w, http.StatusOK, s.repositoryOf(g, name))
	case strings.HasPrefix(path, "hooks"):
		s.serveHooks(w, r, g, found, strings.TrimPrefix(path, "hooks/"))
	case g.permissions["contents"] == "":
		problem(w, http.StatusForbidden, "Resource not accessible by integration")
	case isFile && r.Method == http.MethodPut && g.permissions["contents"] == "write":
		s.createFile(w, r, found, file)
	case path == "branches":
		var all []map[string]any
		for _, b := range found.Branches {
			all = append(all, map[string]any{"name": b})
		}
		respond(w, http.StatusOK, page(r, all))
	case isRef && slices.Contains(found.Branches, branch):
		respond(w, http.StatusOK, map[string]any{"ref": "refs/heads/" + branch})
	default:
		problem(w, http.StatusNotFound, "Not Found")
	}
}

func (s *Server) serveHooks(w http.ResponseWriter, r *http.Request, g grant, found *Repository, id string) {
	if g.permissions["repository_hooks"] != "write" {
		problem(w, http.StatusForbidden, "Resource not accessible by integration")
		return
	}
	if r.Method == http.MethodGet {
		listed := slices.Clone(found.Hooks)
		for i := range listed {
			listed[i].Config.Secret = "********"
		}
		respond(w, http.StatusOK, listed)
		return
	}
	if r.Method == http.MethodDelete {
		before := len(found.Hooks)
		found.Hooks = slices.DeleteFunc(found.Hooks, func(h Hook) bool { return strconv.FormatInt(h.ID, 10) == id })
		if len(found.Hooks) == before {
			problem(w, http.StatusNotFound, "Not Found")
			return
		}
		w.WriteHeader(http.StatusNoContent)
		return
	}
	var hook Hook
	if err := json.NewDecoder(r.Body).Decode(&hook); err != nil {
		problem(w, http.StatusBadRequest, "Problems parsing JSON")
		return
	}
	s.hooks++
	hook.ID = s.hooks
	if r.Method == http.MethodPost {
		found.Hooks = append(found.Hooks, hook)
		respond(w, http.StatusCreated, hook)
		return
	}
	for i := range found.Hooks {
		if strconv.FormatInt(found.Hooks[i].ID, 10) == id {
			hook.ID = found.Hooks[i].ID
			found.Hooks[i] = hook
			respond(w, http.StatusOK, hook)
			return
		}
	}
	problem(w, http.StatusNotFound, "Not Found")
}

// serveGit serves a repository over Git's smart HTTP protocol to callers with a token that reads it.
func (s *Server) serveGit(w http.ResponseWriter, r *http.Request) {
	_, token, _ := r.BasicAuth()
	owner, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	name, _, _ := strings.Cut(rest, ".git")
	s.Lock()
	g, ok := s.grants[token]
	permitted := ok && time.Now().Before(g.expires) && s.reaches(g, owner, name) != nil && g.permissions["contents"] != ""
	s.Unlock()
	if !permitted || s.Git == nil {
		w.Header().Set("WWW-Authenticate", `Basic realm="GitHub"`)
		problem(w, http.StatusUnauthorized, "Bad credentials")
		return
	}
	http.StripPrefix("/"+owner, s.Git).ServeHTTP(w, r)
}

// page returns the items of the requested page.
func page(r *http.Request, all []map[string]any) []map[string]any {
	number, _ := strconv.Atoi(r.URL.Query().Get("page"))
	size, _ := strconv.Atoi(r.URL.Query().Get("per_page"))
	if size < 1 || size > 100 {
		size = 30
	}
	from := min(max(0, number-1)*size, len(all))
	return append([]map[string]any{}, all[from:min(from+size, len(all))]...)
}

func respond(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

func problem(w http.ResponseWriter, status int, message string) {
	respond(w, status, map[string]any{"message": message, "documentation_url": "https://docs.github.com/rest"})
}
