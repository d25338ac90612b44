package starter

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/contenttest"
	"github.com/quoin-dev/quoin/internal/content/repository"
	"github.com/quoin-dev/quoin/internal/modeltree"
	"github.com/quoin-dev/quoin/internal/store"
	"github.com/quoin-dev/quoin/internal/store/storetest"
)

func created() *v1alpha1.Deployment {
	d := &v1alpha1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "sales", UID: "d1", CreationTimestamp: metav1.NewTime(time.Unix(1_790_000_000, 0))},
		Spec:       v1alpha1.DeploymentSpec{DisplayName: "Sales", Model: v1alpha1.ModelSource{Repository: &v1alpha1.RepositorySource{}}},
	}
	Request(d, "Ada Lovelace", "ada@example.com")
	return d
}

func open(t *testing.T, url string) func() *repository.Session {
	t.Helper()
	s := contenttest.Open(t, url, repository.Owner)
	all := &repository.Repositories{DB: s, Record: func(context.Context, *store.Tx, audit.Event) error { return nil }}
	scope := content.Scope{Account: store.Account{UID: "a1", Name: "demo"}, Deployment: store.Deployment{UID: "d1", Namespace: "demo", Name: "sales"}}
	return func() *repository.Session { return all.Session(t.Context(), scope) }
}

// TestEnsureMakesOneCommit: all that open a new repository at the same time find one and the same
// commit, and it stays when it is opened again.
func TestEnsureMakesOneCommit(t *testing.T) {
	storetest.ForEach(t, func(t *testing.T, newDatabase func(testing.TB) string) {
		session := open(t, newDatabase(t))
		var all sync.WaitGroup
		commits := make([]plumbing.Hash, 8)
		for i := range commits {
			all.Go(func() {
				s := session()
				if err := Ensure(s, created()); err != nil {
					t.Error(err)
				}
				b, err := s.Branch("main")
				if err != nil {
					t.Error(err)
				}
				commits[i] = b.Commit
			})
		}
		all.Wait()
		for _, commit := range commits {
			if commit != commits[0] {
				t.Fatalf("different commits: %v", commits)
			}
		}
		check(t, session(), commits[0])
		if err := Ensure(session(), created()); err != nil {
			t.Fatal(err)
		}
		if b, err := session().Branch("main"); err != nil || b.Commit != commits[0] {
			t.Errorf("%+v, %v", b, err)
		}
	})
}

func check(t *testing.T, s *repository.Session, commit plumbing.Hash) {
	t.Helper()
	c, err := object.GetCommit(s, commit)
	if err != nil {
		t.Fatal(err)
	}
	if c.Author.Name != "Ada Lovelace" || c.Author.Email != "ada@example.com" || c.NumParents() != 0 || c.Author.When.Unix() != 1_790_000_000 {
		t.Errorf("the commit is %v", c)
	}
	files, err := modeltree.Files(s, commit, "")
	if err != nil || len(files) != 2 || files[0].Path != "README.md" || files[1].Path != "model/cubes/cubes.yml" {
		t.Errorf("%+v, %v", files, err)
	}
}

// TestEnsureLeavesOtherRepositoriesAlone: those of deployments that do not request the commit, and
// those that have been pushed to.
func TestEnsureLeavesOtherRepositoriesAlone(t *testing.T) {
	session := open(t, storetest.SQLiteURL(t))
	unrequested := created()
	unrequested.Annotations = nil
	remote := created()
	remote.Spec.Model = v1alpha1.ModelSource{Git: &v1alpha1.GitSource{}}
	for _, d := range []*v1alpha1.Deployment{unrequested, remote} {
		if err := Ensure(session(), d); err != nil {
			t.Error(err)
		}
	}
	if all, err := session().Branches(); err != nil || len(all) != 0 {
		t.Fatalf("%+v, %v", all, err)
	}
	in := created()
	in.Spec.Model.Repository = &v1alpha1.RepositorySource{Branch: "live", Path: "apps/sales"}
	if err := Ensure(session(), in); err != nil {
		t.Fatal(err)
	}
	b, err := session().Branch("live")
	if err != nil {
		t.Fatal(err)
	}
	files, err := modeltree.Files(session(), b.Commit, "apps/sales")
	if err != nil || len(files) != 2 {
		t.Errorf("%+v, %v", files, err)
	}
	if err := Ensure(session(), created()); err != nil { // production is now main, which is not pushed yet
		t.Fatal(err)
	}
	if all, err := session().Branches(); err != nil || len(all) != 1 {
		t.Errorf("%+v, %v", all, err)
	}
}
