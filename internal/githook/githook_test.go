package githook

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	commit = "0123456789abcdef0123456789abcdef01234567"
	zero   = "0000000000000000000000000000000000000000"
)

func TestParse(t *testing.T) {
	github := `{"ref":"refs/heads/main","before":"` + zero + `","after":"` + commit + `","deleted":false,"repository":{"id":1,"default_branch":"main"},"commits":[{"id":"` + commit + `"}]}`
	pushed := &Push{Refs: []Ref{{"refs/heads/main", commit}}, DefaultBranch: "main"}
	for name, tc := range map[string]struct {
		contentType, body string
		want              *Push
	}{
		"GitHub":            {"application/json", github, pushed},
		"GitHub, form":      {"application/x-www-form-urlencoded", "payload=" + url.QueryEscape(github), pushed},
		"no Content-Type":   {"", github, pushed},
		"GitHub, deleted":   {"application/json", `{"ref":"refs/heads/main","after":"` + zero + `","deleted":true,"repository":{"default_branch":"main"}}`, &Push{DefaultBranch: "main"}},
		"GitLab":            {"application/json", `{"object_kind":"push","ref":"refs/heads/main","after":"` + commit + `","checkout_sha":"` + commit + `","project":{"default_branch":"main"},"repository":{"name":"dbt"}}`, pushed},
		"GitLab, deleted":   {"application/json", `{"ref":"refs/heads/main","after":"` + zero + `","project":{"default_branch":"main"}}`, &Push{DefaultBranch: "main"}},
		"GitLab, tag":       {"application/json", `{"object_kind":"tag_push","ref":"refs/tags/v1","after":"` + commit + `"}`, &Push{Refs: []Ref{{"refs/tags/v1", commit}}}},
		"Bitbucket Cloud":   {"application/json", `{"push":{"changes":[{"new":{"type":"branch","name":"main","target":{"hash":"` + commit + `"}}},{"new":{"type":"tag","name":"v1","target":{"hash":"` + commit + `"}}},{"new":null}]},"repository":{"name":"dbt"}}`, &Push{Refs: []Ref{{"refs/heads/main", commit}, {"refs/tags/v1", commit}}}},
		"Bitbucket":         {"application/json", `{"eventKey":"repo:refs_changed","changes":[{"ref":{"id":"refs/heads/main"},"toHash":"` + commit + `","type":"UPDATE"},{"ref":{"id":"refs/heads/old"},"toHash":"` + zero + `","type":"DELETE"}]}`, &Push{Refs: []Ref{{"refs/heads/main", commit}}}},
		"no commit":         {"application/json", `{"ref":"refs/heads/main"}`, &Push{Refs: []Ref{{Name: "refs/heads/main"}}}},
		"a made-up commit":  {"application/json", `{"ref":"refs/heads/main","after":"<script>"}`, &Push{Refs: []Ref{{Name: "refs/heads/main"}}}},
		"not a ref":         {"application/json", `{"ref":"main"}`, &Push{}},
		"the prefix only":   {"application/json", `{"ref":"refs/heads/"}`, &Push{}},
		"another ref":       {"application/json", `{"ref":"refs/pull/1/head"}`, &Push{}},
		"nothing":           {"application/json", `{}`, &Push{}},
		"null":              {"application/json", `null`, &Push{}},
		"empty":             {"application/json", ``, nil},
		"a list":            {"application/json", `[]`, nil},
		"a number as ref":   {"application/json", `{"ref":1}`, nil},
		"not JSON":          {"application/json", `ref=refs/heads/main`, nil},
		"another form":      {"application/x-www-form-urlencoded", "ref=refs/heads/main", nil},
		"a malformed form":  {"application/x-www-form-urlencoded", "payload=%zz", nil},
		"two values":        {"application/json", github + github, nil},
		"nested too deeply": {"application/json", strings.Repeat(`{"repository":`, 20_000), nil},
	} {
		got, err := Parse(tc.contentType, []byte(tc.body))
		if diff := cmp.Diff(tc.want, got); diff != "" || (err == nil) != (tc.want != nil) {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
}

func TestFind(t *testing.T) {
	p := &Push{Refs: []Ref{{Name: "refs/tags/main", Commit: "t"}, {Name: "refs/heads/main", Commit: "b"}, {Name: "refs/tags/v1", Commit: "v"}}}
	for name, want := range map[string]string{"main": "b", "v1": "v", "ain": "", "heads/main": "", "": "", "refs/heads/main": ""} {
		if got, found := p.Find(name); got.Commit != want || found != (want != "") {
			t.Errorf("%q: %+v", name, got)
		}
	}
}

func headerOf(pairs ...string) func(string) string {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Set(pairs[i], pairs[i+1])
	}
	return h.Get
}

func TestIsPush(t *testing.T) {
	for name, tc := range map[string]struct {
		header []string
		want   bool
	}{
		"no event":              {nil, true},
		"GitHub":                {[]string{"X-GitHub-Event", "push"}, true},
		"GitHub, ping":          {[]string{"X-GitHub-Event", "ping"}, false},
		"GitHub, a dispatch":    {[]string{"X-GitHub-Event", "workflow_dispatch"}, false},
		"Gitea":                 {[]string{"X-Gitea-Event", "push", "X-GitHub-Event", "push"}, true},
		"Gitea, a release":      {[]string{"X-Gitea-Event", "release"}, false},
		"GitLab":                {[]string{"X-Gitlab-Event", "Push Hook"}, true},
		"GitLab, tag":           {[]string{"X-Gitlab-Event", "Tag Push Hook"}, true},
		"GitLab, an issue":      {[]string{"X-Gitlab-Event", "Issue Hook"}, false},
		"Bitbucket Cloud":       {[]string{"X-Event-Key", "repo:push"}, true},
		"Bitbucket Data Center": {[]string{"X-Event-Key", "repo:refs_changed"}, true},
		"Bitbucket, a test":     {[]string{"X-Event-Key", "diagnostics:ping"}, false},
	} {
		if got := IsPush(headerOf(tc.header...)); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestDelivery: the id of the host counts, and without one the body.
func TestDelivery(t *testing.T) {
	body := []byte("{}")
	seen := map[string]string{}
	for name, got := range map[string]string{
		"GitHub":       Delivery(headerOf("X-GitHub-Delivery", "1"), body),
		"another id":   Delivery(headerOf("X-GitHub-Delivery", "2"), body),
		"another host": Delivery(headerOf("X-Request-UUID", "1"), body),
		"no id":        Delivery(headerOf(), body),
		"another body": Delivery(headerOf(), []byte("[]")),
	} {
		if len(got) != 64 || seen[got] != "" {
			t.Errorf("%s: %q, as %s", name, got, seen[got])
		}
		seen[got] = name
	}
	if Delivery(headerOf("X-GitHub-Delivery", "1"), body) != Delivery(headerOf("X-GitHub-Delivery", "1", "X-Request-Id", "9"), []byte("x")) {
		t.Error("a delivery that the host repeats is another one")
	}
}

// FuzzParse: whatever a host sends, refs are branches and tags, and commits are ids of objects.
func FuzzParse(f *testing.F) {
	f.Add("application/json", []byte(`{"ref":"refs/heads/main","after":"`+commit+`","repository":{"default_branch":"main"}}`))
	f.Add("application/x-www-form-urlencoded", []byte(`payload=%7B%7D`))
	f.Add("application/json", []byte(`{"push":{"changes":[{"new":{"type":"tag","name":"v1","target":{"hash":"x"}}}]}}`))
	f.Add("application/json", []byte(`{"changes":[{"ref":{"id":"refs/heads/a"},"toHash":"`+zero+`","type":"ADD"}]}`))
	f.Fuzz(func(t *testing.T, contentType string, body []byte) {
		p, err := Parse(contentType, body)
		if (p == nil) != (err != nil) {
			t.Fatalf("%v, %v", p, err)
		}
		if p == nil {
			return
		}
		for _, ref := range p.Refs {
			short := strings.TrimPrefix(strings.TrimPrefix(ref.Name, headsPrefix), tagsPrefix)
			if short == ref.Name || short == "" || ref.Commit != "" && !isHash(ref.Commit) {
				t.Errorf("%+v", ref)
			}
		}
	})
}
