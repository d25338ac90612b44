package main

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

// permission is what one rule of a role allows a user: one verb on one resource.
type permission struct {
	user, role            string
	group, resource, verb string
	// namespace is that of a RoleBinding; empty for all.
	namespace string
	// names are the names of the objects, separated by commas; empty for all.
	names string
	// optional: an administrator decides whether the role is bound, so the process must work without it.
	optional bool
}

// String returns the permission for people.
func (p permission) String() string {
	text := fmt.Sprintf("%s of %s: %s %s", shortUser(p.user), p.role, p.verb, qualified(p.group, p.resource))
	if p.names != "" {
		text += " " + p.names
	}
	return text
}

// qualified returns <resource>.<group>, as kubectl writes it.
func qualified(group, resource string) string {
	if group == "" {
		return resource
	}
	name, subresource, _ := strings.Cut(resource, "/")
	name += "." + group
	if subresource != "" {
		name += "/" + subresource
	}
	return name
}

// shortUser returns the name of a ServiceAccount without its namespace.
func shortUser(user string) string { return user[strings.LastIndex(user, ":")+1:] }

// object is a Role, ClusterRole, RoleBinding or ClusterRoleBinding.
type object struct {
	Kind     string
	Metadata struct{ Name, Namespace string }
	Rules    []rbacv1.PolicyRule
	RoleRef  rbacv1.RoleRef
	Subjects []rbacv1.Subject
	optional bool
}

// readPermissions returns what the bindings in the kustomize tree grant. The bindings in the samples are optional.
func readPermissions(config string) (map[permission]bool, error) {
	roles := map[string]object{}
	var bindings []object
	files, err := filepath.Glob(filepath.Join(config, "rbac", "*.yaml"))
	if err != nil {
		return nil, err
	}
	for _, file := range append(files, filepath.Join(config, "samples", "50-rolebinding.yaml")) {
		objects, err := readObjects(file)
		if err != nil {
			return nil, err
		}
		for _, o := range objects {
			switch o.Kind {
			case "Role", "ClusterRole":
				roles[o.Kind+" "+o.Metadata.Name] = o
			case "RoleBinding", "ClusterRoleBinding":
				o.optional = filepath.Base(filepath.Dir(file)) == "samples"
				bindings = append(bindings, o)
			}
		}
	}
	all := map[permission]bool{}
	for _, binding := range bindings {
		role := binding.RoleRef.Kind + " " + binding.RoleRef.Name
		if _, ok := roles[role]; !ok {
			return nil, fmt.Errorf("%s %s: no %s in %s", binding.Kind, binding.Metadata.Name, role, config)
		}
		for _, subject := range binding.Subjects {
			user := fmt.Sprintf("system:serviceaccount:%s:%s", subject.Namespace, subject.Name)
			for _, p := range permissionsOf(roles[role].Rules) {
				p.user, p.role, p.optional = user, role, binding.optional
				if binding.Kind == "RoleBinding" {
					p.namespace = binding.Metadata.Namespace
				}
				all[p] = true
			}
		}
	}
	return all, nil
}

// permissionsOf returns the permissions of rules.
func permissionsOf(rules []rbacv1.PolicyRule) []permission {
	var all []permission
	for _, rule := range rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					all = append(all, permission{group: group, resource: resource, verb: verb, names: strings.Join(rule.ResourceNames, ",")})
				}
			}
		}
	}
	return all
}

// readObjects reads the objects in a file.
func readObjects(file string) ([]object, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var objects []object
	for document := range bytes.SplitSeq(text, []byte("\n---\n")) {
		var o object
		if err := yaml.Unmarshal(document, &o); err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Base(file), err)
		}
		objects = append(objects, o)
	}
	return objects, nil
}

// comparePermissions orders permissions by user, role, resource and verb.
func comparePermissions(a, b permission) int {
	return cmp.Or(
		cmp.Compare(a.user, b.user), cmp.Compare(a.role, b.role), cmp.Compare(a.group, b.group),
		cmp.Compare(a.resource, b.resource), cmp.Compare(a.verb, b.verb), cmp.Compare(a.names, b.names),
	)
}
