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

// GitHookPath is where Git hosts send the push hooks of a deployment. They are recognised by their
// signatures, and nowhere else.
const GitHookPath = buildPath + "/git-hook"

// GitHookInput says what a Git host tells. Its body is not read here: all branches are looked at,
// whatever it says of one.
type GitHookInput struct {
	rest.InDeployment
	Event string `header:"X-GitHub-Event" doc:"What GitHub tells of. A ping, which it sends when the hook is made, does nothing."`
}

// GitHookOutput says whether the repository will be read.
type GitHookOutput struct {
	Status int
	Body   struct {
		Success bool `json:"success"`
	}
}

// gitHook has the repository read soon. A deployment that is suspended has it read when it goes on.
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
	// Others count on this request: it goes on when its caller has gone.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), edit.Timeout)
	defer cancel()
	return out, edit.Annotate(recording.Named(ctx, audit.ReceivedGitHook), a.Kube, d, v1alpha1.AnnotationReconcile, a.now())
}

// describeSignature documents how Git hosts authenticate, and that the fetch happens later.
func describeSignature(doc *huma.OpenAPI, op *huma.Operation) {
	doc.Components.SecuritySchemes["gitHook"] = &huma.SecurityScheme{
		Type: "apiKey", In: "header", Name: "X-Hub-Signature-256",
		Description: "sha256= followed by the HMAC-SHA256 of the body in hexadecimal, with the secret in spec.model.git.webhookSecretRef. " +
			"Or X-Gitea-Signature, X-Hub-Signature, or the secret itself in X-Gitlab-Token.",
	}
	op.Security = append([]map[string][]string{{"gitHook": {}}}, doc.Security...)
	accepted := *op.Responses["200"]
	accepted.Description = http.StatusText(http.StatusAccepted)
	op.Responses["202"] = &accepted
}

// hookPause is the time between two requests to read the same repository.
const hookPause = time.Second

// hookTurns lets one hook of a deployment in a second have the repository read. Of more, one waits
// for the next second, and the others count on it: what they tell of has been pushed by then.
type hookTurns struct {
	clock clock.Clock

	mu sync.Mutex
	// turns are the last ones, or those that somebody waits for.
	turns map[types.UID]time.Time
}

func newHookTurns(clk clock.Clock) *hookTurns {
	return &hookTurns{clock: clk, turns: map[types.UID]time.Time{}}
}

// wait waits at most a second for the turn of a deployment, and returns false at once when
// somebody else waits for it.
func (h *hookTurns) wait(deployment types.UID) bool {
	pause, mine := h.take(deployment)
	if pause > 0 {
		<-h.clock.After(pause)
	}
	return mine
}

// take takes the next turn, and says how long it is until then; false when it is taken.
func (h *hookTurns) take(deployment types.UID) (time.Duration, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.clock.Now()
	maps.DeleteFunc(h.turns, func(_ types.UID, turn time.Time) bool { return now.Sub(turn) >= hookPause })
	last, recently := h.turns[deployment]
	switch {
	case !recently:
		h.turns[deployment] = now
		return 0, true
	case last.After(now):
		return 0, false
	}
	next := last.Add(hookPause)
	h.turns[deployment] = next
	return next.Sub(now), true
}
