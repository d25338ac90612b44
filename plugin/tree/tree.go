// Package tree arranges a Deployment and its objects as a tree: channel, deployment, environments, pods.
package tree

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/engine"
	"github.com/quoin-dev/quoin/plugin/view"
)

// State is the state of an object, for its symbol.
type State string

// The states.
const (
	StateReady       State = "Ready"
	StateProgressing State = "Progressing"
	StateFailed      State = "Failed"
	// StateIdle objects are asleep or suspended.
	StateIdle    State = "Idle"
	StateUnknown State = "Unknown"
)

// symbols of the states.
var symbols = map[State]string{StateReady: "✔", StateProgressing: "◌", StateFailed: "✖", StateIdle: "☾", StateUnknown: "?"}

// Node is an object and those below it.
type Node struct {
	Kind   string `json:"kind"`
	Name   string `json:"name"`
	State  State  `json:"state"`
	Reason string `json:"reason,omitempty"`
	// Version that the object runs; "1.2.3 → 1.2.4" during a rollout.
	Version string `json:"version,omitempty"`
	// Done of Wanted pods are ready with the current version.
	Done   int `json:"done,omitempty"`
	Wanted int `json:"wanted,omitempty"`
	// Created is the time at which the object was created.
	Created time.Time `json:"created,omitzero"`
	// Info is further text, such as the branch.
	Info     string `json:"info,omitempty"`
	Children []Node `json:"children,omitempty"`
}

// Build returns the tree of a view.
func Build(v *view.View) Node {
	deployment := deploymentNode(v)
	for i := range v.Environments {
		deployment.Children = append(deployment.Children, environmentNode(v, &v.Environments[i]))
	}
	root := Node{Kind: "ReleaseChannel", Name: v.Deployment.Spec.ReleaseChannel, State: StateUnknown, Info: "not readable, or does not exist"}
	if v.Channel != nil {
		root = channelNode(v.Channel)
	}
	root.Children = []Node{deployment}
	return root
}

func channelNode(c *v1alpha1.ReleaseChannel) Node {
	n := nodeOf("ReleaseChannel", c)
	n.Version = c.Status.LatestVersion
	if c.Status.StoppedVersion != "" {
		n.Info = c.Status.StoppedVersion + " is stopped"
	}
	return n
}

func deploymentNode(v *view.View) Node {
	d := v.Deployment
	n := nodeOf("Deployment", d)
	n.Version = arrow(d.Status.CurrentVersion, d.Status.TargetVersion)
	var info []string
	switch {
	case d.Spec.ReleaseChannelVersion != "" && d.Status.Hold:
		info = append(info, "pinned")
	case d.Status.Hold:
		info = append(info, "held")
	}
	if f := d.Status.Failed; f != nil {
		info = append(info, f.Version.Version+" failed")
	}
	n.Info = strings.Join(info, ", ")
	return n
}

func environmentNode(v *view.View, e *v1alpha1.Environment) Node {
	n := nodeOf("Environment", e)
	n.Version = arrow(e.Status.Version, e.Spec.Version)
	n.Info = string(e.Spec.Type)
	if b := v.BranchOf(e); b != nil {
		n.Info += ", branch " + b.Spec.Name
		if view.IsStalled(b) {
			n.Info += ": " + view.Ready(b).Reason
		}
	}
	pods := v.PodsOf(e.Name)
	n.Wanted, n.Done = int(engine.Replicas(v.Deployment, e)), int(min(e.Status.UpdatedReplicas, e.Status.ReadyReplicas))
	if n.State == StateIdle {
		n.Wanted = 0
	}
	if len(pods) > 0 {
		n.Done = 0
	}
	for i := range pods {
		n.Children = append(n.Children, podNode(&pods[i]))
		if engine.ComponentOf(pods[i].Labels) == engine.ComponentAPI && PodReady(&pods[i]) && runs(&pods[i], e.Spec.Image) {
			n.Done++
		}
	}
	return n
}

// runs reports whether a pod runs an image.
func runs(pod *corev1.Pod, image string) bool {
	for i := range pod.Spec.Containers {
		if pod.Spec.Containers[i].Image == image {
			return true
		}
	}
	return false
}

// PodReady reports whether a pod is ready.
func PodReady(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue && pod.DeletionTimestamp.IsZero()
		}
	}
	return false
}

func podNode(pod *corev1.Pod) Node {
	n := Node{Kind: "Pod", Name: pod.Name, Created: pod.CreationTimestamp.Time, Info: engine.ComponentOf(pod.Labels), State: StateProgressing}
	for _, c := range pod.Spec.Containers {
		if c.Name == engine.ContainerServer {
			n.Version = versionOf(c.Image)
		}
	}
	n.Reason = cmp.Or(podReason(pod), string(pod.Status.Phase))
	switch {
	case !pod.DeletionTimestamp.IsZero():
		n.State, n.Reason = StateIdle, "Terminating"
	case PodReady(pod):
		n.State = StateReady
	case podReason(pod) != "" && podReason(pod) != "ContainerCreating" && podReason(pod) != "PodInitializing", pod.Status.Phase == corev1.PodFailed:
		n.State = StateFailed
	}
	return n
}

// podReason returns the reason for which a container of a pod waits, or has ended with an error.
func podReason(pod *corev1.Pod) string {
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range statuses {
			s := statuses[i].State
			switch {
			case s.Waiting != nil && s.Waiting.Reason != "":
				return s.Waiting.Reason
			case s.Terminated != nil && s.Terminated.ExitCode != 0:
				return cmp.Or(s.Terminated.Reason, "Error")
			}
		}
	}
	return pod.Status.Reason
}

// versionOf returns the version in the tag of an image reference, or nothing.
func versionOf(image string) string {
	image, _, _ = strings.Cut(image, "@")
	if i := strings.LastIndexByte(image, ':'); i >= 0 && !strings.Contains(image[i:], "/") {
		return strings.TrimPrefix(image[i+1:], "v")
	}
	return ""
}

// nodeOf returns the node of an object with conditions.
func nodeOf(kind string, o v1alpha1.Object) Node {
	ready := view.Ready(o)
	n := Node{Kind: kind, Name: o.GetName(), Created: o.GetCreationTimestamp().Time, Reason: ready.Reason, State: StateProgressing}
	switch {
	case ready.Status == metav1.ConditionTrue && (ready.Reason == v1alpha1.ReasonAsleep || ready.Reason == v1alpha1.ReasonSuspended):
		n.State = StateIdle
	case ready.Status == metav1.ConditionTrue:
		n.State = StateReady
	case view.IsStalled(o):
		n.State = StateFailed
	}
	return n
}

// arrow returns the change of a version, or the version if it does not change.
func arrow(from, to string) string {
	if from == "" || to == "" || from == to {
		return cmp.Or(from, to)
	}
	return from + " → " + to
}

// barWidth is the number of characters of a progress bar.
const barWidth = 10

// Bar returns a progress bar such as "█████░░░░░ 1/2"; empty if nothing is wanted.
func Bar(done, wanted int) string {
	if wanted <= 0 {
		return ""
	}
	full := min(done*barWidth/wanted, barWidth)
	return fmt.Sprintf("%s%s %d/%d", strings.Repeat("█", full), strings.Repeat("░", barWidth-full), done, wanted)
}

// Headers are the headers of Rows.
var Headers = []string{"Name", "Kind", "Status", "Version", "Ready", "Age", "Info"}

// Rows returns the tree as rows of a table. age formats the time since a time.
func (n Node) Rows(age func(time.Time) string) [][]string {
	return n.rows(nil, "", "", age)
}

func (n Node) rows(to [][]string, first, rest string, age func(time.Time) string) [][]string {
	created := ""
	if !n.Created.IsZero() {
		created = age(n.Created)
	}
	to = append(to, []string{
		first + n.Name, n.Kind, symbols[n.State] + " " + cmp.Or(n.Reason, string(n.State)), n.Version, Bar(n.Done, n.Wanted), created, n.Info,
	})
	for i, child := range n.Children {
		branch, below := "├─ ", "│  "
		if i == len(n.Children)-1 {
			branch, below = "└─ ", "   "
		}
		to = child.rows(to, rest+branch, rest+below, age)
	}
	return to
}
