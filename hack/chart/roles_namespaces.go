package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

// rule is a rule of a role: lists by field.
type rule = map[string][]string

// namespacedGroups are the API groups with kinds in namespaces, which Quoin accesses in watchNamespaces only; the other groups
// in clusterGroups. Events of Accounts are in the namespace "default".
var (
	namespacedGroups = []string{"", "apps", "discovery.k8s.io", "networking.k8s.io", "policy", v1alpha1.GroupVersion.Group}
	clusterGroups    = []string{"apiregistration.k8s.io", "authentication.k8s.io", "authorization.k8s.io", "events.k8s.io"}
)

// ownRules are what a component needs in the namespace of Quoin itself if its ClusterRole is restricted: claims on hosts, and
// Secrets for certificates and keys of tokens.
var ownRules = map[string][]rule{
	"controller": {
		{"apiGroups": {""}, "resources": {"secrets"}, "verbs": {"create"}},
		{"apiGroups": {v1alpha1.GroupVersion.Group}, "resources": {"claims"}, "verbs": {"create", "delete", "update"}},
	},
}

// componentScope returns the argument of templates for the labels of a component.
func componentScope(component string) string {
	return fmt.Sprintf(`(dict "root" $ "component" %q)`, component)
}

// writeComponentRules appends the rules of a role of a component, which depend on watchNamespaces. With namespaces, the
// ClusterRole has the rules for kinds without a namespace and for reads of Quoin's kinds, and a Role in each namespace the others.
func (r role) writeComponentRules(out *strings.Builder, component string) error {
	if r.Kind == "Role" {
		if err := writeRules(out, r.Rules); err != nil || ownRules[component] == nil {
			return err
		}
		own, err := yaml.Marshal(ownRules[component])
		fmt.Fprintf(out, "{{- if .Values.watchNamespaces }}\n%s{{- end }}\n", own)
		return err
	}
	cluster, namespaced, err := split(r.Rules)
	if err != nil {
		return fmt.Errorf("%s %q: %w", r.Kind, r.Metadata.Name, err)
	}
	out.WriteString("{{- if .Values.watchNamespaces }}\n")
	if err := writeRules(out, cluster); err != nil {
		return err
	}
	out.WriteString("{{- else }}\n")
	if err := writeRules(out, r.Rules); err != nil {
		return err
	}
	out.WriteString("{{- end }}\n{{- range .Values.watchNamespaces }}\n---\n")
	suffix := strings.TrimPrefix(r.Metadata.Name, configPrefix)
	fmt.Fprintf(out, "apiVersion: %s\nkind: Role\nmetadata:\n  name: {{ include \"quoin.fullname\" $ }}-%s\n  namespace: {{ . }}\n", r.APIVersion, suffix)
	fmt.Fprintf(out, "  labels:\n    {{- include \"quoin.labels\" %s | nindent 4 }}\n", componentScope(component))
	if err := writeRules(out, namespaced); err != nil {
		return err
	}
	out.WriteString("{{- end }}\n")
	return nil
}

func writeRules(out *strings.Builder, rules []rule) error {
	text, err := yaml.Marshal(map[string]any{"rules": rules})
	out.Write(text)
	return err
}

// split divides rules into those that apply in the whole cluster, and those that apply in namespaces if there are
// watchNamespaces.
func split(rules []rule) (cluster, namespaced []rule, err error) {
	for _, r := range rules {
		if len(r["apiGroups"]) != 1 {
			return nil, nil, fmt.Errorf("rule %v: want one group", r)
		}
		group := r["apiGroups"][0]
		if slices.Contains(clusterGroups, group) {
			cluster = append(cluster, r)
			continue
		}
		if !slices.Contains(namespacedGroups, group) {
			return nil, nil, fmt.Errorf("rule %v: say in hack/chart/roles_namespaces.go whether kinds of the group have a namespace", r)
		}
		inCluster, inNamespaces := divide(r["resources"], func(resource string) bool { return isCluster(group, resource) })
		cluster = appendRule(cluster, r, inCluster, r["verbs"])
		verbs := r["verbs"]
		if group == v1alpha1.GroupVersion.Group {
			var read []string
			read, verbs = divide(verbs, func(verb string) bool { return verb == "get" || verb == "list" || verb == "watch" })
			cluster = appendRule(cluster, r, inNamespaces, read)
		}
		namespaced = appendRule(namespaced, r, inNamespaces, verbs)
	}
	return cluster, namespaced, nil
}

// appendRule appends a part of a rule unless it is about nothing.
func appendRule(to []rule, of rule, resources, verbs []string) []rule {
	if len(resources) == 0 || len(verbs) == 0 {
		return to
	}
	part := maps.Clone(of)
	part["resources"], part["verbs"] = resources, verbs
	return append(to, part)
}

// divide returns the values that match, and the others.
func divide(values []string, match func(string) bool) (matching, others []string) {
	for _, value := range values {
		if match(value) {
			matching = append(matching, value)
		} else {
			others = append(others, value)
		}
	}
	return matching, others
}

// isCluster reports whether objects of a resource have no namespace.
func isCluster(group, resource string) bool {
	plural, _, _ := strings.Cut(resource, "/")
	if group != v1alpha1.GroupVersion.Group {
		return group == "" && plural == "namespaces"
	}
	return slices.ContainsFunc(v1alpha1.Kinds, func(k v1alpha1.Kind) bool { return k.Cluster && k.Plural == plural })
}
