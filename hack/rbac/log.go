package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
)

// maxEvent is the maximum length of an event in an audit log.
const maxEvent = 4 << 20

// request is what an audit log says of a request, as far as it decides which permission it needs.
type request struct {
	user, verb, group, resource, name, namespace string
	// role is the role that allowed it, as `ClusterRole quoin-gateway`; empty if it was forbidden.
	role string
}

// String returns the request for people, without the names of objects, which differ between test runs.
func (r request) String() string {
	return fmt.Sprintf("%s: %s %s", shortUser(r.user), r.verb, qualified(r.group, r.resource))
}

// event is an event of an audit log (audit.k8s.io/v1).
type event struct {
	User           struct{ Username string }
	Verb           string
	ObjectRef      *struct{ APIGroup, Resource, Subresource, Namespace, Name string }
	Annotations    map[string]string
	ResponseStatus struct{ Code int }
}

// allowedBy is what the RBAC authorizer says in the annotation authorization.k8s.io/reason.
var allowedBy = regexp.MustCompile(`of (Role|ClusterRole) "([^"]+)"`)

// readLogs returns how often each request was sent, in all audit logs of a folder.
func readLogs(folder string) (map[request]int, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.log"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no audit logs (*.log) in %s: run the tests with QUOIN_AUDIT_LOGS=%s", folder, folder)
	}
	counts := map[request]int{}
	for _, file := range files {
		if err := readFile(file, counts); err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Base(file), err)
		}
	}
	return counts, nil
}

func readFile(file string, counts map[request]int) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	return readEvents(f, counts)
}

// readEvents counts the requests in an audit log. The last line may be incomplete, because the server was killed.
func readEvents(r io.Reader, counts map[request]int) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 64<<10), maxEvent)
	var malformed error
	for n := 1; lines.Scan(); n++ {
		if malformed != nil {
			return malformed
		}
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			malformed = fmt.Errorf("line %d: %w", n, err)
			continue
		}
		for _, req := range e.requests() {
			counts[req]++
		}
	}
	return lines.Err()
}

// requests returns the requests that an event is about: none if it is not about a resource, and two if a patch or an
// update has created the object, for which the API server also requires the verb create.
func (e event) requests() []request {
	if e.ObjectRef == nil {
		return nil
	}
	r := request{user: e.User.Username, verb: e.Verb, group: e.ObjectRef.APIGroup, resource: e.ObjectRef.Resource, namespace: e.ObjectRef.Namespace, name: e.ObjectRef.Name}
	if e.ObjectRef.Subresource != "" {
		r.resource += "/" + e.ObjectRef.Subresource
	}
	if e.Annotations["authorization.k8s.io/decision"] == "allow" {
		match := allowedBy.FindStringSubmatch(e.Annotations["authorization.k8s.io/reason"])
		if match == nil {
			return nil // not by RBAC
		}
		r.role = match[1] + " " + match[2]
	}
	if (r.verb == "patch" || r.verb == "update") && e.ResponseStatus.Code == 201 {
		created := r
		created.verb = "create"
		return []request{r, created}
	}
	return []request{r}
}
