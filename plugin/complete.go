package plugin

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

// completionTimeout limits the requests of a completion: the user waits for the key.
const completionTimeout = 3 * time.Second

// maxCompleted is the number of objects that a completion reads.
const maxCompleted = 500

// names returns the names of objects that begin with a text. Errors complete nothing.
func (s *session) names(list client.ObjectList, inNamespace bool, prefix string) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(context.Background(), completionTimeout)
	defer cancel()
	c, key, err := s.inNamespace("")
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	options := []client.ListOption{client.Limit(maxCompleted)}
	if inNamespace {
		options = append(options, client.InNamespace(key.Namespace))
	}
	if err := c.List(ctx, list, options...); err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var found []string
	_ = eachObject(list, func(o v1alpha1.Object) {
		if strings.HasPrefix(o.GetName(), prefix) {
			found = append(found, o.GetName())
		}
	})
	return found, cobra.ShellCompDirectiveNoFileComp
}

// completeDeployment completes the name of a deployment in the namespace as the first argument.
func (s *session) completeDeployment(_ *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return s.names(&v1alpha1.DeploymentList{}, true, prefix)
}

// completeChannel completes the name of a channel.
func (s *session) completeChannel(c *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 && c.Name() == "versions" {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return s.names(&v1alpha1.ReleaseChannelList{}, false, prefix)
}

// completeVersion completes a version of any channel.
func (s *session) completeVersion(_ *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	list := &v1alpha1.ReleaseChannelList{}
	if _, directive := s.names(list, false, ""); len(list.Items) == 0 {
		return nil, directive
	}
	var found []string
	for i := range list.Items {
		for _, v := range list.Items[i].Status.Versions {
			if strings.HasPrefix(v.Version, strings.TrimPrefix(prefix, "v")) && !slices.Contains(found, v.Version) {
				found = append(found, v.Version)
			}
		}
	}
	return found, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
}

// completeDeploymentAndVersion completes the arguments of `pin`.
func (s *session) completeDeploymentAndVersion(c *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	switch len(args) {
	case 0:
		return s.completeDeployment(c, args, prefix)
	case 1:
		return s.completeVersion(c, nil, prefix)
	}
	return nil, cobra.ShellCompDirectiveNoFileComp
}
