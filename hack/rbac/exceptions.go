package main

import (
	"fmt"
	"slices"

	"sigs.k8s.io/yaml"
)

// exceptions are the reviewed differences between the roles and the requests.
type exceptions struct {
	// Unused are permissions that a test run need not use.
	Unused []exception
	// Forbidden are requests that a test run may send without permission.
	Forbidden []exception
}

// exception is a set of permissions or requests.
type exception struct {
	// User is the name of a ServiceAccount.
	User      string
	Group     string
	Resources []string
	Verbs     []string
	// Namespace is that of a request; empty for any.
	Namespace string
	// Reason is required.
	Reason string
}

// readExceptions reads the file with the exceptions.
func readExceptions(text []byte) (*exceptions, error) {
	all := &exceptions{}
	if err := yaml.UnmarshalStrict(text, all); err != nil {
		return nil, fmt.Errorf("exceptions.yaml: %w", err)
	}
	for _, e := range slices.Concat(all.Unused, all.Forbidden) {
		if e.User == "" || len(e.Resources) == 0 || len(e.Verbs) == 0 || e.Reason == "" {
			return nil, fmt.Errorf("exceptions.yaml: %+v: user, resources, verbs and reason are required", e)
		}
	}
	return all, nil
}

func (e exception) matches(user, group, resource, verb string) bool {
	return e.User == shortUser(user) && e.Group == group && slices.Contains(e.Resources, resource) && slices.Contains(e.Verbs, verb)
}

// allow reports whether there is an exception for a forbidden request.
func (e *exceptions) allow(r request) bool {
	return slices.ContainsFunc(e.Forbidden, func(x exception) bool {
		return x.matches(r.user, r.group, r.resource, r.verb) && (x.Namespace == "" || x.Namespace == r.namespace)
	})
}
