package plugin

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	apiversion "k8s.io/apimachinery/pkg/version"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/channels"
	"github.com/quoin-dev/quoin/internal/kube"
	"github.com/quoin-dev/quoin/plugin/check"
	"github.com/quoin-dev/quoin/plugin/view"
)

// components are the values of check.LabelComponent.
var components = []string{"controller", "apiserver", "gateway"}

// controllerLease is the name of the Lease of the leader.
const controllerLease = "quoin-controller"

// overview is the structured output of `status`.
type overview struct {
	Plugin     string           `json:"plugin"`
	Kubernetes string           `json:"kubernetes"`
	Processes  []process        `json:"processes"`
	Channels   []channelSummary `json:"channels"`
	Kinds      []kindSummary    `json:"kinds"`
	// Unreadable are resources that the caller may not read.
	Unreadable []string `json:"unreadable,omitempty"`
	// Missing are kinds that the cluster does not have: its CRDs are of an earlier release than the plugin.
	Missing []string `json:"missing,omitempty"`
}

// process is a part of the installation.
type process struct {
	Name    string `json:"name"`
	Ready   string `json:"ready"`
	Version string `json:"version,omitempty"`
	Info    string `json:"info,omitempty"`
}

// channelSummary is a channel and the deployments that follow it.
type channelSummary struct {
	Name        string `json:"name"`
	Latest      string `json:"latest,omitempty"`
	Proven      string `json:"proven,omitempty"`
	Stopped     string `json:"stopped,omitempty"`
	Ready       string `json:"ready"`
	Reason      string `json:"reason"`
	Deployments int    `json:"deployments"`
	// Behind is the number of those that are to run another version, as quoin_releasechannel_deployments counts them.
	Behind int `json:"behind"`
}

// kindSummary counts the objects of a kind by the condition Ready.
type kindSummary struct {
	Kind     string `json:"kind"`
	Total    int    `json:"total"`
	Ready    int    `json:"ready"`
	Waiting  int    `json:"waiting"`
	NotReady int    `json:"notReady"`
	// Reasons are the reasons of those that are not ready, with their numbers.
	Reasons map[string]int `json:"reasons,omitempty"`
}

func statusCommand(s *session) *cobra.Command {
	o := &output{}
	c := &cobra.Command{
		Use:     "status",
		GroupID: groupRead,
		Short:   "Show the installation: processes, channels, and how many objects are ready",
		Long: `Shows the processes of Quoin with their versions, the channels with the deployments that are behind,
and the number of objects of each kind by the condition Ready: of all namespaces, or of that of -n. What
the caller may not read is named, and kinds that the cluster does not have.`,
		Example: `  kubectl quoin status
  kubectl quoin status -n demo
  kubectl quoin status -o json`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	o.register(c)
	c.RunE = run(func(ctx context.Context, _ []string) error {
		all, err := s.overview(ctx, !s.flags.connection.Changed("namespace"))
		if err != nil {
			return err
		}
		return o.print(s.Stdout, all, func(w io.Writer) error { return o.statusTables(w, all) })
	})
	return c
}

func (s *session) overview(ctx context.Context, everywhere bool) (*overview, error) {
	c, key, err := s.inNamespace("")
	if err != nil {
		return nil, err
	}
	if everywhere {
		key.Namespace = ""
	}
	all := &overview{Plugin: s.Version, Kinds: []kindSummary{}, Channels: []channelSummary{}, Processes: []process{}}
	if all.Kubernetes, err = s.kubernetesVersion(ctx); err != nil {
		return nil, err
	}
	channels, deployments := &v1alpha1.ReleaseChannelList{}, &v1alpha1.DeploymentList{}
	for _, step := range []struct {
		resource string
		read     func() error
	}{
		{"deployments in " + s.flags.systemNamespace, func() error { return s.readProcesses(ctx, c, all) }},
		{"the lease of the controller", func() error { return s.readLeader(ctx, c, all) }},
		{"apiservices", func() error { return s.readAPIService(ctx, c, all) }},
		{"releasechannels", func() error { return c.List(ctx, channels) }},
		{"deployments", func() error { return c.List(ctx, deployments, client.InNamespace(key.Namespace)) }},
	} {
		err := step.read()
		switch {
		case isForbidden(err):
			all.Unreadable = append(all.Unreadable, step.resource)
		case err != nil:
			return nil, err
		}
	}
	for i := range channels.Items {
		all.Channels = append(all.Channels, summarize(&channels.Items[i], deployments.Items))
	}
	for _, kind := range v1alpha1.Kinds {
		if !kind.HasConditions() || kind.Name() == "DbtSync" {
			continue
		}
		if err := s.countKind(ctx, c, kind, key.Namespace, all); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// kubernetesVersion returns the version of the API server. It is the first request of a command.
func (s *session) kubernetesVersion(ctx context.Context) (string, error) {
	answer, err := s.kubernetes(ctx, request{method: "GET", path: "/version"})
	if err != nil {
		return "", err
	}
	v := apiversion.Info{}
	if err := json.Unmarshal(answer.body, &v); err != nil || v.GitVersion == "" {
		return "", fmt.Errorf("%s does not answer as a Kubernetes API server", s.host())
	}
	return v.GitVersion, nil
}

// quoinProcesses selects Quoin's own Deployments.
func quoinProcesses(namespace string) *client.ListOptions {
	requirement, _ := labels.NewRequirement(check.LabelComponent, selection.In, components)
	return &client.ListOptions{Namespace: namespace, LabelSelector: labels.NewSelector().Add(*requirement)}
}

func (s *session) readProcesses(ctx context.Context, c client.Reader, all *overview) error {
	list := &appsv1.DeploymentList{}
	if err := c.List(ctx, list, quoinProcesses(s.flags.systemNamespace)); err != nil {
		return err
	}
	for i := range list.Items {
		d := &list.Items[i]
		wanted := int32(1)
		if d.Spec.Replicas != nil {
			wanted = *d.Spec.Replicas
		}
		all.Processes = append(all.Processes, process{d.Labels[check.LabelComponent], fmt.Sprintf("%d/%d", d.Status.ReadyReplicas, wanted), check.ImageVersion(d), d.Name})
	}
	return nil
}

func (s *session) readLeader(ctx context.Context, c client.Reader, all *overview) error {
	lease := &coordinationv1.Lease{}
	err := c.Get(ctx, client.ObjectKey{Namespace: s.flags.systemNamespace, Name: controllerLease}, lease)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	p := process{Name: "controller leader", Ready: "unknown", Info: "no Lease " + controllerLease + " in " + s.flags.systemNamespace + ": no controller, or one without leader election"}
	if err == nil {
		p.Ready = "no"
	}
	if err == nil && lease.Spec.RenewTime != nil && lease.Spec.LeaseDurationSeconds != nil && lease.Spec.HolderIdentity != nil {
		holder, _, _ := strings.Cut(*lease.Spec.HolderIdentity, "_")
		since := s.Now().Sub(lease.Spec.RenewTime.Time)
		p.Info = holder
		if int32(since.Seconds()) <= *lease.Spec.LeaseDurationSeconds && *lease.Spec.HolderIdentity != "" {
			p.Ready = "yes"
		}
	}
	all.Processes = append(all.Processes, p)
	return nil
}

// apiServiceName is the registration of the aggregated API.
const apiServiceName = "v1.api.platform.quoin.dev"

// apiService returns the registration of the aggregated API, or nil if there is none.
func apiService(ctx context.Context, c client.Reader) (*unstructured.Unstructured, error) {
	service := &unstructured.Unstructured{}
	service.SetGroupVersionKind(apiServiceKind)
	if err := c.Get(ctx, client.ObjectKey{Name: apiServiceName}, service); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return service, nil
}

func (s *session) readAPIService(ctx context.Context, c client.Reader, all *overview) error {
	service, err := apiService(ctx, c)
	if err != nil {
		return err
	}
	r := check.APIService(service)
	p := process{Name: "aggregated API", Ready: "yes", Info: r.Message}
	if r.Status != check.OK {
		p.Ready = "no"
	}
	all.Processes = append(all.Processes, p)
	return nil
}

func summarize(c *v1alpha1.ReleaseChannel, deployments []v1alpha1.Deployment) channelSummary {
	ready := view.Ready(c)
	sum := channelSummary{Name: c.Name, Latest: c.Status.LatestVersion, Proven: c.Status.ProvenVersion, Stopped: c.Status.StoppedVersion, Ready: string(ready.Status), Reason: ready.Reason}
	for i := range deployments {
		if d := &deployments[i]; d.Spec.ReleaseChannel == c.Name {
			sum.Deployments++
			if channels.FollowerOf(d).IsBehind(c) {
				sum.Behind++
			}
		}
	}
	return sum
}

// countKind counts the objects of a kind, page by page.
func (s *session) countKind(ctx context.Context, c client.Reader, kind v1alpha1.Kind, namespace string, all *overview) error {
	if kind.Cluster {
		namespace = ""
	}
	sum := kindSummary{Kind: kind.Name(), Reasons: map[string]int{}}
	empty, _ := kind.NewList().(client.ObjectList)
	for list, err := range kube.Pages(ctx, c, empty, client.InNamespace(namespace)) {
		if isForbidden(err) {
			if !slices.Contains(all.Unreadable, kind.Plural) {
				all.Unreadable = append(all.Unreadable, kind.Plural)
			}
			return nil
		}
		if isMissingKind(err) {
			all.Missing = append(all.Missing, kind.Plural)
			return nil
		}
		if err != nil {
			return err
		}
		if err := eachObject(list, sum.add); err != nil {
			return err
		}
	}
	all.Kinds = append(all.Kinds, sum)
	return nil
}

func (k *kindSummary) add(o v1alpha1.Object) {
	k.Total++
	ready := view.Ready(o)
	switch {
	case ready.Status == metav1.ConditionTrue:
		k.Ready++
		return
	case view.IsStalled(o):
		k.NotReady++
	default:
		k.Waiting++
	}
	k.Reasons[ready.Reason]++
}

func (o *output) statusTables(w io.Writer, all *overview) error {
	fmt.Fprintf(w, "Kubernetes %s, kubectl-quoin %s\n", all.Kubernetes, all.Plugin)
	var processes, channels, kinds [][]string
	for _, p := range all.Processes {
		processes = append(processes, []string{p.Name, p.Ready, p.Version, p.Info})
	}
	for _, c := range all.Channels {
		channels = append(channels, []string{c.Name, c.Latest, c.Proven, c.Stopped, c.Ready, c.Reason, strconv.Itoa(c.Deployments), strconv.Itoa(c.Behind)})
	}
	for _, k := range all.Kinds {
		var reasons []string
		for reason, n := range k.Reasons {
			reasons = append(reasons, fmt.Sprintf("%s: %d", reason, n))
		}
		slices.Sort(reasons)
		kinds = append(kinds, []string{k.Kind, strconv.Itoa(k.Total), strconv.Itoa(k.Ready), strconv.Itoa(k.Waiting), strconv.Itoa(k.NotReady), strings.Join(reasons, ", ")})
	}
	for _, t := range []struct {
		headers []string
		rows    [][]string
	}{
		{[]string{"Process", "Ready", "Version", "Info"}, processes},
		{[]string{"Channel", "Latest", "Proven", "Stopped", "Ready", "Reason", "Deployments", "Behind"}, channels},
		{[]string{"Kind", "Total", "Ready", "Waiting", "Not ready", "Reasons"}, kinds},
	} {
		if len(t.rows) == 0 {
			continue
		}
		fmt.Fprintln(w)
		if err := o.table(w, t.headers, t.rows); err != nil {
			return err
		}
	}
	if len(all.Unreadable) > 0 {
		fmt.Fprintf(w, "\nYou may not read: %s\n", strings.Join(all.Unreadable, ", "))
	}
	if len(all.Missing) > 0 {
		fmt.Fprintf(w, "\nThe CRDs are of an earlier release than this plugin, and lack: %s\n", strings.Join(all.Missing, ", "))
	}
	return nil
}
