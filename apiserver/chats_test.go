package apiserver

import (
	"context"
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/agentfiles"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/internal/agent/project"
	"github.com/quoin-dev/quoin/internal/content"
)

// stubFiles has a project for what production serves and one for the branch dev.
type stubFiles struct {
	served, dev *project.Project
	err         error
	scope       content.Scope
}

func (f *stubFiles) Served(_ context.Context, _ *v1alpha1.Deployment, s content.Scope) (*agentfiles.Read, error) {
	f.scope = s
	return &agentfiles.Read{Project: f.served}, f.err
}

func (f *stubFiles) OfBranch(_ context.Context, _ *v1alpha1.Deployment, _ content.Scope, branch string) (*agentfiles.Read, error) {
	if branch != "dev" {
		return nil, content.Errorf(content.NotFound, "branch %q does not exist", branch)
	}
	return &agentfiles.Read{Project: f.dev}, nil
}

func (f *stubFiles) OfEnvironment(_ context.Context, _ *v1alpha1.Deployment, s content.Scope, e *v1alpha1.Environment) (*agentfiles.Read, error) {
	f.scope = s
	return &agentfiles.Read{Project: f.served, Commit: e.Status.ModelCommit}, f.err
}

// TestConfiguredBy: a run has the files that production serves, or those of its branch.
func TestConfiguredBy(t *testing.T) {
	rule := func(text string) *project.Project {
		return project.Parse("agents", []project.File{{Path: "agents/rules/a.md", Text: []byte("---\ntype: always\n---\n" + text)}})
	}
	files := &stubFiles{served: rule("served"), dev: rule("dev")}
	d := &v1alpha1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: "sales", UID: "d1"}}
	a := &v1alpha1.Agent{ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: "analyst"}}
	// The requests of chats name no deployment.
	ctx := (&rest.Scope{Account: &v1alpha1.Account{ObjectMeta: metav1.ObjectMeta{Name: "acme", UID: "a1"}}}).With(t.Context())
	for branch, want := range map[string]string{"": "served", "dev": "dev"} {
		got, err := configuredBy(files)(ctx, a, d, branch)
		if err != nil || len(got.Rules) != 1 || got.Rules[0].Prompt != want || got.Name != "analyst" {
			t.Errorf("%q: %+v, %v", branch, got, err)
		}
	}
	if files.scope.Account.UID != "a1" || files.scope.Deployment.UID != "d1" || rest.ScopeFrom(ctx).Deployment != nil {
		t.Errorf("%+v", files.scope)
	}
	var rejected *content.Error
	if _, err := configuredBy(files)(ctx, a, d, "none"); !errors.As(err, &rejected) || rejected.Message != `the files of the agent: branch "none" does not exist` {
		t.Error(err)
	}
	e := &v1alpha1.Environment{Status: v1alpha1.EnvironmentStatus{ModelCommit: "abc"}}
	if got, commit, err := configuredAt(files)(ctx, a, d, e); err != nil || commit != "abc" || len(got.Rules) != 1 || got.Rules[0].Prompt != "served" {
		t.Errorf("%+v, %q, %v", got, commit, err)
	}
	files.err = agentfiles.ErrNotServed
	if _, _, err := configuredAt(files)(ctx, a, d, e); !errors.As(err, &rejected) || !strings.Contains(rejected.Message, "serves no commit") {
		t.Error(err)
	}
	if got, err := configuredBy(files)(ctx, a, d, ""); err != nil || len(got.Rules) != 0 {
		t.Errorf("%+v, %v", got, err)
	}
}
