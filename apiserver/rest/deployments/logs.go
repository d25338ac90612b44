package deployments

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/internal/engine"
	"github.com/quoin-dev/quoin/internal/masking"
	"github.com/quoin-dev/quoin/internal/podlogs"
)

// Limits of requests for logs (docs/decisions/0048).
const (
	// maxLogPods is the largest number of pods whose logs are read by one request.
	maxLogPods = 20
	// maxLogRequests and maxAccountLogRequests limit concurrent requests, of all accounts and of one.
	maxLogRequests        = 10
	maxAccountLogRequests = 2
)

// ReadLogsInput selects the logs.
type ReadLogsInput struct {
	rest.InDeployment
	First     rest.Optional[int]    `query:"first" minimum:"1" maximum:"1000" doc:"How many lines at most; 1000 when absent. Without after, the newest."`
	After     rest.Optional[string] `query:"after" maxLength:"2048" doc:"endCursor of an earlier response: only lines after it."`
	Source    rest.Optional[string] `query:"source" enum:"production,dev" doc:"production, or all other environments; both when absent."`
	Pod       rest.Optional[string] `query:"pod" maxLength:"253" doc:"One pod; when absent, the API pods and the refresh workers."`
	Container rest.Optional[string] `query:"container" enum:"INIT,MAIN,cubejs-server,vector,api-proxy" doc:"INIT is the container that fetches the data model, MAIN the main container of each pod, cubejs-server that of the server. The pods have no vector and api-proxy. When absent, MAIN, and INIT if it has not succeeded."`
}

// DeploymentLogLine is a line of a log.
type DeploymentLogLine struct {
	Date    time.Time `json:"date"`
	Pod     string    `json:"pod"`
	Message string    `json:"message" doc:"Secrets are replaced by [HIDDEN]. A message that begins with [quoin] is not from the log: it names a log that is missing."`
}

// DeploymentLogs is a page of lines, the oldest first.
type DeploymentLogs struct {
	Body struct {
		Items    []DeploymentLogLine `json:"items"`
		PageInfo rest.PageInfo       `json:"pageInfo"`
	}
}

// logPosition is the position of a line in the logs of a deployment, for cursors.
type logPosition struct {
	Time      time.Time `json:"t"`
	Pod       string    `json:"p"`
	Container string    `json:"c"`
	Previous  bool      `json:"r,omitempty"`
	Index     int       `json:"i,omitempty"`
}

func positionOf(l podlogs.Line) logPosition {
	return logPosition{l.Time, l.Source.Pod, l.Source.Container, l.Source.Previous, l.Index}
}

func (p logPosition) line() podlogs.Line {
	return podlogs.Line{Source: podlogs.Source{Pod: p.Pod, Container: p.Container, Previous: p.Previous}, Time: p.Time, Index: p.Index}
}

// readLogs returns the newest lines of the logs, or with a cursor the lines after it.
func (a *api) readLogs(ctx context.Context, in *ReadLogsInput) (*DeploymentLogs, error) {
	release, err := a.acquireLogs(rest.ScopeFrom(ctx).Namespace())
	if err != nil {
		return nil, err
	}
	defer release()
	d := rest.ScopeFrom(ctx).Deployment
	pods, err := a.podsOf(ctx, d)
	if err != nil {
		return nil, err
	}
	r := &logRequest{api: a, deployment: d, container: in.Container.Value}
	if r.pods, err = selectPods(d, pods, in); err != nil {
		return nil, err
	}
	if len(r.pods) > maxLogPods {
		r.notice("", "the logs of %d more pods are not read; name one with the parameter pod", len(r.pods)-maxLogPods)
		r.pods = r.pods[:maxLogPods]
	}
	if err := r.prepare(ctx); err != nil {
		return nil, err
	}
	page, err := rest.PaginateStored(ctx, rest.CursorPage{First: in.First, After: in.After}, r.fetch, positionOf)
	if err != nil {
		return nil, err
	}
	out := &DeploymentLogs{}
	out.Body.Items, out.Body.PageInfo = make([]DeploymentLogLine, 0, len(page.Body.Items)+len(r.notices)), page.Body.PageInfo
	for _, l := range page.Body.Items {
		out.Body.Items = append(out.Body.Items, DeploymentLogLine{l.Time, l.Source.Pod, l.Message})
	}
	out.Body.Items = append(out.Body.Items, r.notices...)
	return out, nil
}

// acquireLogs takes places for a request for logs of an account.
func (a *api) acquireLogs(account string) (release func(), err error) {
	own := a.accountLogs.Acquire(account)
	if own == nil {
		return nil, rest.NewProblem(http.StatusTooManyRequests, "too many concurrent requests for logs of this account: try again later")
	}
	all := a.allLogs.Acquire(struct{}{})
	if all == nil {
		own()
		return nil, rest.Unavailable("too many concurrent requests for logs: try again later")
	}
	return func() { own(); all() }, nil
}

// selectPods returns the pods whose logs a request asks for, the newest first.
func selectPods(d *v1alpha1.Deployment, pods []corev1.Pod, in *ReadLogsInput) ([]corev1.Pod, error) {
	var selected []corev1.Pod
	for _, p := range pods {
		component := engine.ComponentOf(p.Labels)
		isServer := component == engine.ComponentAPI || component == engine.ComponentRefresh
		isProduction := p.Labels[v1alpha1.LabelEnvironment] == v1alpha1.ProductionName(d.Name)
		switch {
		case in.Source.Value != "" && isProduction != (in.Source.Value == "production"):
		case in.Pod.Value == p.Name, in.Pod.Value == "" && isServer:
			selected = append(selected, p)
		}
	}
	if len(selected) == 0 && in.Pod.Value != "" {
		where := ""
		if in.Source.Value != "" {
			where = " with source " + in.Source.Value
		}
		return nil, rest.NotFound("pod: deployment %s has no pod %q%s", in.ID, rest.Clip(in.Pod.Value), where)
	}
	slices.SortStableFunc(selected, func(x, y corev1.Pod) int { return y.CreationTimestamp.Compare(x.CreationTimestamp.Time) })
	return selected, nil
}

// logRequest is a request for the logs of pods.
type logRequest struct {
	*api
	deployment *v1alpha1.Deployment
	pods       []corev1.Pod
	container  string
	sources    []podlogs.Source
	hide       func(lines []string)
	// notices are lines about logs that are missing.
	notices []DeploymentLogLine
}

// notice adds a line about a log that is missing.
func (r *logRequest) notice(pod, format string, args ...any) {
	r.notices = append(r.notices, DeploymentLogLine{r.Now().UTC(), pod, "[quoin] " + fmt.Sprintf(format, args...)})
}

// prepare chooses the logs, and reads the secrets that are hidden in them. A pod with a secret that is no
// longer known is left out.
func (r *logRequest) prepare(ctx context.Context) error {
	selected := map[string][]podlogs.Source{}
	var read []*corev1.Pod
	for i := range r.pods {
		p := &r.pods[i]
		if selected[p.Name] = sourcesOf(p, r.container); len(selected[p.Name]) > 0 {
			read = append(read, p)
		}
	}
	known, unknown, err := r.secretsOf(ctx, r.deployment.Namespace, read)
	if err != nil {
		return err
	}
	for _, p := range read {
		if missing := unknown[p.Name]; missing != "" {
			r.notice(p.Name, "the log is not shown: the pod has a secret from %s, which has been removed since, so that it could not be hidden", missing)
			continue
		}
		r.sources = append(r.sources, selected[p.Name]...)
	}
	replacer := known.Replacer()
	r.hide = func(lines []string) {
		for i, line := range lines {
			lines[i] = replacer.Replace(line)
		}
		masking.Lines(lines)
	}
	return nil
}

// fetch returns the newest lines, or with a position the lines after it.
func (r *logRequest) fetch(ctx context.Context, after *logPosition, limit int) (rest.StoredPage[podlogs.Line], error) {
	page := rest.StoredPage[podlogs.Line]{}
	q := podlogs.Query{Namespace: r.deployment.Namespace, Sources: r.sources, Lines: limit, Hide: r.hide}
	if after != nil {
		q.Since, q.Lines = after.Time, rest.MaxPageSize
	}
	found, err := podlogs.Tail(ctx, r.Logs, q)
	if err != nil {
		return page, err
	}
	if err := r.report(ctx, found.Failures); err != nil {
		return page, err
	}
	if after != nil {
		page.Items, page.HasPrevious = podlogs.After(found.Lines, after.line())
		page.HasPrevious = page.HasPrevious || found.Cut
		if len(page.Items) > limit {
			page.Items, page.HasNext = page.Items[:limit], true
		}
		return page, nil
	}
	page.Items, page.HasPrevious = podlogs.Newest(found.Lines, limit)
	page.HasPrevious = page.HasPrevious || found.Cut
	return page, nil
}

// report adds notices for logs that cannot be read. It returns an error if none can be.
func (r *logRequest) report(ctx context.Context, failures []podlogs.Failure) error {
	for _, f := range failures {
		// With addresses of the cluster, which are not for callers.
		log.FromContext(ctx).Info("Cannot read the log of a container", "namespace", r.deployment.Namespace, "pod", f.Source.Pod, "container", f.Source.Container, "reason", f.Err.Error())
		r.notice(f.Source.Pod, "the log of container %s cannot be read: its node does not return it", f.Source.Container)
	}
	if len(failures) > 0 && len(failures) == len(r.sources) {
		return rest.Unavailable("the nodes of the pods do not return the logs, such as that of container %s of pod %s (simulated nodes have none); try again later",
			failures[0].Source.Container, failures[0].Source.Pod)
	}
	return nil
}

// sourcesOf returns the logs of a pod that a value of the parameter container selects. Containers that
// have not been started have none.
func sourcesOf(p *corev1.Pod, container string) []podlogs.Source {
	var found []podlogs.Source
	for i, s := range containerStatuses(p) {
		isInit := i < len(p.Status.InitContainerStatuses)
		failed := s.State.Terminated == nil || s.State.Terminated.ExitCode != 0
		selected := false
		switch container {
		case "":
			selected = !isInit || failed
		case "INIT":
			selected = isInit
		case "MAIN":
			selected = !isInit
		case "cubejs-server":
			selected = s.Name == engine.ContainerServer
		}
		if !selected {
			continue
		}
		if last := s.LastTerminationState.Terminated; last != nil && last.ExitCode != 0 {
			found = append(found, podlogs.Source{Pod: p.Name, Container: s.Name, Previous: true, Started: last.StartedAt.Time})
		}
		switch state := s.State; {
		case state.Running != nil:
			found = append(found, podlogs.Source{Pod: p.Name, Container: s.Name, Started: state.Running.StartedAt.Time})
		case state.Terminated != nil:
			found = append(found, podlogs.Source{Pod: p.Name, Container: s.Name, Started: state.Terminated.StartedAt.Time})
		}
	}
	return found
}
