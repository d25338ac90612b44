package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// result is the comparison of the roles with the requests.
type result struct {
	requests, permissions, used int
	// unbound are the requests that a role allows, and that were forbidden.
	unbound int
	// excused are the unused permissions with an exception.
	excused  []permission
	problems []string
}

// compare compares permissions with the requests that were sent. A request uses the permission of the role that has allowed
// it, or of all roles if that is a role of Kubernetes, such as system:auth-delegator.
func compare(all map[permission]bool, log map[request]int, excused *exceptions) *result {
	r := &result{permissions: len(all)}
	own := map[string]bool{}
	for p := range all {
		own[p.role] = true
	}
	used := map[permission]bool{}
	users := map[string]int{}
	forbidden := map[string]int{}
	for req, n := range log {
		r.requests += n
		users[req.user] += n
		if req.role == "" {
			switch {
			case isGranted(all, req):
				r.unbound += n
			case !excused.allow(req):
				forbidden[req.String()] += n
			}
			continue
		}
		for p := range all {
			if (p.role == req.role || !own[req.role]) && allows(p, req) {
				used[p] = true
			}
		}
	}
	for p := range all {
		if p.verb == "list" && used[watchOf(p)] {
			used[p] = true
		}
	}
	r.used = len(used)
	for _, text := range slices.Sorted(maps.Keys(forbidden)) {
		r.problem("forbidden, %d times: %s", forbidden[text], text)
	}
	r.findUnused(all, used, users, excused)
	return r
}

// findUnused adds what no request has used, and exceptions for permissions that do not exist.
func (r *result) findUnused(all, used map[permission]bool, users map[string]int, excused *exceptions) {
	needed := make([]bool, len(excused.Unused))
	silent := map[string]bool{}
	for _, p := range slices.SortedFunc(maps.Keys(all), comparePermissions) {
		exception := slices.IndexFunc(excused.Unused, func(e exception) bool { return e.matches(p.user, p.group, p.resource, p.verb) })
		if exception >= 0 {
			needed[exception] = true
		}
		switch {
		case used[p]:
		case users[p.user] == 0:
			if !silent[p.user] {
				silent[p.user] = true
				r.problem("no requests of %s: the tests that run it are missing", shortUser(p.user))
			}
		case exception >= 0:
			r.excused = append(r.excused, p)
		default:
			r.problem("not used: %s", p)
		}
	}
	for i, e := range excused.Unused {
		if !needed[i] {
			r.problem("exceptions.yaml: %s has no permission %s on %s", e.User, strings.Join(e.Verbs, ", "), strings.Join(e.Resources, ", "))
		}
	}
}

func (r *result) problem(format string, args ...any) {
	r.problems = append(r.problems, fmt.Sprintf(format, args...))
}

// allows reports whether a permission is sufficient for a request.
func allows(p permission, r request) bool {
	if p.user != r.user || p.group != r.group || p.resource != r.resource || p.verb != r.verb {
		return false
	}
	return p.names == "" || slices.Contains(strings.Split(p.names, ","), r.name)
}

// watchOf returns the permission to watch what p lists. A cache needs both: it lists before it watches, unless the API server
// streams the list as part of the watch.
func watchOf(p permission) permission {
	p.verb = "watch"
	return p
}

// isGranted reports whether a role allows a request that was forbidden: the role was not bound. An administrator decides
// where an optional one is bound; tests remove Quoin, and its pods end after its roles.
func isGranted(all map[permission]bool, r request) bool {
	for p := range all {
		if allows(p, r) && (p.optional || p.namespace == "" || p.namespace == r.namespace) {
			return true
		}
	}
	return false
}

// print prints the result.
func (r *result) print(w io.Writer) {
	fmt.Fprintf(w, "%d requests of Quoin's processes; %d of %d permissions used\n", r.requests, r.used, r.permissions)
	if r.unbound > 0 {
		fmt.Fprintf(w, "%d requests were forbidden while no role was bound\n", r.unbound)
	}
	if len(r.excused) > 0 {
		fmt.Fprintln(w, "\nnot used, with an exception in hack/rbac/exceptions.yaml:")
		table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		for _, p := range r.excused {
			fmt.Fprintf(table, "  %s\t%s\t%s\n", shortUser(p.user), p.verb, qualified(p.group, p.resource))
		}
		_ = table.Flush() // w is the standard output
	}
	for _, problem := range r.problems {
		fmt.Fprintln(w, problem)
	}
}
