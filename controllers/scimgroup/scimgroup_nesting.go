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

// maxNested is the maximum number of nested groups that are visited.
const maxNested = 1000

// findCycle returns a note on a group that contains itself, with the shortest path; empty if it does not.
// SCIM allows cycles and all traversals here terminate, but a cycle is probably a mistake.
func findCycle(ctx context.Context, c *kube.Client, g *v1alpha1.ScimGroup, groups []string) (string, error) {
	parent := map[string]string{} // the group from which a group was reached first
	var queue []string
	reach := func(names []string, from string) bool {
		for _, name := range names {
			if _, visited := parent[name]; visited {
				continue
			}
			parent[name] = from
			queue = append(queue, name)
		}
		return slices.Contains(names, g.Name)
	}
	found := reach(groups, g.Name)
	for len(queue) > 0 && !found && len(parent) <= maxNested {
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
	var path []string
	for name := parent[g.Name]; name != g.Name; name = parent[name] {
		path = append(path, fmt.Sprintf("%q", name))
	}
	slices.Reverse(path)
	if len(path) == 0 {
		return "the group is a member of itself", nil
	}
	return "the group contains itself, through " + strings.Join(path, ", "), nil
}

// groupsIn returns the groups that are members of a group; none if the group does not exist.
func groupsIn(ctx context.Context, c *kube.Client, namespace, name string) ([]string, error) {
	g := &v1alpha1.ScimGroup{}
	if found, err := scim.Exists(ctx, c, namespace, name, g); err != nil || !found {
		return nil, err
	}
	names := groupNames(g.Spec.EffectiveMembers())
	for _, ref := range g.Spec.Chunks() {
		chunk, err := chunkOf(ctx, c, namespace, ref.Name)
		if apierrors.IsNotFound(err) {
			continue // reported on that group
		}
		if err != nil {
			return nil, err
		}
		members := chunk.Spec.Members // no users
		if ref.Removed != "" {
			members = ref.MembersIn(&chunk.Spec)
		}
		names = append(names, slices.DeleteFunc(groupNames(members), g.Spec.RemovesMember)...)
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
