package plugin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/plugin/tree"
	"github.com/quoin-dev/quoin/plugin/view"
)

// Redrawing of `get -w`: at most so often after changes, and at least so often.
const (
	shortestRedraw = 250 * time.Millisecond
	longestRedraw  = 5 * time.Second
)

// getOptions are the flags of `get`.
type getOptions struct {
	output
	allNamespaces, watch, wait bool
	timeout                    time.Duration
}

func getCommand(s *session) *cobra.Command {
	o := &getOptions{}
	c := &cobra.Command{
		Use:     "get [NAME]",
		GroupID: groupRead,
		Short:   "Show a deployment as a tree: channel, environments, pods, progress",
		Long: `Shows a deployment as a tree, and with -w until it is interrupted. Without a name, lists the
deployments of the namespace.`,
		Example: `  kubectl quoin get -A
  kubectl quoin get analytics -n demo -w
  # In a pipeline: exit code 0 when it is ready, 3 when it cannot get ready or the time is over
  kubectl quoin get analytics -n demo --wait --timeout 10m`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: s.completeDeployment,
	}
	o.register(c)
	c.Flags().BoolVarP(&o.allNamespaces, "all-namespaces", "A", false, "List the deployments of all namespaces.")
	c.Flags().BoolVarP(&o.watch, "watch", "w", false, "Redraw the tree after every change, until interrupted.")
	c.Flags().BoolVar(&o.wait, "wait", false, "Redraw the tree until the deployment is ready, or cannot get ready without a change.")
	c.Flags().DurationVar(&o.timeout, "timeout", 0, "End of --wait; none when 0.")
	o.validate = func(args []string) error {
		switch {
		case len(args) == 0 && (o.watch || o.wait):
			return errors.New("--watch and --wait need the name of a deployment")
		case o.timeout < 0:
			return fmt.Errorf("--timeout is %s, must not be negative", o.timeout)
		case o.timeout > 0 && !o.wait: // the exit code would not be whether the deployment is ready
			return errors.New("--timeout needs --wait")
		}
		return nil
	}
	c.RunE = run(func(ctx context.Context, args []string) error {
		switch {
		case len(args) == 0:
			return s.listDeployments(ctx, o)
		case o.watch || o.wait:
			return s.watchDeployment(ctx, o, args[0])
		}
		return s.showDeployment(ctx, o, args[0])
	})
	return c
}

// shown is the structured output of `get NAME`.
type shown struct {
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	URL       string    `json:"url,omitempty"`
	Ready     bool      `json:"ready"`
	Reason    string    `json:"reason"`
	Message   string    `json:"message,omitempty"`
	Tree      tree.Node `json:"tree"`
}

func shownOf(v *view.View) shown {
	d := v.Deployment
	ready := view.Ready(d)
	return shown{
		Namespace: d.Namespace, Name: d.Name, URL: d.Status.URL,
		Ready:  ready.Status == metav1.ConditionTrue,
		Reason: ready.Reason, Message: ready.Message, Tree: tree.Build(v),
	}
}

func (s *session) showDeployment(ctx context.Context, o *getOptions, name string) error {
	c, key, err := s.inNamespace(name)
	if err != nil {
		return err
	}
	v, err := view.Read(ctx, c, key, false)
	if err != nil {
		return err
	}
	all := shownOf(v)
	return o.print(s.Stdout, all, func(w io.Writer) error { return s.drawTree(w, o, v, all) })
}

// drawTree prints the header and the tree of a deployment.
func (s *session) drawTree(w io.Writer, o *getOptions, v *view.View, all shown) error {
	d := v.Deployment
	version := d.Status.CurrentVersion
	if d.Status.TargetVersion != "" && d.Status.TargetVersion != version {
		version = strings.TrimPrefix(version+" → "+d.Status.TargetVersion, " → ")
	}
	for _, line := range [][2]string{
		{"Name:", d.Name}, {"Namespace:", d.Namespace}, {"Version:", version}, {"URL:", d.Status.URL},
		{"Status:", all.Reason + ": " + all.Message}, {"Unreadable:", strings.Join(v.Unreadable, ", ")},
	} {
		if line[1] != "" {
			fmt.Fprintf(w, "%-12s %s\n", line[0], printers.EscapeTerminal(oneLine(line[1])))
		}
	}
	fmt.Fprintln(w)
	return o.table(w, tree.Headers, all.Tree.Rows(s.age))
}

func (s *session) listDeployments(ctx context.Context, o *getOptions) error {
	c, key, err := s.inNamespace("")
	if err != nil {
		return err
	}
	list := &v1alpha1.DeploymentList{}
	options := []client.ListOption{client.InNamespace(key.Namespace)}
	if o.allNamespaces {
		options = nil
	}
	if err := c.List(ctx, list, options...); err != nil {
		return err
	}
	all := make([]shown, 0, len(list.Items))
	rows := make([][]string, 0, len(list.Items))
	for i := range list.Items {
		d := &list.Items[i]
		one := shownOf(&view.View{Deployment: d})
		one.Tree = one.Tree.Children[0]
		all = append(all, one)
		row := one.Tree.Rows(s.age)[0]
		rows = append(rows, []string{d.Namespace, d.Name, d.Spec.ReleaseChannel, row[3], row[2], row[5], row[6]})
	}
	return o.print(s.Stdout, all, func(w io.Writer) error {
		if len(rows) == 0 {
			_, err := fmt.Fprintln(s.Stderr, "No deployments found.")
			return err
		}
		return o.table(w, []string{"Namespace", "Name", "Channel", "Version", "Status", "Age", "Info"}, rows)
	})
}

// isReady reports whether a deployment is ready, and no version is being rolled out in production: the status of the deployment says so
// a moment later.
func isReady(v *view.View) bool {
	for i := range v.Environments {
		e := &v.Environments[i]
		isRolledOut := e.Status.Version == e.Spec.Version || view.Ready(e).Status == metav1.ConditionTrue
		if e.Spec.Type == v1alpha1.EnvironmentProduction && !isRolledOut && !ptr.Deref(v.Deployment.Spec.Suspend, false) {
			return false
		}
	}
	return view.Ready(v.Deployment).Status == metav1.ConditionTrue
}

// watchDeployment redraws the tree after every change. Once the deployment has been read, requests that fail because the
// API server is unavailable, such as while it restarts, are repeated.
func (s *session) watchDeployment(ctx context.Context, o *getOptions, name string) error {
	c, key, err := s.inNamespace(name)
	if err != nil {
		return err
	}
	if o.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.timeout)
		defer cancel()
	}
	changes := s.changes(ctx, c, key)
	var last []byte
	for {
		v, err := view.Read(ctx, c, key, false)
		switch {
		case err == nil:
			if last, err = s.drawChange(o, v, last); err != nil {
				return err
			}
			switch {
			case o.wait && isReady(v):
				return nil
			case o.wait && view.IsStalled(v.Deployment) && v.Deployment.Status.ObservedGeneration == v.Deployment.Generation:
				return errNotReady
			}
		case last == nil || ctx.Err() != nil || !isUnavailable(err):
			return s.endOfWatch(ctx, o, err)
		case len(last) > 0: // the first failure
			fmt.Fprintln(s.Stderr, "error:", s.describe(err)+"; trying again")
			last = []byte{} // the next screen is drawn even if it is the same
		}
		if !pause(ctx, changes) {
			return s.endOfWatch(ctx, o, ctx.Err())
		}
	}
}

// drawChange prints the screen of a deployment, unless it is the last one. It returns the screen.
func (s *session) drawChange(o *getOptions, v *view.View, last []byte) ([]byte, error) {
	all := shownOf(v)
	var screen bytes.Buffer
	if err := o.print(&screen, all, func(w io.Writer) error { return s.drawTree(w, o, v, all) }); err != nil {
		return nil, err
	}
	if !bytes.Equal(screen.Bytes(), last) {
		s.redraw(screen.Bytes(), o.separator(), last == nil)
	}
	return screen.Bytes(), nil
}

// endOfWatch returns the error of a watch that has ended: none if it was interrupted, errNotReady if
// the time of --wait is over.
func (s *session) endOfWatch(ctx context.Context, o *getOptions, err error) error {
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return errNotReady
	case ctx.Err() != nil && !o.wait:
		return nil
	}
	return err
}

// redraw prints a screen: over the last one on a terminal, otherwise below it and a separator.
func (s *session) redraw(screen []byte, separator string, first bool) {
	switch {
	case printers.IsTerminal(s.Stdout):
		_, _ = s.Stdout.Write([]byte("\x1b[H\x1b[2J"))
	case !first:
		_, _ = io.WriteString(s.Stdout, separator)
	}
	_, _ = s.Stdout.Write(screen)
}

// pause waits for a change, and returns false when the context ends.
func pause(ctx context.Context, changes <-chan struct{}) bool {
	timer := time.NewTimer(longestRedraw)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	case <-changes:
	}
	select {
	case <-ctx.Done():
		return false
	case <-time.After(shortestRedraw):
		return true
	}
}

// changes returns a channel that receives a value after changes of the objects of a deployment. A watch
// that is not permitted, or that ends, is replaced by the longest pause between two reads.
func (s *session) changes(ctx context.Context, c client.WithWatch, key client.ObjectKey) <-chan struct{} {
	changed := make(chan struct{}, 1)
	in := client.InNamespace(key.Namespace)
	for _, w := range []struct {
		list    client.ObjectList
		options []client.ListOption
	}{
		{&v1alpha1.DeploymentList{}, []client.ListOption{in, client.MatchingFields{"metadata.name": key.Name}}},
		{&v1alpha1.EnvironmentList{}, []client.ListOption{in, client.MatchingFields{"spec.deploymentRef.name": key.Name}}},
		{&corev1.PodList{}, []client.ListOption{in, client.MatchingLabels{v1alpha1.LabelDeployment: key.Name}}},
	} {
		go func() {
			for ctx.Err() == nil {
				events, err := c.Watch(ctx, w.list, w.options...)
				if err == nil {
					forward(ctx, events, changed)
				}
				select {
				case <-ctx.Done():
				case <-time.After(longestRedraw):
				}
			}
		}()
	}
	return changed
}

// forward signals every event of a watch until it ends.
func forward(ctx context.Context, events watch.Interface, changed chan<- struct{}) {
	defer events.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case e, open := <-events.ResultChan():
			if !open || e.Type == watch.Error {
				return
			}
			select {
			case changed <- struct{}{}:
			default: // one signal is pending
			}
		}
	}
}
