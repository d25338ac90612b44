// Command rbac compares the roles of Quoin's processes with the requests that they have sent to
// kube-apiserver, from the audit logs of test runs:
//
//	QUOIN_AUDIT_LOGS=/tmp/audit make test
//	go run ./hack/rbac /tmp/audit
//
// It fails if a request was forbidden, or if a role has a permission that no request has used.
// exceptions.yaml lists the requests and permissions for which that is intended.
package main

import (
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
)

//go:embed exceptions.yaml
var exceptionsFile []byte

func main() {
	if len(os.Args) != 2 || os.Args[1] == "" {
		fmt.Fprintln(os.Stderr, "usage: rbac FOLDER: the folder with the audit logs of a test run, its QUOIN_AUDIT_LOGS")
		os.Exit(2)
	}
	if err := run(os.Stdout, "config", os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "rbac:", err)
		os.Exit(1)
	}
}

// run compares the roles in the kustomize tree with the audit logs in a folder.
func run(w io.Writer, config, folder string) error {
	all, err := readPermissions(config)
	if err != nil {
		return err
	}
	excused, err := readExceptions(exceptionsFile)
	if err != nil {
		return err
	}
	log, err := readLogs(folder)
	if err != nil {
		return err
	}
	r := compare(all, log, excused)
	r.print(w)
	if len(r.problems) > 0 {
		return errors.New("the roles and the requests differ: change the markers +kubebuilder:rbac, or hack/rbac/exceptions.yaml with a reason")
	}
	return nil
}
