package git

import (
	"errors"
	"io/fs"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// listing returns the files under dir with their content. It fails the test on
// hidden names, links and unexpected modes.
func listing(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		want := fs.FileMode(0o644)
		if d.IsDir() {
			want = fs.ModeDir | 0o755
		}
		if info.Mode() != want {
			t.Errorf("%s has mode %v, want %v", name, info.Mode(), want)
		}
		if name != "." && strings.HasPrefix(filepath.Base(name), ".") {
			t.Errorf("%s is hidden", name)
		}
		if d.IsDir() {
			return nil
		}
		content, err := os.ReadFile(path)
		files[filepath.ToSlash(name)] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// onlyTarget fails the test if there are other files next to the target.
func onlyTarget(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(dir))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() != filepath.Base(dir) {
			t.Errorf("%s was left next to the target", e.Name())
		}
	}
}

func TestFetch(t *testing.T) {
	r, url, creds := httpsFixture(t)
	long := strings.Repeat("# a long file that compresses to a delta\n", 40000) // over streamedSize
	model := func(version string) treeEntry {
		return r.folder("model",
			r.file("a.yml", version),
			treeEntry{"100755", "blob", r.blob("#!/bin/sh\n"), "run.sh"},
			r.folder("cubes", r.file("b.js", "b"), r.folder("deep", r.file("c.yml", "c"+version))),
			r.file("long.py", long+version),
			r.file(".hidden.yml", "x"),
			r.folder(".hidden", r.file("d.yml", "d")),
			r.folder("only-hidden", r.file(".keep", "")),
			submodule("vendored"),
		)
	}
	first := r.commit("main", r.tree(model("1"), r.file("README.md", "top")))
	second := r.commit("main", r.tree(model("2"), r.file("README.md", "top")), first)
	r.git("gc", "--quiet") // so that the server sends deltas

	want := func(version string) map[string]string {
		return map[string]string{
			"a.yml": version, "run.sh": "#!/bin/sh\n", "cubes/b.js": "b", "cubes/deep/c.yml": "c" + version, "long.py": long + version,
		}
	}
	dir := filepath.Join(t.TempDir(), "volume", "model")
	for _, step := range []struct{ commit, version, path string }{
		{second, "2", "model"}, {first, "1", "./model/"}, {strings.ToUpper(second), "2", "model"},
	} {
		result, err := New(Options{}).Fetch(t.Context(), FetchOptions{
			URL: url, Creds: creds, Commit: step.commit, Ref: "main", Path: step.path, Dir: dir,
		})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want(step.version), listing(t, dir)); diff != "" {
			t.Error(diff)
		}
		if wantResult := (FetchResult{Files: 5, Bytes: int64(len(long)) + 15}); result != wantResult {
			t.Errorf("result %+v, want %+v", result, wantResult)
		}
		onlyTarget(t, dir)
	}
	whole := filepath.Join(t.TempDir(), "whole")
	if _, err := New(Options{}).Fetch(t.Context(), FetchOptions{URL: url, Creds: creds, Commit: second, Dir: whole}); err != nil {
		t.Fatal(err)
	}
	if got := listing(t, whole); len(got) != 6 || got["README.md"] != "top" {
		t.Errorf("whole tree has %d files, want 6", len(got))
	}
}

// treeTest is a fetch of the folder "model" of a commit.
type treeTest struct {
	tree string
	path string // instead of "model"
	want map[string]string
	is   error
	text string // after "repository URL: "
}

// testTrees fetches the tree of each test.
func testTrees(t *testing.T, r *repo, url string, creds Credentials, tests map[string]treeTest) {
	t.Helper()
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			commit := r.commit("main", tt.tree)
			dir := filepath.Join(t.TempDir(), "model")
			o := FetchOptions{URL: url, Creds: creds, Commit: commit, Path: "model", Dir: dir}
			if tt.path != "" {
				o.Path = tt.path
			}
			_, err := New(Options{}).Fetch(t.Context(), o)
			onlyTarget(t, dir)
			if tt.is == nil {
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(tt.want, listing(t, dir)); diff != "" {
					t.Error(diff)
				}
				return
			}
			if want := "repository " + url + ": " + strings.ReplaceAll(tt.text, "COMMIT", commit); !errors.Is(err, tt.is) || err.Error() != want {
				t.Errorf("error %v, want %v", err, want)
			}
			if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the target exists: %v", err)
			}
		})
	}
}

func TestFetchSymbolicLinks(t *testing.T) {
	r, url, creds := httpsFixture(t)
	file := func(name string) treeEntry { return r.file(name, "content") }
	sub := func(entries ...treeEntry) string { return r.tree(r.folder("model", entries...)) }
	shared := r.file("shared.yml", "shared")
	testTrees(t, r, url, creds, map[string]treeTest{
		"link to a file beside it":   {tree: sub(file("a.yml"), r.link("b.yml", "a.yml")), want: map[string]string{"a.yml": "content", "b.yml": "content"}},
		"link through folders":       {tree: sub(r.folder("x", file("a.yml")), r.folder("y", r.link("b.yml", "../x/./a.yml"))), want: map[string]string{"x/a.yml": "content", "y/b.yml": "content"}},
		"link to a link":             {tree: sub(file("a.yml"), r.link("b.yml", "c.yml"), r.link("c.yml", "a.yml")), want: map[string]string{"a.yml": "content", "b.yml": "content", "c.yml": "content"}},
		"link through a folder link": {tree: r.tree(r.folder("model", r.link("b.yml", "../lib/a.yml")), r.link("lib", "real"), r.folder("real", file("a.yml"))), want: map[string]string{"b.yml": "content"}},
		"link above the sub folder":  {tree: r.tree(r.folder("model", r.link("b.yml", "../shared.yml")), shared), want: map[string]string{"b.yml": "shared"}},
		"hidden link":                {tree: sub(r.link(".b.yml", "/etc/passwd"), file("a.yml")), want: map[string]string{"a.yml": "content"}},
		"link out":                   {tree: sub(r.link("b.yml", "../../etc/passwd")), is: ErrInvalidTree, text: `symbolic link "b.yml" points out of the repository`},
		"link out and in again":      {tree: sub(r.link("b.yml", "../../model/a.yml"), file("a.yml")), is: ErrInvalidTree, text: `symbolic link "b.yml" points out of the repository`},
		"absolute link":              {tree: sub(r.link("b.yml", "/etc/passwd")), is: ErrInvalidTree, text: `symbolic link "b.yml" points to an absolute path`},
		"link to a link out":         {tree: sub(r.link("b.yml", "c"), r.link("c", "/etc")), is: ErrInvalidTree, text: `symbolic link "b.yml" points to an absolute path`},
		"link to itself":             {tree: sub(r.link("b.yml", "b.yml")), is: ErrInvalidTree, text: `symbolic link "b.yml" is a chain of too many symbolic links`},
		"link to a folder":           {tree: sub(r.link("b", "x"), r.folder("x", file("a.yml"))), is: ErrInvalidTree, text: `symbolic link "b" points to a folder`},
		"link to the folder itself":  {tree: sub(r.link("b", ".")), is: ErrInvalidTree, text: `symbolic link "b" points to a folder`},
		"link to nothing":            {tree: sub(r.link("b.yml", "gone.yml")), is: ErrInvalidTree, text: `symbolic link "b.yml" points to nothing`},
		"link below a file":          {tree: sub(r.link("b.yml", "a.yml/x"), file("a.yml")), is: ErrInvalidTree, text: `symbolic link "b.yml" points below a file`},
		"link to a submodule":        {tree: sub(r.link("b.yml", "s"), submodule("s")), is: ErrInvalidTree, text: `symbolic link "b.yml" points to a submodule`},
		"empty link":                 {tree: sub(r.link("b.yml", "")), is: ErrInvalidTree, text: `symbolic link "b.yml" has no valid target`},
	})
}

func TestFetchFileNames(t *testing.T) {
	r, url, creds := httpsFixture(t)
	file := func(name string) treeEntry { return r.file(name, "content") }
	sub := func(entries ...treeEntry) string { return r.tree(r.folder("model", entries...)) }
	testTrees(t, r, url, creds, map[string]treeTest{
		"nested .git":         {tree: r.tree(treeEntry{"040000", "tree", r.rawTree(r.folder(".git", file("config")), file("a.yml")), "model"}), want: map[string]string{"a.yml": "content"}},
		"name with ..":        {tree: r.tree(treeEntry{"040000", "tree", r.rawTree(r.folder("..", file("a.yml"))), "model"}), is: ErrInvalidTree, text: `".." in folder "/" is not a file name`},
		"name with slashes":   {tree: r.tree(treeEntry{"040000", "tree", r.rawTree(file("../../a.yml")), "model"}), is: ErrInvalidTree, text: `"../../a.yml" in folder "/" is not a file name`},
		"name with backslash": {tree: sub(file(`a\b.yml`)), is: ErrInvalidTree, text: `"a\\b.yml" in folder "/" is not a file name`},
		"long name":           {tree: sub(file(strings.Repeat("a", 256))), is: ErrInvalidTree, text: `"` + strings.Repeat("a", 256) + `" in folder "/" is not a file name`},
		"name twice":          {tree: r.tree(treeEntry{"040000", "tree", r.rawTree(file("a"), r.folder("a", file("b"))), "model"}), is: ErrInvalidTree, text: `"a/b" is a duplicate entry of its folder`},
		"file twice":          {tree: r.tree(treeEntry{"040000", "tree", r.rawTree(file("a"), file("a")), "model"}), is: ErrInvalidTree, text: `"a" is a duplicate entry of its folder`},
	})
}

func TestFetchPath(t *testing.T) {
	r, url, creds := httpsFixture(t)
	file := func(name string) treeEntry { return r.file(name, "content") }
	testTrees(t, r, url, creds, map[string]treeTest{
		"no files":            {tree: r.tree(r.folder("model", file(".keep"))), want: map[string]string{}},
		"missing path":        {tree: r.tree(file("shared.yml")), is: ErrPathNotFound, text: `path "model" not found in commit COMMIT`},
		"path is a file":      {tree: r.tree(file("model")), is: ErrPathNotFound, text: `path "model" is not a folder in commit COMMIT`},
		"path is a link":      {tree: r.tree(r.link("model", "real"), r.folder("real", file("a.yml"))), is: ErrPathNotFound, text: `path "model" is not a folder in commit COMMIT`},
		"path is a submodule": {tree: r.tree(submodule("model")), is: ErrPathNotFound, text: `path "model" is not a folder in commit COMMIT`},
		"deep path":           {tree: r.tree(r.folder("a", r.folder("b", r.folder(".c", file("d.yml"))))), path: "a/b/.c", want: map[string]string{"d.yml": "content"}},
	})
}

// TestFetchProjects: a project, which contains its model in a folder, is checked out as it is; the files of any other tree
// are the model.
func TestFetchProjects(t *testing.T) {
	r, url, creds := httpsFixture(t)
	model := r.folder("model", r.file("a.yml", "a"), r.link("b.yml", "../shared.yml"))
	shared, config := r.file("shared.yml", "shared"), r.file("cube.js", "module.exports = {}")
	project := map[string]string{"cube.js": "module.exports = {}", "model/a.yml": "a", "model/b.yml": "shared", "shared.yml": "shared"}
	for name, c := range map[string]struct {
		tree, path string
		want       map[string]string
	}{
		"project":          {r.tree(config, model, shared), "", project},
		"project below":    {r.tree(r.folder("app", config, model, shared)), "app", project},
		"no project":       {r.tree(model, shared), "", map[string]string{"model/model/a.yml": "a", "model/model/b.yml": "shared", "model/shared.yml": "shared"}},
		"only a model":     {r.tree(config, model, shared), "model", map[string]string{"model/a.yml": "a", "model/b.yml": "shared"}},
		"no folder":        {r.tree(config, shared), "", map[string]string{"model/cube.js": "module.exports = {}", "model/shared.yml": "shared"}},
		"a file as folder": {r.tree(config, r.file("model", "x")), "", map[string]string{"model/cube.js": "module.exports = {}", "model/model": "x"}},
		"omitted files":    {r.tree(r.folder("agents", r.file("a.yml", "a"), r.file("omit.yml", "b")), shared), "", map[string]string{"model/agents/a.yml": "a", "model/shared.yml": "shared"}},
		"omitted folder":   {r.tree(r.folder("agents", r.file("omit.yml", "b")), shared), "", map[string]string{"model/shared.yml": "shared"}},
		"none in projects": {r.tree(config, r.folder("model", r.folder("agents", r.file("omit.yml", "b")))), "", map[string]string{"cube.js": "module.exports = {}", "model/agents/omit.yml": "b"}},
		"empty model":      {r.tree(config, r.folder("model", r.file(".gitkeep", ""))), "", map[string]string{"cube.js": "module.exports = {}"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "out")
			o := FetchOptions{URL: url, Creds: creds, Commit: r.commit("main", c.tree), Path: c.path, Dir: dir, Nested: "model", ProjectFiles: []string{"cube.py", "cube.js"}}
			o.Omit = func(name string) bool { return name == "agents/omit.yml" }
			if _, err := New(Options{}).Fetch(t.Context(), o); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, listing(t, dir)); diff != "" {
				t.Error(diff)
			}
			if info, err := os.Stat(filepath.Join(dir, "model")); err != nil || info.Mode() != os.ModeDir|0o755 {
				t.Errorf("the folder of the model: %v, error %v", info, err)
			}
		})
	}
}

func TestFetchLimits(t *testing.T) {
	r, url, creds := httpsFixture(t)
	var wide []treeEntry
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		wide = append(wide, r.file(name, "0123456789"))
	}
	files := r.commit("files", r.tree(wide...))
	links := r.commit("links", r.tree(append(wide[:1:1], r.link("b", "a"), r.link("c", "a"))...))
	// 10 levels of 10 times the same folder: 10^10 folders.
	bomb := r.tree(r.file(".keep", ""))
	for range 10 {
		var same []treeEntry
		for _, name := range strings.Split("abcdefghij", "") {
			same = append(same, treeEntry{"040000", "tree", bomb, name})
		}
		bomb = r.tree(same...)
	}
	folders := r.commit("folders", bomb)
	deep := r.tree(r.file("a", ""))
	for range maxDepth + 1 {
		deep = r.tree(treeEntry{"040000", "tree", deep, "d"})
	}
	tall := r.commit("tall", deep)

	tests := map[string]struct {
		commit   string
		maxBytes int64
		maxFiles int
		text     string // empty: no error
	}{
		"at the limits":       {files, 50, 5, ""},
		"bytes":               {files, 49, 5, `more than 49 bytes in path "."`},
		"files":               {files, 50, 4, `more than 4 files in path "."`},
		"links count":         {links, 29, 5, `more than 29 bytes in path "."`},
		"links are at limits": {links, 30, 3, ""},
		"folders":             {folders, 0, 0, "more than 10000 folders"},
		"depth":               {tall, 0, 0, "folders are nested more than 100 levels deep"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "model")
			_, err := New(Options{}).Fetch(t.Context(), FetchOptions{
				URL: url, Creds: creds, Commit: tt.commit, Dir: dir, MaxBytes: tt.maxBytes, MaxFiles: tt.maxFiles,
			})
			if tt.text == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if want := "repository " + url + ": " + tt.text; !errors.Is(err, ErrTooLarge) || err.Error() != want {
				t.Errorf("error %v, want %q", err, want)
			}
			onlyTarget(t, dir)
		})
	}
}

// TestFetchMissingCommit uses version 0 of the protocol for a commit that is in no
// branch: in version 2 servers serve it.
func TestFetchMissingCommit(t *testing.T) {
	root := t.TempDir()
	r := newRepo(t, root, "model.git")
	server := httptest.NewServer(backend(t, root))
	version0 := httptest.NewServer(withoutVersion2(backend(t, root)))
	t.Cleanup(server.Close)
	t.Cleanup(version0.Close)
	creds := credentials(t, server.URL, KeyUsername, testUser, KeyPassword, testPassword)
	client := New(Options{AllowInsecure: true})
	tree := r.tree(r.file("a.yml", "1"))
	r.commit("main", tree)
	unreachable := r.git("commit-tree", tree, "-m", "in no branch")
	absent := strings.Repeat("a", 40)
	notFound := func(commit string) string { return "commit " + commit + " not found" }
	tests := map[string]struct {
		commit, ref string
		is          error
		text        string
	}{
		"absent":         {absent, "main", ErrCommitNotFound, notFound(absent)},
		"absent, no ref": {absent, "", ErrCommitNotFound, notFound(absent)},
		"in no branch":   {unreachable, "main", ErrCommitNotFound, notFound(unreachable)},
		"no such branch": {absent, "gone", ErrRefNotFound, `branch "gone" not found`},
	}
	for _, config := range []string{"false", "true"} { // whether the server serves commits by name
		r.git("config", "uploadpack.allowReachableSHA1InWant", config)
		for name, tt := range tests {
			t.Run(name+", by name "+config, func(t *testing.T) {
				url := server.URL + "/model.git"
				if tt.commit == unreachable {
					url = version0.URL + "/model.git"
				}
				dir := filepath.Join(t.TempDir(), "model")
				_, err := client.Fetch(t.Context(), FetchOptions{URL: url, Creds: creds, Commit: tt.commit, Ref: tt.ref, Dir: dir})
				if text := "repository " + url + ": " + tt.text; !errors.Is(err, tt.is) || !errors.Is(err, ErrNotFound) || err.Error() != text {
					t.Errorf("error %v, want %q", err, text)
				}
				onlyTarget(t, dir)
			})
		}
	}
	url := server.URL + "/model.git"
	t.Run("hash of a tag", func(t *testing.T) {
		r.git("tag", "-a", "v1", "-m", "annotated", "main")
		tag := r.git("rev-parse", "v1")
		_, err := client.Fetch(t.Context(), FetchOptions{URL: url, Creds: creds, Commit: tag, Dir: filepath.Join(t.TempDir(), "x")})
		if want := "repository " + url + ": " + tag + " is not a commit"; !errors.Is(err, ErrCommitNotFound) || err.Error() != want {
			t.Errorf("error %v, want %q", err, want)
		}
	})
}

// TestFetchOlderCommit fetches commits behind the tip, also over SSH in version 0
// of the protocol, where the server does not serve commits by name.
func TestFetchOlderCommit(t *testing.T) {
	root := t.TempDir()
	r := newRepo(t, root, "model.git")
	key, identity := newKey(t, "")
	server := serveSSH(t, root, key.PublicKey())
	overSSH := credentials(t, server.url(""), KeyIdentity, identity, KeyKnownHosts, server.knownHosts())
	overHTTP := credentials(t, "https://x/y", KeyUsername, testUser, KeyPassword, testPassword)
	latest, version0 := httptest.NewServer(backend(t, root)), httptest.NewServer(withoutVersion2(backend(t, root)))
	t.Cleanup(latest.Close)
	t.Cleanup(version0.Close)
	remotes := map[string]Credentials{
		latest.URL + "/model.git": overHTTP, version0.URL + "/model.git": overHTTP, server.url("/model.git"): overSSH,
	}
	var commits []string
	for i := range shortHistory + 20 {
		parents := commits[max(i-1, 0):]
		commits = append(commits, r.commit("main", r.tree(r.file("a.yml", string(rune('0'+i)))), parents...))
	}
	client := New(Options{AllowInsecure: true})
	for remote, creds := range remotes {
		for _, i := range []int{0, len(commits) - 5} {
			for _, ref := range []string{"", "main", "refs/heads/main"} {
				dir := filepath.Join(t.TempDir(), "model")
				_, err := client.Fetch(t.Context(), FetchOptions{URL: remote, Creds: creds, Commit: commits[i], Ref: ref, Dir: dir})
				if err != nil {
					t.Fatalf("%s, commit %d, ref %q: %v", remote, i, ref, err)
				}
				if diff := cmp.Diff(map[string]string{"a.yml": string(rune('0' + i))}, listing(t, dir)); diff != "" {
					t.Errorf("%s, commit %d, ref %q: %s", remote, i, ref, diff)
				}
			}
		}
	}
}

func TestFetchRejectsInvalidOptions(t *testing.T) {
	good := FetchOptions{URL: "https://127.0.0.1:1/a.git", Commit: strings.Repeat("a", 40), Dir: "/tmp/model"}
	tests := map[string]struct {
		change func(*FetchOptions)
		want   string
	}{
		"short commit":    {func(o *FetchOptions) { o.Commit = "abc123" }, "want 40 hex digits"},
		"branch":          {func(o *FetchOptions) { o.Commit = "main" }, "want 40 hex digits"},
		"SHA-256":         {func(o *FetchOptions) { o.Commit = strings.Repeat("a", 64) }, "SHA-256 repositories are not supported"},
		"path out":        {func(o *FetchOptions) { o.Path = "../x" }, "want a relative path"},
		"path in between": {func(o *FetchOptions) { o.Path = "a/../b" }, "want a relative path"},
		"absolute path":   {func(o *FetchOptions) { o.Path = "/a" }, "want a relative path"},
		"root":            {func(o *FetchOptions) { o.Path = "/" }, "want a relative path"},
		".git":            {func(o *FetchOptions) { o.Path = "a/.GIT" }, "want a relative path"},
		"relative target": {func(o *FetchOptions) { o.Dir = "model" }, "want an absolute path"},
		"root target":     {func(o *FetchOptions) { o.Dir = "/" }, "want an absolute path"},
		"negative limit":  {func(o *FetchOptions) { o.MaxBytes = -1 }, "must not be negative"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			o := good
			tt.change(&o)
			_, err := New(Options{}).Fetch(t.Context(), o)
			if !errors.Is(err, ErrInvalidOptions) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}

func TestFetchTargetIsAFile(t *testing.T) {
	r, url, creds := httpsFixture(t)
	commit := r.commit("main", r.tree(r.file("a.yml", "1")))
	dir := filepath.Join(t.TempDir(), "model")
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := New(Options{}).Fetch(t.Context(), FetchOptions{URL: url, Creds: creds, Commit: commit, Dir: dir})
	if want := `target "` + dir + `": exists and is not a folder`; err == nil || err.Error() != want {
		t.Errorf("error %v, want %q", err, want)
	}
	_, err = New(Options{}).Fetch(t.Context(), FetchOptions{URL: url, Creds: creds, Commit: commit, Dir: dir + "/below"})
	if want := `target "` + dir + `/below": not a directory`; err == nil || err.Error() != want {
		t.Errorf("error %v, want %q", err, want)
	}
}
