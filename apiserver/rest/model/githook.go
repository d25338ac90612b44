package model

import (
	"context"
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/edit"
	"github.com/quoin-dev/quoin/apiserver/recording"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/internal/audit"
)

// GitHookPath is the path of push hooks of a deployment: the only route on which the signatures of Git
// hosts authenticate.
const GitHookPath = buildPath + "/git-hook"

// GitHookInput is the event of a Git host. Its body is not evaluated: all branches are fetched.
type GitHookInput struct {
	rest.InDeployment
	Event string `header:"X-GitHub-Event" doc:"The event of GitHub. A ping, which GitHub sends when the hook is created, does nothing."`
}

// GitHookOutput is the response: 202 if a fetch is triggered.
type GitHookOutput struct {
	Status int
	Body   struct {
		Success bool `json:"success"`
	}
}

// gitHook triggers a fetch of the repository. That of a suspended deployment happens when it resumes.
func (a *api) gitHook(ctx context.Context, in *GitHookInput) (*GitHookOutput, error) {
	d := rest.ScopeFrom(ctx).Deployment
	out := &GitHookOutput{Status: http.StatusAccepted}
	out.Body.Success = true
	switch {
	case in.Event == "ping":
		out.Status = http.StatusOK
		return out, nil
	case d.Spec.Model.Git == nil:
		return nil, rest.Conflict("the data model of deployment %s is not in Git: there is nothing to read", in.ID)
	case !a.hooks.wait(d.UID):
		return out, nil
	}
	// Other hooks rely on this request: it continues if its client disconnects.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), edit.Timeout)
	defer cancel()
	return out, edit.Annotate(recording.Named(ctx, audit.ReceivedGitHook), a.Kube, d, v1alpha1.AnnotationReconcile, a.now())
}

// describeSignature documents how Git hosts authenticate, and that the fetch happens later.
func describeSignature(doc *huma.OpenAPI, op *huma.Operation) {
	doc.Components.SecuritySchemes["gitHook"] = &huma.SecurityScheme{
		Type: "apiKey", In: "header", Name: "X-Hub-Signature-256",
		Description: "sha256= followed by the HMAC-SHA256 of the body in hexadecimal, with the secret in spec.model.git.webhookSecretRef. " +
			"Or X-Gitea-Signature, X-Hub-Signature, or the secret itself in X-Gitlab-Token. On the route of dbt syncs, the secret is that in spec.dbt.webhookSecretRef.",
	}
	op.Security = append([]map[string][]string{{"gitHook": {}}}, doc.Security...)
	accepted := *op.Responses["200"]
	accepted.Description = http.StatusText(http.StatusAccepted)
	op.Responses["202"] = &accepted
}

// hookInterval is the time between two fetches of a repository that hooks trigger.
const hookInterval = time.Second

// hookLimiter limits the fetches that hooks of a deployment trigger to one a second. Of several hooks
// within a second, one waits for the next slot and serves the others, whose commits have been pushed by
// then.
type hookLimiter struct {
	clock clock.Clock

	mu sync.Mutex
	// slots are the times of the last fetches, or of the next ones if a hook waits for them.
	slots map[types.UID]time.Time
}

func newHookLimiter(clk clock.Clock) *hookLimiter {
	return &hookLimiter{clock: clk, slots: map[types.UID]time.Time{}}
}

// wait waits for the next slot of a deployment, at most a second. It returns false immediately if another
// hook waits for that slot.
func (h *hookLimiter) wait(deployment types.UID) bool {
	delay, reserved := h.reserve(deployment)
	if delay > 0 {
		<-h.clock.After(delay)
	}
	return reserved
}

// reserve reserves the next slot and returns the time until then; false if it is reserved already.
func (h *hookLimiter) reserve(deployment types.UID) (time.Duration, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.clock.Now()
	maps.DeleteFunc(h.slots, func(_ types.UID, slot time.Time) bool { return now.Sub(slot) >= hookInterval })
	last, recently := h.slots[deployment]
	switch {
	case !recently:
		h.slots[deployment] = now
		return 0, true
	case last.After(now):
		return 0, false
	}
	next := last.Add(hookInterval)
	h.slots[deployment] = next
	return next.Sub(now), true
}
