package git

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestRefsReflectBranchChanges(t *testing.T) {
	r, url, creds := httpsFixture(t)
	client := New(Options{})
	check := func(step, wantDefault string, want ...Ref) {
		t.Helper()
		got, branch, err := client.Refs(t.Context(), url, creds)
		if err != nil {
			t.Fatalf("%s: %v", step, err)
		}
		if diff := cmp.Diff(append([]Ref{}, want...), got); diff != "" {
			t.Errorf("%s: %s", step, diff)
		}
		if branch != wantDefault {
			t.Errorf("%s: default branch %q, want %q", step, branch, wantDefault)
		}
	}
	check("empty", "")
	first := r.commit("main", r.tree(r.file("a.yml", "1")))
	r.git("tag", "v1", first)
	check("first commit", "main", Ref{"main", first})
	r.git("update-ref", "refs/heads/feature/x", first)
	check("created", "main", Ref{"feature/x", first}, Ref{"main", first})
	second := r.commit("feature/x", r.tree(r.file("a.yml", "2")), first)
	check("moved", "main", Ref{"feature/x", second}, Ref{"main", first})
	r.git("symbolic-ref", "HEAD", "refs/heads/feature/x")
	check("default changed", "feature/x", Ref{"feature/x", second}, Ref{"main", first})
	r.git("update-ref", "-d", "refs/heads/main")
	check("deleted", "feature/x", Ref{"feature/x", second})
	r.git("symbolic-ref", "HEAD", "refs/heads/gone")
	check("default deleted", "", Ref{"feature/x", second})
}

func TestRefsFailures(t *testing.T) {
	r, url, creds := httpsFixture(t)
	r.commit("main", r.tree(r.file("a.yml", "1")))
	host := strings.TrimSuffix(strings.TrimPrefix(url, "https://"), "/model.git")
	closed := closedPort(t)
	tests := map[string]struct {
		url   string
		creds Credentials
		is    []error
		text  string
	}{
		"wrong password": {
			url, withPassword(creds, "wrong"), []error{ErrUnauthorized},
			"repository " + url + ": unauthorized",
		},
		"anonymous": {
			url, Credentials{roots: creds.roots}, []error{ErrUnauthorized},
			"repository " + url + ": unauthorized",
		},
		"missing repository": {
			"https://" + host + "/gone.git", creds, []error{ErrNotFound, ErrRepositoryNotFound},
			"repository https://" + host + "/gone.git: repository not found",
		},
		"unknown CA": {
			url, Credentials{http: creds.http}, []error{ErrUnreachable, ErrUntrusted},
			"repository " + url + ": certificate signed by unknown authority",
		},
		"wrong host": {
			strings.Replace(url, "127.0.0.1", "localhost", 1), creds, []error{ErrUnreachable, ErrUntrusted},
			"repository " + strings.Replace(url, "127.0.0.1", "localhost", 1) + ": certificate is not valid for this host",
		},
		"refused": {
			"https://" + closed + "/a.git", creds, []error{ErrUnreachable},
			"repository https://" + closed + "/a.git: connection refused",
		},
		"URL": {
			"http://" + host + "/a.git", creds, []error{ErrInvalidURL},
			"invalid repository URL: want https://host/path or ssh://user@host/path",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, _, err := New(Options{}).Refs(t.Context(), tt.url, tt.creds)
			for _, kind := range tt.is {
				if !errors.Is(err, kind) {
					t.Errorf("error %v, want %v", err, kind)
				}
			}
			if err == nil || err.Error() != tt.text {
				t.Errorf("error %q, want %q", err, tt.text)
			}
		})
	}
}

func withPassword(c Credentials, password string) Credentials {
	wrong, err := ParseCredentials("https://x/y", map[string][]byte{KeyUsername: []byte(testUser), KeyPassword: []byte(password)})
	if err != nil {
		panic(err)
	}
	wrong.roots = c.roots
	return wrong
}

func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// testRefsResponse reads the refs of a server and checks the error.
func testRefsResponse(t *testing.T, handler http.HandlerFunc, kind error, reason string) {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	_, _, err := New(Options{AllowInsecure: true}).Refs(t.Context(), server.URL+"/a.git", Credentials{})
	if !errors.Is(err, kind) {
		t.Errorf("error %v, want %v", err, kind)
	}
	if want := "repository " + server.URL + "/a.git: " + reason; err == nil || err.Error() != want {
		t.Errorf("error %q, want %q", err, want)
	}
}

func TestRefsUnexpectedResponses(t *testing.T) {
	tests := map[string]struct {
		handler http.HandlerFunc
		is      error
		reason  string
	}{
		"HTML": {
			func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<html>hunter2</html>") },
			ErrUnexpectedResponse, "not the response of a Git server with SHA-1 objects",
		},
		"500": {
			func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "hunter2", http.StatusInternalServerError) },
			ErrUnreachable, "unexpected status 500",
		},
		"429": {
			func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) },
			ErrUnreachable, "unexpected status 429",
		},
		"403": {
			func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "hunter2", http.StatusForbidden) },
			ErrUnauthorized, "access denied",
		},
		"redirect to another scheme": {
			func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, "ftp://127.0.0.1/x", http.StatusFound)
			},
			ErrUnexpectedResponse, "redirect refused",
		},
		"400": {
			func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadRequest) },
			ErrUnexpectedResponse, "unexpected status 400",
		},
		"410": {
			func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusGone) },
			ErrRepositoryNotFound, "repository not found",
		},
		"endless redirects": {
			func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, "/x"+r.URL.RequestURI(), http.StatusFound)
			},
			ErrUnexpectedResponse, "redirect refused",
		},
		"error line": {
			func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, pkt("ERR hunter2 is not allowed")) },
			ErrUnreachable, "the server rejected the request",
		},
		"truncated": {
			func(w http.ResponseWriter, _ *http.Request) {
				io.WriteString(w, pkt("# service=git-upload-pack\n")+"0000"+"00ff1")
			},
			ErrUnreachable, "connection closed",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) { testRefsResponse(t, tt.handler, tt.is, tt.reason) })
	}
}

func TestRefsLimits(t *testing.T) {
	const commit = "1000000000000000000000000000000000000000"
	tests := map[string]struct {
		handler http.HandlerFunc
		reason  string
	}{
		"too many branches": {
			func(w http.ResponseWriter, _ *http.Request) {
				io.WriteString(w, pkt("# service=git-upload-pack\n")+"0000")
				io.WriteString(w, pkt(commit+" HEAD\x00agent=test\n"))
				for i := range MaxRefs + 1 {
					io.WriteString(w, pkt(fmt.Sprintf("%s refs/heads/b%d\n", commit, i)))
				}
				io.WriteString(w, "0000")
			},
			"more than 5000 branches",
		},
		"endless refs": {
			func(w http.ResponseWriter, _ *http.Request) {
				io.WriteString(w, pkt("# service=git-upload-pack\n")+"0000")
				io.WriteString(w, pkt(commit+" HEAD\x00agent=test\n"))
				line := strings.Repeat(pkt(commit+" refs/pull/"+strings.Repeat("x", 900)+"\n"), 64)
				for range 2 * maxAdvertisement / len(line) {
					if _, err := io.WriteString(w, line); err != nil {
						return
					}
				}
			},
			"the list of refs is too large",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) { testRefsResponse(t, tt.handler, ErrTooLarge, tt.reason) })
	}
}

func pkt(s string) string { return fmt.Sprintf("%04x%s", len(s)+4, s) }

// TestRefsWithoutSymref uses a server that does not advertise the target of
// HEAD.
func TestRefsWithoutSymref(t *testing.T) {
	const other = "2222222222222222222222222222222222222222"
	const head = "1111111111111111111111111111111111111111"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, pkt("# service=git-upload-pack\n")+"0000"+pkt(head+" HEAD\x00agent=test\n")+
			pkt(other+" refs/heads/a\n")+pkt(head+" refs/heads/b\n")+pkt(head+" refs/heads/main\n")+
			pkt(head+" refs/heads/\xff\n")+pkt(other+" refs/tags/v1\n")+"0000")
	}))
	t.Cleanup(server.Close)
	refs, branch, err := New(Options{AllowInsecure: true}).Refs(t.Context(), server.URL+"/a.git", Credentials{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Ref{{"a", other}, {"b", head}, {"main", head}}, refs); diff != "" {
		t.Error(diff)
	}
	if branch != "main" {
		t.Errorf("default branch %q, want main", branch)
	}
}

// TestRefsBearerToken also checks that a redirect to another host does not leak
// the token.
func TestRefsBearerToken(t *testing.T) {
	var leaked atomic.Value
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		leaked.Store(r.Header.Get("Authorization"))
	}))
	t.Cleanup(other.Close)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Authorization") != "Bearer "+testPassword:
			w.WriteHeader(http.StatusUnauthorized)
		case strings.HasPrefix(r.URL.Path, "/moved.git"):
			http.Redirect(w, r, other.URL+r.URL.RequestURI(), http.StatusFound)
		default:
			io.WriteString(w, pkt("# service=git-upload-pack\n")+"0000"+"0000")
		}
	}))
	t.Cleanup(server.Close)
	client := New(Options{AllowInsecure: true})
	creds := credentials(t, server.URL, KeyBearerToken, testPassword+"\n")
	if _, _, err := client.Refs(t.Context(), server.URL+"/a.git", creds); err != nil {
		t.Error(err)
	}
	if _, _, err := client.Refs(t.Context(), server.URL+"/a.git", Credentials{}); !errors.Is(err, ErrUnauthorized) {
		t.Errorf("without a token: %v, want ErrUnauthorized", err)
	}
	if _, _, err := client.Refs(t.Context(), server.URL+"/moved.git", creds); err == nil {
		t.Error("the other server is not Git's and gave no error")
	}
	if got := leaked.Load(); got != "" {
		t.Errorf("the other server was sent %v", got)
	}
}

func TestRefsSHA256Repository(t *testing.T) {
	root := t.TempDir()
	r := newRepo(t, root, "model.git", "--object-format=sha256")
	r.commit("main", r.tree(r.file("a.yml", "1")))
	base, ca := serveHTTPS(t, root)
	creds := credentials(t, base, KeyUsername, testUser, KeyPassword, testPassword, KeyCACert, string(ca))
	_, _, err := New(Options{}).Refs(t.Context(), base+"/model.git", creds)
	if want := "repository " + base + "/model.git: not the response of a Git server with SHA-1 objects"; err == nil || err.Error() != want {
		t.Errorf("error %q, want %q", err, want)
	}
}

// TestResolve: branches, tags and annotated tags, in both versions of the protocol.
func TestResolve(t *testing.T) {
	root := t.TempDir()
	r := newRepo(t, root, "model.git")
	first := r.commit("main", r.tree(r.file("a", "1")))
	second := r.commit("feature/x", r.tree(r.file("a", "2")))
	r.git("tag", "light", second)
	r.git("-c", "user.name=a", "-c", "user.email=a@example.com", "tag", "-a", "-m", "m", "v1", second)
	r.git("tag", "main", second)
	for name, handler := range map[string]http.Handler{"version 2": backend(t, root), "version 0": withoutVersion2(backend(t, root))} {
		server := httptest.NewServer(handler)
		t.Cleanup(server.Close)
		client, url := New(Options{AllowInsecure: true}), server.URL+"/model.git"
		creds := credentials(t, url, KeyUsername, testUser, KeyPassword, testPassword)
		for ref, want := range map[string][2]string{
			"": {"HEAD", first}, "main": {"refs/heads/main", first}, "feature/x": {"refs/heads/feature/x", second},
			"light": {"refs/tags/light", second}, "v1": {"refs/tags/v1", second},
		} {
			full, commit, err := client.Resolve(t.Context(), url, creds, ref)
			if err != nil || full != want[0] || commit != want[1] {
				t.Errorf("%s: %q is %s %s, want %q: %v", name, ref, full, commit, want, err)
				continue
			}
			if _, err := client.Fetch(t.Context(), FetchOptions{URL: url, Creds: creds, Commit: commit, Ref: full, Dir: filepath.Join(t.TempDir(), "x")}); err != nil {
				t.Errorf("%s: %q: %v", name, ref, err)
			}
		}
		if _, _, err := client.Resolve(t.Context(), url, creds, "v2"); !errors.Is(err, ErrRefNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRefsHonoursContext(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts and never responds
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { silent.Close() })
	_, identity := newKey(t, "")
	hostKey, _ := newKey(t, "")
	ssh := "ssh://git@" + silent.Addr().String() + "/a.git"
	tests := map[string]struct {
		url   string
		creds Credentials
	}{
		"https": {"https://" + silent.Addr().String() + "/a.git", Credentials{}},
		"http":  {"http://" + silent.Addr().String() + "/a.git", Credentials{}},
		"ssh": {ssh, credentials(t, ssh, KeyIdentity, identity,
			KeyKnownHosts, knownHostsLine(silent.Addr().String(), hostKey.PublicKey()))},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			client := New(Options{AllowInsecure: true})
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			_, _, err := client.Refs(ctx, tt.url, tt.creds)
			if !errors.Is(err, ErrUnreachable) || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("error %v, want ErrUnreachable and DeadlineExceeded", err)
			}
			if want := "repository " + strings.Replace(tt.url, "git@", "", 1) + ": timed out"; err.Error() != want {
				t.Errorf("error %q, want %q", err, want)
			}
			canceled, stop := context.WithCancel(t.Context())
			time.AfterFunc(50*time.Millisecond, stop)
			_, _, err = client.Refs(canceled, tt.url, tt.creds)
			if !errors.Is(err, context.Canceled) || errors.Is(err, ErrUnreachable) {
				t.Errorf("error %v, want Canceled only", err)
			}
			_, _, err = New(Options{AllowInsecure: true, Timeout: 50 * time.Millisecond}).Refs(shortly(t), tt.url, tt.creds)
			if !errors.Is(err, ErrUnreachable) {
				t.Errorf("error %v, want ErrUnreachable", err)
			}
		})
	}
}

// shortly returns a context that ends soon, for a silent plain-HTTP server,
// which no connect timeout detects.
func shortly(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	t.Cleanup(cancel)
	return ctx
}
