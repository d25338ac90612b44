package plugin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/version"
	"github.com/quoin-dev/quoin/plugin/edit"
)

// promotion is the structured output of `promote`.
type promotion struct {
	Channel string `json:"channel"`
	Version string `json:"version"`
	// Change is what changes in the channel.
	Change  string         `json:"change"`
	Changed bool           `json:"changed"`
	DryRun  bool           `json:"dryRun"`
	Moves   []edit.Outcome `json:"moves"`
}

func promoteCommand(s *session) *cobra.Command {
	f, channel := &editFlags{}, ""
	c := &cobra.Command{
		Use:     "promote VERSION --channel CHANNEL",
		GroupID: groupEdit,
		Short:   "Offer a version in a channel, and show which deployments move",
		Long: `Makes a channel offer a version: a version that the channel has stopped is resumed, and a version is
added to spec.versions of a channel with an explicit list. Other channels take their versions from the
registry: push the tag instead. Lists what the controllers decide for each deployment of the channel.`,
		Example: `  # Who would move
  kubectl quoin promote 1.2.4 --channel stable --dry-run
  kubectl quoin promote 1.2.4 --channel stable`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: s.completeVersion,
	}
	f.register(c)
	c.Flags().StringVar(&channel, "channel", "", "Name of the release channel.")
	_ = c.MarkFlagRequired("channel")
	_ = c.RegisterFlagCompletionFunc("channel", s.completeChannel)
	c.RunE = run(func(ctx context.Context, args []string) error {
		p, err := s.promote(ctx, f, args[0], channel)
		if err != nil {
			return err
		}
		return f.print(s.Stdout, p, func(w io.Writer) error { return f.promotionTable(w, p) })
	})
	return c
}

func (s *session) promote(ctx context.Context, f *editFlags, written, name string) (*promotion, error) {
	v, err := version.Parse(strings.TrimPrefix(written, "v"))
	if err != nil {
		return nil, err
	}
	all, deployments, err := s.fleet(ctx)
	if err != nil {
		return nil, err
	}
	if err := checkChannel(all, []string{name}); err != nil {
		return nil, err
	}
	p := &promotion{Channel: name, Version: v.String(), DryRun: f.dryRun}
	var future *v1alpha1.ReleaseChannel
	named := &v1alpha1.ReleaseChannel{ObjectMeta: metav1.ObjectMeta{Name: name}}
	_, p.Changed, err = write(ctx, s.client, named, f, func(_ context.Context, _ client.Client, c *v1alpha1.ReleaseChannel) error {
		future = c.DeepCopy()
		if p.Change, err = edit.Promote(future, v, all); err != nil {
			return err
		}
		c.Spec = future.Spec // the status is that of the controller
		return nil
	})
	if err != nil {
		return nil, err
	}
	if future == nil {
		return nil, errors.New("the channel was not read")
	}
	p.Moves = edit.Moves(future, all, deployments)
	return p, nil
}

func (f *editFlags) promotionTable(w io.Writer, p *promotion) error {
	text := fmt.Sprintf("release channel %s %s", p.Channel, p.Change)
	if p.Changed && p.DryRun {
		text += " (dry run)"
	}
	moving := 0
	rows := make([][]string, 0, len(p.Moves))
	for _, m := range p.Moves {
		action := "stays"
		if m.Moves {
			action = "moves"
			moving++
		}
		rows = append(rows, []string{m.Namespace, m.Name, m.Current, m.Target, action, m.Why})
	}
	fmt.Fprintf(w, "%s; %d of %d deployments move\n", text, moving, len(p.Moves))
	if len(rows) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	return f.table(w, []string{"Namespace", "Name", "Current", "Target", "Action", "Why"}, rows)
}
