package deployments

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/internal/engine"
	"github.com/quoin-dev/quoin/internal/kube"
)

func (a *api) podsFamily() rest.Family {
	return rest.Family{Tag: "Pods", Description: "Pods of the environments of a deployment, and their logs.", Routes: []rest.Route{
		rest.Handle(http.MethodGet, deploymentPath+"/pods", "pods", v1alpha1.PermissionDeploymentRead, "List the pods of a deployment", a.listPods),
		rest.Handle(http.MethodGet, deploymentPath+"/logs", "logs", v1alpha1.PermissionDeploymentRead,
			"Get the newest log lines of the pods of a deployment; secrets are hidden", a.readLogs),
	}}
}

// DeploymentPod is a pod of an environment.
type DeploymentPod struct {
	Name         string   `json:"name"`
	Type         string   `json:"type" doc:"Component of the environment: api, refresh-worker, store-router or store-worker."`
	Status       string   `json:"status" doc:"The phase, or the reason why the pod does not run, as kubectl shows it."`
	Ready        bool     `json:"ready"`
	RestartCount int64    `json:"restartCount" minimum:"0" doc:"Restarts of all containers."`
	Containers   []string `json:"containers" doc:"Init containers first."`
}

// ListPodsInput has the parameters of the list.
type ListPodsInput struct {
	rest.InDeployment
	rest.CursorPage
}

// DeploymentPods is a page of pods.
type DeploymentPods struct {
	Body struct {
		Items    []DeploymentPod `json:"items"`
		PageInfo rest.PageInfo   `json:"pageInfo"`
	}
}

func (a *api) listPods(ctx context.Context, in *ListPodsInput) (*DeploymentPods, error) {
	pods, err := a.podsOf(ctx, rest.ScopeFrom(ctx).Deployment)
	if err != nil {
		return nil, err
	}
	page, err := rest.PaginateByCursor(ctx, in.CursorPage, pods, func(p corev1.Pod) string { return p.Name })
	if err != nil {
		return nil, err
	}
	out := &DeploymentPods{}
	out.Body.Items, out.Body.PageInfo = make([]DeploymentPod, len(page.Body.Items)), page.Body.PageInfo
	for i := range page.Body.Items {
		out.Body.Items[i] = podOf(&page.Body.Items[i])
	}
	return out, nil
}

// maxPods is the number of pods of a deployment after which no more are read.
const maxPods = 1000

// podsOf returns the pods of all environments of a deployment, by name, from the Kubernetes API server:
// they are not cached.
func (a *api) podsOf(ctx context.Context, d *v1alpha1.Deployment) ([]corev1.Pod, error) {
	var found []corev1.Pod
	labels := client.MatchingLabels{engine.LabelManagedBy: engine.ManagedBy, v1alpha1.LabelDeployment: d.Name}
	for list, err := range kube.Pages(ctx, a.Kube.Live(), &corev1.PodList{}, client.InNamespace(d.Namespace), labels) {
		if err != nil {
			return nil, fmt.Errorf("list pods: %w", err)
		}
		if found = append(found, list.Items...); len(found) >= maxPods {
			break
		}
	}
	slices.SortFunc(found, func(x, y corev1.Pod) int { return cmp.Compare(x.Name, y.Name) })
	return found, nil
}

func podOf(p *corev1.Pod) DeploymentPod {
	out := DeploymentPod{Name: p.Name, Type: engine.ComponentOf(p.Labels), Status: podStatus(p)}
	for _, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
		out.Containers = append(out.Containers, c.Name)
	}
	for _, s := range containerStatuses(p) {
		out.RestartCount += int64(s.RestartCount)
	}
	for _, c := range p.Status.Conditions {
		out.Ready = out.Ready || c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	}
	return out
}

// containerStatuses returns the statuses of the containers of a pod, init containers first.
func containerStatuses(p *corev1.Pod) []corev1.ContainerStatus {
	return slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses)
}

// podStatus returns why a pod does not run, or its phase.
func podStatus(p *corev1.Pod) string {
	if p.DeletionTimestamp != nil {
		return "Terminating"
	}
	for i, s := range containerStatuses(p) {
		isInit := i < len(p.Status.InitContainerStatuses)
		reason := ""
		switch state := s.State; {
		case state.Waiting != nil && state.Waiting.Reason != "PodInitializing":
			reason = state.Waiting.Reason
		case state.Terminated != nil && !(isInit && state.Terminated.ExitCode == 0):
			reason = cmp.Or(state.Terminated.Reason, fmt.Sprintf("ExitCode:%d", state.Terminated.ExitCode))
		}
		switch {
		case reason == "":
		case isInit:
			return "Init:" + strings.TrimPrefix(reason, "Init:")
		default:
			return reason
		}
	}
	return cmp.Or(p.Status.Reason, string(p.Status.Phase), "Unknown")
}
