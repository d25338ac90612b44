package scimgroup

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/controllers/scim"
	"github.com/quoin-dev/quoin/internal/kube"
)

// maxNested bounds how many groups below a group are looked at.
const maxNested = 1000

// findCycle is a note on a group that contains itself, by the shortest way; empty when it does
// not. SCIM allows it and nothing here follows members in circles, but it is hardly meant.
func findCycle(ctx context.Context, c *kube.Client, g *v1alpha1.ScimGroup, groups []string) (string, error) {
	above := map[string]string{} // the group through which a group was reached first
	var queue []string
	reach := func(names []string, from string) bool {
		for _, name := range names {
			if _, known := above[name]; known {
				continue
			}
			above[name] = from
			queue = append(queue, name)
		}
		return slices.Contains(names, g.Name)
	}
	found := reach(groups, g.Name)
	for len(queue) > 0 && !found && len(above) <= maxNested {
		name := queue[0]
		queue = queue[1:]
		below, err := groupsIn(ctx, c, g.Namespace, name)
		if err != nil {
			return "", err
		}
		found = reach(below, name)
	}
	if !found {
		return "", nil
	}
	var way []string
	for name := above[g.Name]; name != g.Name; name = above[name] {
		way = append(way, fmt.Sprintf("%q", name))
	}
	slices.Reverse(way)
	if len(way) == 0 {
		return "the group is a member of itself", nil
	}
	return "the group contains itself, through " + strings.Join(way, ", "), nil
}

// groupsIn are the groups that are members of a group; none when that does not exist.
func groupsIn(ctx context.Context, c *kube.Client, namespace, name string) ([]string, error) {
	g := &v1alpha1.ScimGroup{}
	if found, err := scim.Exists(ctx, c, namespace, name, g); err != nil || !found {
		return nil, err
	}
	names := groupNames(g.Spec.Members)
	for _, ref := range g.Spec.MemberChunks {
		chunk, err := chunkOf(ctx, c, namespace, ref.Name)
		if apierrors.IsNotFound(err) {
			continue // which that group says of itself
		}
		if err != nil {
			return nil, err
		}
		names = append(names, groupNames(chunk.Spec.Members)...)
	}
	return names, nil
}

func groupNames(list []v1alpha1.ScimMember) []string {
	var names []string
	for i := range list {
		if list[i].Type == typeGroup {
			names = append(names, list[i].Value)
		}
	}
	return names
}
