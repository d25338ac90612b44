package model

import "strings"

func testBranches(w *world) {
	created := w.call(ada, "POST", "/branches", map[string]any{"name": "feature/orders"}).is(200)
	if created.get("active") != false || created.get("branchName") != "feature/orders" || created.get("parentBranch") != "main" {
		w.Errorf("%s", created.raw)
	}
	if w.head("feature/orders") != w.head("main") || w.names() != "Created Git branch feature/orders" || w.moved != 1 {
		w.Error("the branch is not at the commit of main, has no event, or the controller was not told")
	}
	w.write("feature/orders", map[string]string{"model/o.yml": "o\n"})
	created = w.call(ada, "POST", "/branches", map[string]any{"name": "next", "from": "feature/orders", "enterDevMode": true}).is(200)
	if created.get("active") != true || created.get("parentBranch") != "feature/orders" || w.head("next") != w.head("feature/orders") {
		w.Errorf("%s", created.raw)
	}
	// It is active without a fork: files are written on personal branches.
	w.call(ada, "POST", "/commit", nil).is(400, `the caller has \"next\" active, a shared branch`)
	dev := w.enter(ada, "next")
	w.write(dev, map[string]string{"model/d.yml": "d\n"})
	w.call(ada, "POST", "/branches", map[string]any{"name": "saved", "from": dev}).is(200, `"parentBranch":"next"`)
	if w.head("saved") != w.head(dev) {
		w.Error("a branch from a personal branch is not at its commit")
	}
	mine := w.call(ada, "POST", "/branches", map[string]any{"name": "dev-mine", "activate": true}).is(200).get("branchName")
	w.write("dev-mine", map[string]string{"model/m.yml": "m\n"})
	w.call(ada, "POST", "/commit", nil).is(200)
	if mine != "dev-mine" || w.file("main", "model/m.yml") == "" {
		w.Error("a personal branch with a name of the caller's does not commit to its parent")
	}
	w.call(ada, "GET", "/branches", nil).is(200, `"name":"next","parentBranch":"feature/orders"`, `"name":"`+dev+`","parentBranch":"next"`)
	w.names()
	for _, query := range []string{"feature/orders", "next&removeOnUpstream=true"} {
		w.call(ada, "DELETE", "/branches?branchName="+query, nil).is(200, `"success":true`)
	}
	if got, want := w.names(), "Deleted Git branch feature/orders, Deleted Git branch next"; got != want || !w.head("next").IsZero() {
		w.Errorf("events %q, want %q", got, want)
	}
}

func testInvalidBranches(w *world) {
	w.call(ada, "POST", "/branches", map[string]any{"name": "next"}).is(200)
	before := w.moved
	for name, status := range map[string]int{
		"": 400, "a b": 400, "a..b": 400, "a/": 400, "/a": 400, "a.lock": 400, "@": 400, "-a": 400, "HEAD": 400, "a~1": 400, ".a": 400, "a//b": 400,
		strings.Repeat("x", 245): 400, "main": 409, "next": 409, "Next": 409, "next/x": 409,
	} {
		w.call(ada, "POST", "/branches", map[string]any{"name": name}).is(status, "name")
	}
	w.call(ada, "POST", "/branches", map[string]any{"name": "x", "from": "gone"}).is(400, "from", "gone")
	w.call(ada, "DELETE", "/branches?branchName=main", nil).is(400, "production branch")
	w.call(ada, "DELETE", "/branches?branchName=gone", nil).is(404, "gone")
	w.call(ada, "DELETE", "/branches", nil).is(400, "branchName")
	if w.moved != before {
		w.Error("a rejected request has moved a branch")
	}
}

func testDeletedParent(w *world) {
	w.call(ada, "POST", "/branches", map[string]any{"name": "release"}).is(200)
	w.call(ada, "POST", "/branches", map[string]any{"name": "next", "from": "release"}).is(200)
	w.call(bob, "POST", "/branches", map[string]any{"name": "y", "from": "next", "activate": true}).is(200)
	dev := w.enter(ada, "next")
	w.write(dev, map[string]string{"model/d.yml": "d\n"})
	w.call(eve, "POST", "/dev-mode", map[string]any{"branchName": "next"}).is(200)
	w.call(eve, "POST", "/branches", map[string]any{"name": "z", "activate": true}).is(200)
	w.call(ada, "DELETE", "/branches?branchName=next", nil).is(200)
	w.call(ada, "GET", "/branches", nil).is(200, `"name":"y","parentBranch":"release"`, `"name":"`+dev+`","parentBranch":"release"`)
	w.call(ada, "POST", "/commit", nil).is(200)
	if w.file("release", "model/d.yml") == "" || w.file("main", "model/d.yml") != "" {
		w.Error("the changes are not on the parent of the deleted branch")
	}
	w.call(ada, "DELETE", "/branches?branchName=z", nil).is(200)
	w.call(eve, "POST", "/commit", nil).is(400, "not in dev mode") // its active branch is deleted
}

func testMerge(w *world) {
	w.call(ada, "POST", "/branches", map[string]any{"name": "next"}).is(200)
	w.write("next", map[string]string{"model/n.yml": "n\n"})
	w.write("main", map[string]string{"model/m.yml": "m\n"})
	main, next := w.head("main"), w.head("next")
	w.names()
	w.call(ada, "POST", "/merge", map[string]any{"branchName": "next", "message": "Release"}).is(200, `"merged":true`, `"branchDeleted":false`)
	c := w.commitOf("main")
	if c.Message != "Release\n" || len(c.ParentHashes) != 2 || c.ParentHashes[0] != main || c.ParentHashes[1] != next || w.head("next") != next {
		w.Errorf("the merge is %v of %v", c, c.ParentHashes)
	}
	if w.file("main", "model/n.yml") == "" || w.file("main", "model/m.yml") == "" || w.names() != "Merged changes to data model main" {
		w.Error("main does not have both changes, or there is no event")
	}
	w.call(ada, "POST", "/merge", map[string]any{"branchName": "next"}).is(200, `"merged":true`)
	if w.head("main") != c.Hash || w.names() != "" {
		w.Error("a branch is merged twice")
	}
	dev := w.enter(ada, "next")
	w.write(dev, map[string]string{"model/1.yml": "1\n"})
	w.write(dev, map[string]string{"model/2.yml": "2\n"})
	w.call(ada, "POST", "/merge", map[string]any{"squashCommits": true, "switchToParentBranch": true, "deleteBranch": true}).is(200, `"branchDeleted":true`)
	if c := w.commitOf("next"); len(c.ParentHashes) != 1 || c.ParentHashes[0] != next || c.Message != "Merge branch '"+dev+"' into 'next'\n" || !w.head(dev).IsZero() {
		w.Errorf("the squashed merge is %v on %v", c, c.ParentHashes)
	}
	w.call(ada, "POST", "/commit", nil).is(400, `\"next\" active`)
	w.call(ada, "POST", "/merge", map[string]any{"switchToParentBranch": true}).is(200)
	w.call(ada, "POST", "/commit", nil).is(400, "not in dev mode")
	if w.file("main", "model/2.yml") == "" {
		w.Error("the active branch was not merged")
	}
}

func testMergeToDefault(w *world) {
	w.call(ada, "POST", "/branches", map[string]any{"name": "release"}).is(200)
	w.call(ada, "POST", "/branches", map[string]any{"name": "next", "from": "release"}).is(200)
	w.write("next", map[string]string{"model/n.yml": "n\n"})
	w.call(ada, "POST", "/merge-to-default", map[string]any{"branchName": "next", "removeBranchAfterMerge": false}).is(200, `"branchDeleted":false`)
	if w.file("main", "model/n.yml") == "" || w.file("release", "model/n.yml") != "" || w.head("next").IsZero() {
		w.Error("the branch is not merged into production, or is deleted")
	}
	dev := w.enter(ada, "next")
	w.write(dev, map[string]string{"model/d.yml": "d\n"})
	w.call(ada, "POST", "/merge-to-default", map[string]any{"message": "Ship"}).is(200, `"branchDeleted":true`)
	if w.file("main", "model/d.yml") == "" || !w.head(dev).IsZero() || w.commitOf("main").Message != "Ship\n" {
		w.Error("the active branch is not merged into production and deleted")
	}
	w.call(ada, "POST", "/commit", nil).is(400, "not in dev mode")
	id := int64(0)
	branches, err := w.Branches(w.Context(), w.deployment)
	w.must(err)
	for _, b := range branches {
		if b.Spec.Name == "next" {
			id = b.Status.ID
		}
	}
	w.call(ada, "POST", "/merge-to-default", map[string]any{"branchId": id}).is(200, `"branchDeleted":true`)
	if !w.head("next").IsZero() || w.head("main").IsZero() {
		w.Error("the branch with the id is not deleted")
	}
}

func testInvalidMerges(w *world) {
	w.call(ada, "POST", "/branches", map[string]any{"name": "next"}).is(200)
	w.write("island", map[string]string{"x.yml": "x\n"})
	before := w.head("main")
	for _, path := range []string{"/merge", "/merge-to-default"} {
		w.call(ada, "POST", path, nil).is(400, "branchName")
		w.call(ada, "POST", path, map[string]any{"branchName": "main"}).is(400, "main", "production")
		w.call(ada, "POST", path, map[string]any{"branchName": "gone"}).is(404, "gone")
		w.call(ada, "POST", path, map[string]any{"branchId": 4711}).is(404, "4711")
		w.call(ada, "POST", path, map[string]any{"branchName": "next", "branchId": 1}).is(400, "branchName", "branchId")
		w.call(ada, "POST", path, map[string]any{"branchName": "island"}).is(409, "no commit in common")
	}
	if w.head("main") != before {
		w.Error("a rejected merge has changed main")
	}
}

func testPull(w *world) {
	w.call(ada, "POST", "/pull", nil).is(200, `"buildTriggered":false`, "nothing to pull")
	dev := w.enter(ada, "main")
	w.call(ada, "POST", "/pull", nil).is(200, `"buildTriggered":false`)
	w.write("main", map[string]string{"model/m.yml": "m\n"})
	w.names()
	w.call(ada, "POST", "/pull", nil).is(200, `"buildTriggered":true`)
	if w.head(dev) != w.head("main") || w.names() != "Pulled changes to data model "+dev {
		w.Error("a branch without changes is not at the commit of its parent, or there is no event")
	}
	w.write(dev, map[string]string{"model/d.yml": "d\n"})
	w.write("main", map[string]string{"model/m.yml": "m2\n"})
	w.call(ada, "POST", "/pull", map[string]any{"branchName": dev}).is(200, `"buildTriggered":true`)
	if w.file(dev, "model/d.yml") == "" || w.file(dev, "model/m.yml") != "m2\n" || w.commitOf(dev).NumParents() != 2 {
		w.Error("the parent is not merged into the branch")
	}
	w.call(ada, "POST", "/pull", nil).is(200, `"buildTriggered":false`)
	w.call(ada, "POST", "/commit", nil).is(200)
	if c := w.commitOf("main"); c.NumParents() != 1 || w.file("main", "model/d.yml") == "" {
		w.Errorf("after the pull, the commit is %v", c)
	}
	w.call(ada, "POST", "/pull", map[string]any{"branchName": "gone"}).is(404, "gone")
}
