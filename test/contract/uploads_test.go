package contract_test

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

// TestProjectIsDeployedTwice: the second time, only the files that have changed are uploaded, and those
// that are gone are deleted.
func TestProjectIsDeployedTwice(t *testing.T) {
	for name, paths := range map[string]func(id string) protocol{"newer": newer, "legacy": legacy} {
		t.Run(name, func(t *testing.T) {
			id := newRepository(t, acme, "deployed-"+name)
			c := acme.as(acme.admin)
			if name == "legacy" {
				c = caller{acme.host, acme.createDeployToken(t, id)} // without a scheme
			}
			first, uploaded := c.deploy(t, paths(id), firstProject)
			if len(uploaded) == 0 || first == "" {
				t.Errorf("%d files were uploaded, the commit is %q", len(uploaded), first)
			}
			c.wants(t, id, firstProject)
			before := object(t, acme, id).Annotations[v1alpha1.AnnotationReconcile]
			second, uploaded := c.deploy(t, paths(id), secondProject)
			if got := fmt.Sprint(uploaded); got != "[model/cubes/orders.yml model/views/sales.yml]" || second == first {
				t.Errorf("the second time %s were uploaded; the commit is %q after %q", got, second, first)
			}
			c.wants(t, id, secondProject)
			after := object(t, acme, id).Annotations[v1alpha1.AnnotationReconcile]
			if before == "" || after == before {
				t.Errorf("the controller was not told of the second upload: %q, %q", before, after)
			}
			if third, uploaded := c.deploy(t, paths(id), secondProject); third != second || len(uploaded) != 0 {
				t.Errorf("the third time %v were uploaded; the commit is %q after %q", uploaded, third, second)
			}
			if last := object(t, acme, id).Annotations[v1alpha1.AnnotationReconcile]; last != after {
				t.Error("the controller was told of an upload that changed nothing")
			}
		})
	}
}

// TestFinishIsRepeated: a client that has lost the answer gets it again, and nothing happens twice.
func TestFinishIsRepeated(t *testing.T) {
	id, c := newRepository(t, acme, "repeated"), acme.as(acme.admin)
	p := newer(id)
	transaction := c.call(t, "POST", p.start, map[string]any{}).is(200).want("deploymentName", "repeated").at("transaction")
	for path, text := range firstProject {
		c.sendFile(t, p.file, transaction, path, text).is(200).want("success", true)
	}
	body := map[string]any{"transaction": transaction, "files": firstProject.hashes(), "commitMessage": "From CI", "autoRemoveFiles": true, "awaitGitOperations": true}
	first := c.call(t, "POST", p.finish, body).is(200).at("lastHash")
	told := object(t, acme, id).Annotations[v1alpha1.AnnotationReconcile]
	c.call(t, "POST", p.finish, body).is(200).want("lastHash", first)
	if again := object(t, acme, id).Annotations[v1alpha1.AnnotationReconcile]; again != told {
		t.Error("the controller was told twice")
	}
	body["files"] = secondProject.hashes()
	c.call(t, "POST", p.finish, body).rejected(409, "transaction", "finished")
	c.sendFile(t, p.file, transaction, "a", "a").rejected(409, "transaction", "finished")
	csv := string(c.call(t, "GET", "/api/v1/audit-logs/export?search=repeated", nil).is(200).raw)
	for _, event := range []string{"Started uploading files", "Finished uploading files", "Triggered new build"} {
		if n := strings.Count(csv, event); n != 1 {
			t.Errorf("%q is recorded %d times:\n%s", event, n, csv)
		}
	}
}

func TestInvalidUploadsAreRejected(t *testing.T) {
	id, admin := newRepository(t, acme, "rejected"), acme.as(acme.admin)
	p := newer(id)
	admin.deploy(t, p, firstProject)
	transaction := admin.call(t, "POST", p.start, nil).is(200).at("transaction")
	one := map[string]any{"a": map[string]any{"hash": strings.Repeat("a", 40)}}
	for name, c := range map[string]struct {
		send   func(t *testing.T) *response
		status int
		words  []string
	}{
		"a file above the root": {func(t *testing.T) *response { return admin.sendFile(t, p.file, transaction, "../a", "x") }, 400, []string{"path", ".."}},
		"an absolute path":      {func(t *testing.T) *response { return admin.sendFile(t, p.file, transaction, "/a", "x") }, 400, []string{"path", "relative"}},
		"a path of Git":         {func(t *testing.T) *response { return admin.sendFile(t, p.file, transaction, ".git/hooks/x", "x") }, 400, []string{"path", ".git"}},
		"a large file": {func(t *testing.T) *response {
			return admin.sendFile(t, p.file, transaction, "a", strings.Repeat("x", 9<<20))
		}, 413, []string{"8388608"}},
		"an unknown transaction": {func(t *testing.T) *response { return admin.sendFile(t, p.file, "x", "a", "x") }, 404, []string{"transaction"}},
		"no transaction":         {func(t *testing.T) *response { return admin.sendFile(t, p.file, nil, "a", "x") }, 400, []string{"transaction"}},
		"no form":                {func(t *testing.T) *response { return admin.call(t, "POST", p.file, map[string]any{}) }, 415, []string{"multipart/form-data"}},
		"a form that is cut off": {func(t *testing.T) *response {
			return admin.send(t, p.file, strings.NewReader("--b\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\nx"), "multipart/form-data; boundary=b")
		}, 400, []string{"cut off"}},
		"a live preview of a branch": {func(t *testing.T) *response { return admin.call(t, "POST", p.start+"?live=true&branchName=main", nil) }, 400, []string{"live", "branchName"}},
		"an unknown branch":          {func(t *testing.T) *response { return admin.call(t, "POST", p.start+"?branchName=absent", nil) }, 404, []string{"branchName"}},
		"two branches": {func(t *testing.T) *response {
			return admin.call(t, "POST", p.start+"?branchName=a", map[string]any{"branchName": "b"})
		}, 400, []string{"branchName"}},
		"a finish without files": {func(t *testing.T) *response {
			return admin.call(t, "POST", p.finish, map[string]any{"transaction": transaction, "files": map[string]any{}})
		}, 400, []string{"files"}},
		"a file that was not sent": {func(t *testing.T) *response {
			return admin.call(t, "POST", p.finish, map[string]any{"transaction": transaction, "files": one})
		}, 400, []string{`"a"`, "not uploaded"}},
		"a transaction of another": {func(t *testing.T) *response { return globexOn(t, id, transaction) }, 404, []string{"deployment"}},
		"the hash of another file": {func(t *testing.T) *response {
			return admin.call(t, "POST", p.finish, map[string]any{"transaction": transaction, "files": map[string]any{"cube.js": one["a"]}})
		}, 400, []string{`"cube.js"`}},
		"a hash that is not one": {func(t *testing.T) *response {
			return admin.call(t, "POST", p.finish, map[string]any{"transaction": transaction, "files": map[string]any{"a": map[string]any{"hash": "x"}}})
		}, 400, []string{"hash"}},
		"an upload of another caller": {func(t *testing.T) *response {
			return (caller{acme.host, acme.createDeployToken(t, id)}).sendFile(t, p.file, transaction, "a", "x")
		}, 404, []string{"another caller"}},
	} {
		t.Run(name, func(t *testing.T) { c.send(t).rejected(c.status, c.words...) })
	}
	admin.wants(t, id, firstProject)
}

// globexOn continues an upload of acme as globex, in whose account the deployment does not exist.
func globexOn(t *testing.T, id string, transaction any) *response {
	return globex.as(globex.admin).sendFile(t, newer("9"+id).file, transaction, "a", "x")
}

func TestDeployTokens(t *testing.T) {
	id, other := newRepository(t, acme, "tokens"), newRepository(t, acme, "tokens-other")
	admin, route := acme.as(acme.admin), "/build/api/v1/deployments/"+id+"/deploy-token"
	created := admin.call(t, "POST", route, nil).is(200)
	created.want("deploymentId", id).want("url", "https://"+acme.host)
	token, _ := created.at("token").(string)
	created.want("command", "npx cubejs-cli deploy --token "+token)
	c := caller{acme.host, token}
	list := c.call(t, "GET", "/build/deploy/deployments", nil).is(200)
	if len(list.list("")) != 1 || list.at("0.name") != "tokens" {
		t.Errorf("%s", list.raw)
	}
	c.call(t, "GET", legacy(other).hashes, nil).rejected(403)
	c.call(t, "POST", legacy(other).start, nil).rejected(403)
	c.call(t, "GET", "/api/v1/deployments/"+id, nil).rejected(403)
	c.call(t, "POST", route, nil).rejected(403)
	c.call(t, "POST", strings.Replace(route, "deploy-token", "git-token", 1), nil).rejected(403, "cannot create tokens")
	c.call(t, "GET", "/api/v1/users/me", nil).is(200).want("isAdmin", false)
	(caller{globex.host, token}).call(t, "GET", "/build/deploy/deployments", nil).rejected(401)
	unauthenticated := caller{acme.host, ""}
	unauthenticated.call(t, "POST", "/v1/token", map[string]any{"token": token}).is(200).want("jwt", token)
	unauthenticated.call(t, "POST", "/v1/token", map[string]any{"token": token[:len(token)-2] + "AA"}).rejected(401, "no such deploy token")
	unauthenticated.call(t, "POST", "/v1/token", "x").rejected(401)

	second := acme.createDeployToken(t, id)
	c.call(t, "GET", legacy(id).hashes, nil).rejected(401, "no such deploy token")
	(caller{acme.host, second}).call(t, "GET", legacy(id).hashes, nil).is(200)
	logs, err := os.ReadFile(filepath.Join(os.TempDir(), "quoin-contract.log"))
	if err != nil {
		t.Fatal(err)
	}
	csv := admin.call(t, "GET", "/api/v1/audit-logs/export", nil).is(200).raw
	for _, secret := range []string{token, second} {
		signature := secret[strings.LastIndex(secret, ".")+1:]
		if strings.Contains(string(logs), signature) || strings.Contains(string(csv), signature) {
			t.Error("a log has a deploy token")
		}
	}
	if !strings.Contains(string(csv), "Created deploy token") {
		t.Error("the audit log has no event of the token")
	}
}

// TestEveryResponseToTheClientIsJSON: cubejs-cli fails at any other.
func TestEveryResponseToTheClientIsJSON(t *testing.T) {
	id := newRepository(t, acme, "json")
	c := caller{acme.host, acme.createDeployToken(t, id)}
	for _, path := range []string{"/files?live=x", "/absent", "/upload-file", "/finish-upload", "/start-upload?live=x", "/set-env"} {
		for _, method := range []string{"GET", "POST"} {
			got := c.call(t, method, "/build/deploy/"+id+path, nil)
			if got.header.Get("Content-Type") != "application/json" || got.at("error") == nil || got.status/100 != 4 {
				t.Errorf("%s: %d %s", got.what, got.status, got.raw)
			}
		}
	}
	c.call(t, "GET", "/devmode/"+id+"/status?lastHash=x", nil).rejected(400, "lastHash")
	c.call(t, "POST", "/devmode/"+id+"/token", nil).rejected(409, "branch")
}

func TestVariablesOfAnUpload(t *testing.T) {
	id := newRepository(t, acme, "variables-uploaded")
	c := caller{acme.host, acme.createDeployToken(t, id)}
	set := func(query, variables string) *response {
		return c.call(t, "POST", "/build/deploy/"+id+"/set-env"+query, map[string]any{"envVariables": variables})
	}
	shown := func() string {
		text := ""
		for _, v := range acme.as(acme.admin).call(t, "GET", "/api/v1/deployments/"+id+"/env-vars", nil).is(200).list("items") {
			text += fmt.Sprintf("%s=%s ", v["name"], v["value"])
		}
		return text
	}
	set("?replaceEnv=false", `{"CUBEJS_DB_TYPE":"postgres","CUBEJS_DB_PASS":"secret"}`).is(200)
	set("?replaceEnv=false", `{"CUBEJS_DB_TYPE":"mysql","CUBEJS_DB_NAME":"shop"}`).is(200)
	if got := shown(); got != "CUBEJS_DB_NAME=shop CUBEJS_DB_PASS=[ENCRYPTED] CUBEJS_DB_TYPE=postgres " {
		t.Error(got)
	}
	c.deploy(t, legacy(id), firstProject)
	set("?replaceEnv=false", `{"CUBEJS_DB_HOST":"db"}`).is(200) // after the first upload
	if got := shown(); strings.Contains(got, "CUBEJS_DB_HOST") {
		t.Error(got)
	}
	set("?replaceEnv=true", `{"CUBEJS_DB_HOST":"db"}`).is(200)
	if got := shown(); got != "CUBEJS_DB_HOST=db " {
		t.Error(got)
	}
	set("?replaceEnv=true", `{"CUBEJS_DB_PASS":"secret","CUBEJS_DB_HOST":"db"}`).is(200)
	before := object(t, acme, id).Generation
	set("?replaceEnv=true", `{"CUBEJS_DB_HOST":"db","CUBEJS_DB_PASS":"secret"}`).is(200)
	if generation := object(t, acme, id).Generation; generation != before {
		t.Error("the same variables again have changed the spec: all pods would be replaced")
	}
	for _, invalid := range []string{
		"", "x", "[]", "null", `{"A":1}`, `{"A":null}`, `{"A":"1","A":"2"}`, `{} {}`, `{"1":"x"}`, `{"A":"` + strings.Repeat("x", 40000) + `"}`,
	} {
		got := set("?replaceEnv=true", invalid)
		got.rejected(400)
		if strings.Contains(string(got.raw), "xxx") {
			t.Errorf("the error repeats a value: %s", got.raw)
		}
	}
	if got := shown(); got != "CUBEJS_DB_HOST=db CUBEJS_DB_PASS=[ENCRYPTED] " {
		t.Errorf("after requests that were rejected: %s", got)
	}
}

// TestCutOffUploadLeavesNothing: a body that ends in the middle of a file adds no file.
func TestCutOffUploadLeavesNothing(t *testing.T) {
	id, c := newRepository(t, acme, "cut-off"), acme.as(acme.admin)
	p := newer(id)
	c.deploy(t, p, firstProject)
	transaction := c.call(t, "POST", p.start, nil).is(200).at("transaction").(map[string]any)
	part := fmt.Sprintf("--b\r\nContent-Disposition: form-data; name=\"transaction\"\r\n\r\n{\"id\":%q}\r\n--b\r\nContent-Disposition: form-data; name=\"fileName\"\r\n\r\na\r\n"+
		"--b\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\nhalf", transaction["id"])
	c.send(t, p.file, io.MultiReader(strings.NewReader(part)), "multipart/form-data; boundary=b").rejected(400, "cut off")
	half := modelFiles{"a": "half"}
	c.call(t, "POST", p.finish, map[string]any{"transaction": transaction, "files": half.hashes()}).rejected(400, `"a"`, "not uploaded")
	c.wants(t, id, firstProject)
}

func filesOf(id string) string { return "/build/api/v1/deployments/" + id + "/data-model/files" }

// enterDevMode returns the personal branch of a caller, forked from production.
func (c caller) enterDevMode(t *testing.T, id string) string {
	t.Helper()
	name, _ := c.call(t, "POST", "/build/api/v1/deployments/"+id+"/dev-mode", map[string]any{"branchName": "main"}).is(200).at("branchName").(string)
	if name == "" {
		t.Fatal("no branch")
	}
	return name
}

func TestFilesAreListedAsATree(t *testing.T) {
	id, c := newRepository(t, acme, "tree"), acme.as(acme.admin)
	c.deploy(t, newer(id), firstProject)
	list := c.call(t, "GET", filesOf(id), nil).is(200)
	list.want("items.0.path", "/.gitignore").want("items.0.type", "file").want("items.1.path", "/cube.js").want("items.2.path", "/model").want("items.2.type", "directory").
		want("items.2.children.0.path", "/model/cubes").want("items.2.children.0.children.0.path", "/model/cubes/orders.yml").
		want("items.2.children.0.children.1.type", "file").want("items.length", 3.0).want("data.length", 3.0).want("items.0.content", nil)
	c.call(t, "GET", filesOf(id)+"?withContent=true", nil).is(200).want("items.0.content", "node_modules\n")
	// Pages are of roots: each has everything in it.
	one := c.call(t, "GET", filesOf(id)+"?first=2", nil).is(200).want("items.length", 2.0).want("pageInfo.hasNextPage", true)
	cursor, _ := one.at("pageInfo.endCursor").(string)
	two := c.call(t, "GET", filesOf(id)+"?first=2&after="+url.QueryEscape(cursor), nil).is(200)
	two.want("items.length", 1.0).want("items.0.children.0.children.length", 2.0).want("pageInfo.hasNextPage", false).want("pageInfo.hasPreviousPage", true)
	c.call(t, "GET", filesOf(id)+"?branchName=absent", nil).rejected(404, "branchName", "absent")
	c.call(t, "GET", filesOf(id)+"?after=x", nil).rejected(400, "after")
	c.call(t, "GET", filesOf(acme.id), nil).is(200).want("items.0.path", "/orders.yml") // on a Git host
	hashes := map[string]struct{ Hash string }{}
	if err := json.Unmarshal(c.call(t, "GET", newer(id).hashes, nil).is(200).raw, &hashes); err != nil || len(hashes) != len(firstProject) {
		t.Errorf("%v, %v", hashes, err)
	}
}

func TestFilesOfAPersonalBranchAreWritten(t *testing.T) {
	id, c := newRepository(t, acme, "written"), acme.as(acme.admin)
	c.deploy(t, newer(id), firstProject)
	branch := c.enterDevMode(t, id)
	want := maps.Clone(firstProject)
	check := func() {
		t.Helper()
		if got := c.files(t, id, branch); !maps.Equal(got, want) {
			t.Errorf("the branch has %q, want %q", got, want)
		}
	}
	put := func(path, text string) map[string]any {
		return map[string]any{"branchName": branch, "files": []map[string]string{{"path": path, "content": text}}}
	}
	c.call(t, "PUT", filesOf(id), put("/model/cubes/new.yml", "cubes: []\n")).is(200).want("success", true)
	c.call(t, "PUT", filesOf(id), map[string]any{"files": []map[string]string{{"path": "cube.js", "content": "// é\n"}}}).is(200) // the active branch
	want["model/cubes/new.yml"], want["cube.js"] = "cubes: []\n", "// é\n"
	check()
	rename := map[string]any{"branchName": branch, "files": []map[string]string{{"path": "model/cubes", "newPath": "model/all"}}}
	c.call(t, "POST", filesOf(id)+"/rename", rename).is(200).want("success", true)
	for _, name := range []string{"new.yml", "orders.yml", "users.yml"} {
		want["model/all/"+name] = want["model/cubes/"+name]
		delete(want, "model/cubes/"+name)
	}
	check()
	remove := map[string]any{"branchName": branch, "files": []map[string]string{{"path": "/model/all/new.yml"}, {"path": "cube.js"}}}
	c.call(t, "DELETE", filesOf(id), remove).is(200).want("success", true)
	delete(want, "model/all/new.yml")
	delete(want, "cube.js")
	check()
	c.wants(t, id, firstProject) // not changed; the caller reads its active branch
}

func TestInvalidWritesOfFilesAreRejected(t *testing.T) {
	id, c := newRepository(t, acme, "unwritten"), acme.as(acme.admin)
	c.deploy(t, newer(id), firstProject)
	put := func(branch any, paths ...string) map[string]any {
		var files []map[string]string
		for _, path := range paths {
			files = append(files, map[string]string{"path": path, "content": "x"})
		}
		return map[string]any{"branchName": branch, "files": files}
	}
	c.call(t, "PUT", filesOf(id), put(nil, "a")).rejected(400, "dev-mode")
	branch := c.enterDevMode(t, id)
	for name, body := range map[string]struct {
		body   any
		status int
		words  []string
	}{
		"production":      {put("main", "a"), 400, []string{"branchName", "production"}},
		"no branch":       {put("absent", "a"), 404, []string{"absent"}},
		"above the root":  {put(branch, "../a"), 400, []string{"path", ".."}},
		"a path twice":    {put(branch, "a", "/a"), 400, []string{"twice"}},
		"another case":    {put(branch, "CUBE.js"), 400, []string{"case"}},
		"a folder":        {put(branch, "model"), 400, []string{"folder"}},
		"below a file":    {put(branch, "cube.js/a"), 400, []string{"file"}},
		"NUL":             {put(branch, "a\x00"), 400, []string{"control"}},
		"no files":        {put(branch), 400, []string{"files"}},
		"a branch number": {map[string]any{"branchName": branch, "branchId": 1, "files": []map[string]string{{"path": "a", "content": "x"}}}, 400, []string{"branchId"}},
	} {
		t.Run(name, func(t *testing.T) { c.call(t, "PUT", filesOf(id), body.body).rejected(body.status, body.words...) })
	}
	c.call(t, "DELETE", filesOf(id), map[string]any{"branchName": branch, "files": []map[string]string{{"path": "absent"}}}).rejected(404, "absent")
	exists := map[string]any{"branchName": branch, "files": []map[string]string{{"path": "cube.js", "newPath": "model/cubes/users.yml"}}}
	c.call(t, "POST", filesOf(id)+"/rename", exists).rejected(409, "newPath", "exists")
	large := map[string]any{"branchName": branch, "files": []map[string]string{{"path": "a", "content": strings.Repeat("x", 5<<20)}}}
	if got := c.call(t, "PUT", filesOf(id), large); got.status != 413 {
		t.Errorf("%d %.200s", got.status, got.raw)
	}
	if got := c.files(t, id, branch); !maps.Equal(got, firstProject) {
		t.Errorf("the branch has %q", got)
	}
	(caller{acme.host, acme.createDeployToken(t, id)}).call(t, "PUT", filesOf(id), put(branch, "a")).rejected(403, "personal")
}

func TestConcurrentWritesOfFilesAreAllMade(t *testing.T) {
	id, c := newRepository(t, acme, "concurrent"), acme.as(acme.admin)
	c.deploy(t, newer(id), firstProject)
	branch := c.enterDevMode(t, id)
	const many = 6
	done := make(chan *response, many)
	for i := range many {
		go func() {
			done <- c.call(t, "PUT", filesOf(id), map[string]any{"branchName": branch, "files": []map[string]string{{"path": fmt.Sprint("f", i), "content": "x"}}})
		}()
	}
	for range many {
		(<-done).is(200)
	}
	if got := c.files(t, id, branch); len(got) != len(firstProject)+many {
		t.Errorf("the branch has %q", got)
	}
}
