package plugin

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/quoin-dev/quoin/plugin/cause"
	"github.com/quoin-dev/quoin/plugin/view"
)

func whyCommand(s *session) *cobra.Command {
	o := &output{}
	c := &cobra.Command{
		Use:     "why NAME",
		GroupID: groupRead,
		Short:   "Explain why a deployment is not ready, and what to do next",
		Long: `Follows the conditions from the deployment over its channel, environments and branches to the pods
and their events, and prints the deepest cause and the next step. The exit code is 0 if the deployment
is ready, and 3 otherwise.`,
		Example: `  kubectl quoin why analytics -n demo
  kubectl quoin why analytics -n demo -o json`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: s.completeDeployment,
	}
	o.register(c)
	c.RunE = run(func(ctx context.Context, args []string) error {
		client, key, err := s.inNamespace(args[0])
		if err != nil {
			return err
		}
		v, err := view.Read(ctx, client, key, true)
		if err != nil {
			return err
		}
		r := cause.Find(v)
		if err := o.print(s.Stdout, r, func(w io.Writer) error { return explain(w, r) }); err != nil {
			return err
		}
		if !r.Ready {
			return errNotReady
		}
		return nil
	})
	return c
}

// explain prints a report.
func explain(w io.Writer, r cause.Report) error {
	var b strings.Builder
	state := "is not ready"
	switch {
	case r.Ready:
		state = "is ready"
	case r.Waiting:
		state = "is not ready yet"
	}
	fmt.Fprintf(&b, "%s/%s %s.\n", r.Namespace, r.Name, state)
	for i, f := range r.Chain {
		fmt.Fprintf(&b, "%s%s %s: %s\n", strings.Repeat("  ", i), f.Kind, f.Name, f.Reason)
		if f.Message != "" {
			fmt.Fprintf(&b, "%s  %s\n", strings.Repeat("  ", i), oneLine(f.Message))
		}
	}
	for i, step := range r.Next {
		label := "Next:"
		if i > 0 {
			label = "     "
		}
		fmt.Fprintf(&b, "%s %s\n", label, step)
	}
	if len(r.Unreadable) > 0 {
		fmt.Fprintf(&b, "You may not read %s: the cause may be there.\n", strings.Join(r.Unreadable, ", "))
	}
	return printers.WriteEscaped(w, b.String())
}
