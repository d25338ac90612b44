package git

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	commitA = "1111111111111111111111111111111111111111"
	commitB = "2222222222222222222222222222222222222222"

	service = "001e# service=git-upload-pack\n0000"
)

// scripted is a connection with messages of a server; it stores the request.
type scripted struct {
	advertised, answer string
	request            string
}

func (s *scripted) advertisement(context.Context) (*packets, error) {
	return newPackets(strings.NewReader(s.advertised), io.NopCloser(nil), maxAdvertisement), nil
}

func (s *scripted) send(_ context.Context, r *request, budget int) (*packets, error) {
	s.request = r.String()
	return newPackets(strings.NewReader(s.answer), io.NopCloser(nil), budget), nil
}

func (s *scripted) close() {}

// read returns the branches that the connection advertises.
func (s *scripted) read() ([]Ref, string, error) {
	list := &branchList{refs: []Ref{}}
	session := &session{connection: s, capabilities: capabilities{}}
	err := session.readRefs(context.Background(), []string{headRef, headsDir}, list.visit)
	return list.refs, list.defaultBranch(), err
}

// TestReadRefs of servers with different versions of the protocol.
func TestReadRefs(t *testing.T) {
	version2 := pkt("version 2\n") + pkt("agent=git/2.50.0\n") + pkt("ls-refs=unborn\n") + pkt("fetch=shallow\n") + pkt("object-format=sha1\n") + "0000"
	first := pkt(commitA + " HEAD\x00symref=HEAD:refs/heads/main agent=git/1.9\n")
	branches := pkt(commitB+" refs/heads/a\n") + pkt(commitA+" refs/heads/main\n")
	both := []Ref{{"a", commitB}, {"main", commitA}}
	tests := map[string]struct {
		scripted
		refs   []Ref
		branch string
		err    error
	}{
		"version 0 over SSH":  {scripted{advertised: first + branches + pkt(commitB+" refs/tags/v1\n") + pkt(commitA+" refs/tags/v1^{}\n") + "0000"}, both, "main", nil},
		"version 0 over HTTP": {scripted{advertised: service + first + branches + "0000"}, both, "main", nil},
		"version 1":           {scripted{advertised: pkt("version 1\n") + first + branches + "0000"}, both, "main", nil},
		"shallow repository":  {scripted{advertised: first + branches + pkt("shallow "+commitA) + "0000"}, both, "main", nil},
		"empty repository":    {scripted{advertised: pkt(strings.Repeat("0", 40)+" capabilities^{}\x00agent=git/2.50.0\n") + "0000"}, []Ref{}, "", nil},
		"empty, before 2.41":  {scripted{advertised: service + "0000"}, []Ref{}, "", nil},
		"detached HEAD":       {scripted{advertised: pkt(commitB+" HEAD\x00symref=refs/remotes/x:refs/y\n") + branches + "0000"}, both, "a", nil},
		"version 2":           {scripted{advertised: version2, answer: pkt(commitA+" HEAD symref-target:refs/heads/main\n") + branches + "0000"}, both, "main", nil},
		"version 2 over HTTP": {scripted{advertised: service + version2, answer: branches + "0000"}, both, "", nil},
		"version 2, all refs": {scripted{advertised: version2, answer: branches + pkt(commitA+" refs/tags/v1 peeled:"+commitB) + "0000"}, both, "", nil},
		"version 2, empty":    {scripted{advertised: version2, answer: "0000"}, []Ref{}, "", nil},
		"version 2, SHA-256":  {scripted{advertised: strings.Replace(version2, "0017object-format=sha1\n", pkt("object-format=sha256\n"), 1)}, []Ref{}, "", errNotGit},
		"version 2 of a push": {scripted{advertised: pkt("version 2\n") + "0000"}, []Ref{}, "", errNotGit},
		"no capabilities":     {scripted{advertised: pkt(commitA + " HEAD\n")}, []Ref{}, "", errNotGit},
		"no hash":             {scripted{advertised: first + pkt("main refs/heads/main"+strings.Repeat(" ", 40))}, []Ref{}, "", errNotGit},
		"truncated":           {scripted{advertised: first}, []Ref{}, "", io.ErrUnexpectedEOF},
		"truncated packet":    {scripted{advertised: first + "00ff1"}, []Ref{}, "", io.ErrUnexpectedEOF},
		"length of one":       {scripted{advertised: first + "0003"}, []Ref{}, "", errMalformedPacket},
		"length beyond":       {scripted{advertised: first + "fff1"}, []Ref{}, "", errMalformedPacket},
		"no length":           {scripted{advertised: first + "zzzz"}, []Ref{}, "", errMalformedPacket},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			refs, branch, err := tt.read()
			if !errors.Is(err, tt.err) {
				t.Fatalf("error %v, want %v", err, tt.err)
			}
			if diff := cmp.Diff(tt.refs, refs); diff != "" || branch != tt.branch {
				t.Errorf("default branch %q, want %q; %s", branch, tt.branch, diff)
			}
		})
	}
}

// TestLsRefsRequest asks for branches only.
func TestLsRefsRequest(t *testing.T) {
	s := &scripted{advertised: pkt("version 2\n") + pkt("agent=x\n") + pkt("ls-refs\n") + pkt("fetch\n") + pkt("object-format=sha1\n") + "0000", answer: "0000"}
	if _, _, err := s.read(); err != nil {
		t.Fatal(err)
	}
	want := pkt("command=ls-refs\n") + pkt("agent=quoin\n") + pkt("object-format=sha1\n") + "0001" +
		pkt("symrefs\n") + pkt("peel\n") + pkt("ref-prefix HEAD\n") + pkt("ref-prefix refs/heads/\n") + "0000"
	if s.request != want {
		t.Errorf("request %q, want %q", s.request, want)
	}
}

// TestVersion2IsUsed over HTTP and SSH with Git's own server, which then sends branches only.
func TestVersion2IsUsed(t *testing.T) {
	root := t.TempDir()
	r := newRepo(t, root, "model.git")
	commit := r.commit("main", r.tree(r.file("a.yml", "1")))
	var sent bytes.Buffer
	inner := backend(t, root)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		recorder := httptest.NewRecorder()
		inner.ServeHTTP(recorder, req)
		sent.Write(recorder.Body.Bytes())
		_, _ = w.Write(recorder.Body.Bytes())
	}))
	t.Cleanup(server.Close)
	r.git("update-ref", "refs/pull/1/head", commit)
	url := server.URL + "/model.git"
	creds := credentials(t, url, KeyUsername, testUser, KeyPassword, testPassword)
	refs, branch, err := New(Options{AllowInsecure: true}).Refs(t.Context(), url, creds)
	if diff := cmp.Diff([]Ref{{"main", commit}}, refs); diff != "" || branch != "main" || err != nil {
		t.Errorf("default %q, %v, %s", branch, err, diff)
	}
	if strings.Contains(sent.String(), "refs/pull") || !strings.Contains(sent.String(), "version 2") {
		t.Errorf("the server sent %q", sent.String())
	}
	key, identity := newKey(t, "")
	overSSH := serveSSH(t, root, key.PublicKey())
	overSSH.version2 = true
	creds = credentials(t, overSSH.url("/"), KeyIdentity, identity, KeyKnownHosts, overSSH.knownHosts())
	refs, branch, err = New(Options{}).Refs(t.Context(), overSSH.url("/model.git"), creds)
	if diff := cmp.Diff([]Ref{{"main", commit}}, refs); diff != "" || branch != "main" || err != nil {
		t.Errorf("over SSH: default %q, %v, %s", branch, err, diff)
	}
	_, err = New(Options{}).Fetch(t.Context(), FetchOptions{URL: overSSH.url("/model.git"), Creds: creds, Commit: commit, Dir: t.TempDir() + "/model"})
	if err != nil {
		t.Errorf("over SSH: %v", err)
	}
}

// FuzzReadRefs: any message of a server is read without a panic, into a bounded list of
// branches with valid names.
func FuzzReadRefs(f *testing.F) {
	first := pkt(commitA + " HEAD\x00symref=HEAD:refs/heads/main agent=git/1.9\n")
	version2 := pkt("version 2\n") + pkt("ls-refs\n") + pkt("fetch=shallow\n") + "0000"
	f.Add(first+pkt(commitA+" refs/heads/main\n")+"0000", "")
	f.Add(service+first+pkt(commitA+" refs/heads/\xff\n")+"0000", "")
	f.Add(pkt("version 1\n")+first+"0000", "")
	f.Add(version2, pkt(commitA+" HEAD symref-target:refs/heads/main\n")+pkt(commitA+" refs/heads/main\n")+"0000")
	f.Add(version2, pkt("ERR not allowed"))
	f.Add("0001"+"0002"+"0004", "0003")
	f.Fuzz(func(t *testing.T, advertised, answer string) {
		s := &scripted{advertised: advertised, answer: answer}
		refs, branch, err := s.read()
		if len(refs) > MaxRefs || len(branch) > maxRefName {
			t.Fatalf("%d branches, default %q", len(refs), branch)
		}
		for _, ref := range refs {
			if ref.Name == "" || len(ref.Name) > maxRefName || len(ref.Commit) != 40 {
				t.Fatalf("branch %q at %q", ref.Name, ref.Commit)
			}
		}
		if err == nil {
			return
		}
		var known *Error
		r, _ := parseURL("https://example.com/a.git", Options{})
		if failure := r.transportError(t.Context(), err); !errors.As(failure, &known) || known.kind == nil {
			t.Fatalf("error %v has no kind", failure)
		}
	})
}
