package plugin

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/channels"
	"github.com/quoin-dev/quoin/internal/fieldowner"
	"github.com/quoin-dev/quoin/internal/version"
	"github.com/quoin-dev/quoin/plugin/edit"
)

// writeAttempts is the number of times that a change is tried when others write the object.
const writeAttempts = 10

// editFlags are the flags of commands that change an object.
type editFlags struct {
	output
	dryRun, force bool
}

func (f *editFlags) register(c *cobra.Command) {
	f.output.register(c)
	c.Flags().BoolVar(&f.dryRun, "dry-run", false, "Show what would change, as validated by the API server, without changing it.")
	c.Flags().BoolVar(&f.force, "force", false, "Change fields that another manager such as Argo CD owns; it may set them back.")
}

// change changes a copy of an object.
type change[T client.Object] func(ctx context.Context, c client.Client, edited T) error

// write writes the changes of the object with the name of named, unless a program owns a changed field. It returns the
// object as it is afterwards, and whether it has changed.
func write[T client.Object](ctx context.Context, c client.Client, named T, f *editFlags, apply change[T]) (T, bool, error) {
	for attempt := 1; ; attempt++ {
		// Get keeps the fields of its argument that the response does not have: those of an earlier attempt.
		live, _ := named.DeepCopyObject().(T)
		if err := c.Get(ctx, client.ObjectKeyFromObject(live), live); err != nil {
			return live, false, err
		}
		edited, _ := live.DeepCopyObject().(T)
		if err := apply(ctx, c, edited); err != nil {
			return live, false, err
		}
		changed, err := fieldowner.Changed(live, edited)
		if err != nil || len(changed) == 0 {
			return live, false, err
		}
		if err := fieldowner.Check(live, changed); err != nil && !f.force {
			return live, false, fmt.Errorf("%w, or use --force", err)
		}
		options := []client.PatchOption{manager}
		if f.dryRun {
			options = append(options, client.DryRunAll)
		}
		patch, err := edit.Patch(live, edited)
		if err != nil {
			return live, false, err
		}
		err = c.Patch(ctx, edited, patch, options...)
		if (apierrors.IsConflict(err) || apierrors.IsInvalid(err) && hasChanged(ctx, c, live)) && attempt < writeAttempts {
			continue
		}
		return edited, err == nil, err
	}
}

// hasChanged reports whether an object was written since it was read. A JSON patch whose paths do not exist any more is invalid, before
// its resourceVersion is compared.
func hasChanged(ctx context.Context, c client.Client, read client.Object) bool {
	now, ok := read.DeepCopyObject().(client.Object)
	return ok && c.Get(ctx, client.ObjectKeyFromObject(read), now) == nil && now.GetResourceVersion() != read.GetResourceVersion()
}

// editDeployment runs a command that changes a deployment, and prints what the controller will decide.
func (s *session) editDeployment(ctx context.Context, f *editFlags, name string, apply func(*v1alpha1.Deployment) error) error {
	c, key, err := s.inNamespace(name)
	if err != nil {
		return err
	}
	named := &v1alpha1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	outcome := edit.Outcome{}
	d, changed, err := write(ctx, c, named, f, func(ctx context.Context, c client.Client, d *v1alpha1.Deployment) error {
		if err := apply(d); err != nil {
			return err
		}
		outcome, err = decide(ctx, c, d)
		return err
	})
	if err != nil {
		return err
	}
	return f.print(s.Stdout, outcome, func(w io.Writer) error {
		_, err := fmt.Fprintln(w, editText(d, outcome, changed, f.dryRun))
		return err
	})
}

// decide returns what the controller will decide. A version that is not available is an error, so that
// it is not written. Without permission to read the channels it is not known.
func decide(ctx context.Context, c client.Reader, d *v1alpha1.Deployment) (edit.Outcome, error) {
	unknown := edit.Outcome{Namespace: d.Namespace, Name: d.Name, Current: d.Status.CurrentVersion, Why: "you may not read the release channels"}
	offered, err := channels.List(ctx, c)
	if err != nil {
		if isForbidden(err) {
			return unknown, nil
		}
		return unknown, err
	}
	list := &v1alpha1.DeploymentList{}
	if err := c.List(ctx, list, client.InNamespace(d.Namespace)); err != nil && !isForbidden(err) {
		return unknown, err
	}
	if d.Status.CurrentVersion == "" && len(list.Items) == 0 {
		return unknown, nil
	}
	outcome, err := edit.Decide(d, offered, edit.Runs(list.Items))
	var notOffered *version.UnknownVersionError
	var noChannel *version.UnknownChannelError
	if err != nil && !errors.As(err, &notOffered) && !errors.As(err, &noChannel) {
		outcome.Why, err = err.Error(), nil // it does not depend on this change
	}
	return outcome, err
}

// editText returns the line that a command prints after a change.
func editText(d *v1alpha1.Deployment, o edit.Outcome, changed, dryRun bool) string {
	text := fmt.Sprintf("deployment %s/%s ", d.Namespace, d.Name)
	switch {
	case !changed:
		text += "unchanged"
	case dryRun:
		text += "would change (dry run)"
	default:
		text += "changed"
	}
	switch {
	case o.Target == "":
		text += ": " + o.Why
	case o.Moves && o.Current != "":
		text += fmt.Sprintf(": %s → %s (%s)", o.Current, o.Target, o.Why)
	case o.Moves:
		text += fmt.Sprintf(": installs %s (%s)", o.Target, o.Why)
	case o.Current == o.Target || o.Current == "":
		text += fmt.Sprintf(": stays on %s (%s)", o.Target, o.Why)
	default:
		text += fmt.Sprintf(": stays on %s, and not %s (%s)", o.Current, o.Target, o.Why)
	}
	return text
}

func pinCommand(s *session) *cobra.Command {
	f, untilNewer := &editFlags{}, false
	c := &cobra.Command{
		Use:     "pin NAME VERSION",
		GroupID: groupEdit,
		Short:   "Run a version, and keep it",
		Long: `Sets spec.releaseChannelVersion: the deployment runs the version at once, without waiting for a slot,
and keeps it. A version that is not available is refused, and the message lists those that are.`,
		Example: `  kubectl quoin pin analytics v1.2.3 -n demo
  kubectl quoin pin analytics 1.2.3 --until-newer --dry-run`,
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: s.completeDeploymentAndVersion,
	}
	f.register(c)
	c.Flags().BoolVar(&untilNewer, "until-newer", false, "Follow the channel again when it has a newer version (spec.hold: false).")
	c.RunE = run(func(ctx context.Context, args []string) error {
		return s.editDeployment(ctx, f, args[0], func(d *v1alpha1.Deployment) error {
			edit.Pin(d, args[1], untilNewer)
			return nil
		})
	})
	return c
}

func holdCommand(s *session) *cobra.Command {
	f := &editFlags{}
	c := &cobra.Command{
		Use:     "hold NAME",
		GroupID: groupEdit,
		Short:   "Keep the version that runs",
		Long: `Sets spec.hold: the deployment keeps its version, whatever the channel releases. kubectl quoin follow
ends it.`,
		Example:           `  kubectl quoin hold analytics -n demo`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: s.completeDeployment,
	}
	f.register(c)
	c.RunE = run(func(ctx context.Context, args []string) error {
		return s.editDeployment(ctx, f, args[0], func(d *v1alpha1.Deployment) error {
			edit.Hold(d)
			return nil
		})
	})
	return c
}

func followCommand(s *session) *cobra.Command {
	f, channel := &editFlags{}, ""
	c := &cobra.Command{
		Use:     "follow NAME",
		GroupID: groupEdit,
		Short:   "Follow the channel: end a pin or a hold",
		Long: `Removes spec.releaseChannelVersion and spec.hold: the deployment is upgraded to the newest version of
its channel that spec.upgradePolicy allows.`,
		Example: `  kubectl quoin follow analytics -n demo
  kubectl quoin follow analytics --channel stable --dry-run`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: s.completeDeployment,
	}
	f.register(c)
	c.Flags().StringVar(&channel, "channel", "", "Follow this channel from now on.")
	_ = c.RegisterFlagCompletionFunc("channel", s.completeChannel)
	c.RunE = run(func(ctx context.Context, args []string) error {
		return s.editDeployment(ctx, f, args[0], func(d *v1alpha1.Deployment) error {
			edit.Follow(d, channel)
			return nil
		})
	})
	return c
}

func rollbackCommand(s *session) *cobra.Command {
	f, to := &editFlags{}, ""
	c := &cobra.Command{
		Use:     "rollback NAME",
		GroupID: groupEdit,
		Short:   "Run the previous version again, and keep it",
		Long: `Pins the version that the deployment ran before the current one (status.history), or the one of
--to. kubectl quoin follow ends the pin.`,
		Example: `  kubectl quoin rollback analytics -n demo
  kubectl quoin rollback analytics --to 1.2.1`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: s.completeDeployment,
	}
	f.register(c)
	c.Flags().StringVar(&to, "to", "", "Version of status.history to run; the previous one when empty.")
	c.RunE = run(func(ctx context.Context, args []string) error {
		return s.editDeployment(ctx, f, args[0], func(d *v1alpha1.Deployment) error {
			_, err := edit.Rollback(d, to)
			return err
		})
	})
	return c
}

func retryCommand(s *session) *cobra.Command {
	f := &editFlags{}
	c := &cobra.Command{
		Use:     "retry NAME",
		GroupID: groupEdit,
		Short:   "Retry a version or commit that failed",
		Long: `Sets the annotation platform.quoin.dev/retry-requested-at: a version or a commit that failed is
rolled out again.`,
		Example:           `  kubectl quoin retry analytics -n demo`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: s.completeDeployment,
	}
	f.register(c)
	c.RunE = run(func(ctx context.Context, args []string) error { return s.retry(ctx, f, args[0]) })
	return c
}

// retry requests a retry. It is no change if nothing failed.
func (s *session) retry(ctx context.Context, f *editFlags, name string) error {
	c, key, err := s.inNamespace(name)
	if err != nil {
		return err
	}
	named := &v1alpha1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	d, changed, err := write(ctx, c, named, f, func(_ context.Context, _ client.Client, d *v1alpha1.Deployment) error {
		if d.Status.Failed != nil || d.Status.FailedModel != nil {
			edit.Retry(d, s.Now())
		}
		return nil
	})
	if err != nil {
		return err
	}
	outcome := edit.Outcome{Namespace: d.Namespace, Name: d.Name, Current: d.Status.CurrentVersion, Why: "nothing has failed"}
	switch {
	case changed && d.Status.Failed != nil:
		outcome.Target, outcome.Why, outcome.Moves = d.Status.Failed.Version.Version, "retried", true
	case changed:
		outcome.Why = "commit " + d.Status.FailedModel.Commit + " is retried"
	}
	return f.print(s.Stdout, outcome, func(w io.Writer) error {
		_, err := fmt.Fprintln(w, editText(d, outcome, changed, f.dryRun))
		return err
	})
}
