package plugin

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/plugin/edit"
)

func versionsCommand(s *session) *cobra.Command {
	o := &output{}
	c := &cobra.Command{
		Use:     "versions [CHANNEL]",
		GroupID: groupRead,
		Short:   "Show the versions of the channels, and who runs them",
		Long: `Shows the versions of a channel, or of all, newest first: whether the first deployments have accepted
or stopped a version, how many deployments run it, and how many are to run it. With -o wide, their
names.

Without permission to list the deployments of all namespaces, those of the namespace are counted.`,
		Example: `  kubectl quoin versions
  kubectl quoin versions latest -o wide`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: s.completeChannel,
	}
	o.register(c, "wide")
	c.RunE = run(func(ctx context.Context, args []string) error {
		channels, deployments, err := s.fleet(ctx)
		if err != nil {
			return err
		}
		all := []edit.Version{}
		for i := range channels {
			if len(args) == 0 || channels[i].Name == args[0] {
				all = append(all, edit.Versions(&channels[i], deployments)...)
			}
		}
		if err := checkChannel(channels, args); err != nil {
			return err
		}
		return o.print(s.Stdout, all, func(w io.Writer) error { return o.versionsTable(w, all) })
	})
	return c
}

func (o *output) versionsTable(w io.Writer, all []edit.Version) error {
	headers := []string{"Channel", "Version", "State", "Tried", "Failed", "Run by", "Held", "Wanted by"}
	if o.format == "wide" {
		headers = append(headers, "Deployments", "Digest")
	}
	rows := make([][]string, 0, len(all))
	for _, v := range all {
		state := v.State
		if v.Latest {
			state = strings.TrimPrefix(state+", latest", ", ")
		}
		count := func(names []string) string { return strconv.Itoa(len(names)) }
		row := []string{v.Channel, v.Version, state, strconv.Itoa(int(v.Tried)), strconv.Itoa(int(v.Failed)), count(v.RunBy), count(v.HeldBy), count(v.WantedBy)}
		if o.format == "wide" {
			row = append(row, strings.Join(append(slices.Clone(v.RunBy), v.WantedBy...), ","), v.Digest)
		}
		rows = append(rows, row)
	}
	return o.table(w, headers, rows)
}

// fleet returns all channels and all deployments, or the deployments of the namespace if the caller may
// not list those of others.
func (s *session) fleet(ctx context.Context) ([]v1alpha1.ReleaseChannel, []v1alpha1.Deployment, error) {
	c, key, err := s.inNamespace("")
	if err != nil {
		return nil, nil, err
	}
	channels := &v1alpha1.ReleaseChannelList{}
	if err := c.List(ctx, channels); err != nil {
		return nil, nil, err
	}
	deployments := &v1alpha1.DeploymentList{}
	err = c.List(ctx, deployments)
	if isForbidden(err) {
		fmt.Fprintf(s.Stderr, "You may not list the deployments of all namespaces: only those of %s are shown.\n", key.Namespace)
		err = c.List(ctx, deployments, client.InNamespace(key.Namespace))
	}
	return channels.Items, deployments.Items, err
}

// checkChannel returns an error if the first argument names a channel that does not exist.
func checkChannel(all []v1alpha1.ReleaseChannel, args []string) error {
	if len(args) == 0 || slices.ContainsFunc(all, func(c v1alpha1.ReleaseChannel) bool { return c.Name == args[0] }) {
		return nil
	}
	return apierrors.NewNotFound(schema.GroupResource{Group: v1alpha1.Group, Resource: "releasechannels"}, args[0])
}
