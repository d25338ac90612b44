// Package patch applies PATCH requests to documents (RFC 7644 section 3.5.2), including the deviating
// forms that Okta and Entra ID send.
//
// ParseRequest converts a body to operations. Apply applies the operations in order: it resolves each path
// to a target, and assigns or unassigns the value. Single values are changed in place; elements of a
// multi-valued attribute are changed as a list or a set.
package patch

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/quoin-dev/quoin/apiserver/scim/filter"
	"github.com/quoin-dev/quoin/apiserver/scim/schema"
	"github.com/quoin-dev/quoin/apiserver/scim/scimerror"
)

// Quirks are the deviations from the RFC that are accepted in a PATCH. The table of client profiles lists
// the clients that need them.
type Quirks struct {
	schema.Leniency
	// CapitalOps accepts op in any case.
	CapitalOps bool
	// RemoveListed accepts a remove with a path and a value, and removes only the listed values. Without
	// it such a remove is rejected: ignoring the value would remove all members of a group.
	RemoveListed bool
	// CreateUnmatched lets an add or replace whose filter matches nothing create an element from the eq
	// terms of the filter and the value. Without it the response is 400 noTarget.
	CreateUnmatched bool
	// QualifiedKeys accepts paths as keys of a value without a path: name.givenName,
	// urn:…:User:employeeNumber, emails[type eq "work"].value.
	QualifiedKeys bool
	// ForeignMembers ignores unknown members of the request and of its operations.
	ForeignMembers bool
	// Filters is the dialect of filters, also in brackets.
	Filters filter.Dialect
}

// Operation is one operation of a PATCH request.
type Operation struct {
	// Op is add, replace or remove.
	Op string
	// Path is the path as sent. HasPath distinguishes an empty path from none.
	Path    string
	HasPath bool
	// Value is the value as decoded by strictjson. HasValue distinguishes null from none; a remove with null
	// has none.
	Value    any
	HasValue bool
}

// Operation names.
const (
	add     = "add"
	replace = "replace"
	remove  = "remove"

	operations = "add, replace or remove"
)

func isKnown(op string) bool { return op == add || op == replace || op == remove }

// Apply applies operations to a document in place. Operations that repeat the current state change nothing
// (section 3.5.2.1). After an error the document is partially changed, so callers pass a copy.
//
// Errors are *scimerror.Error and name the operation. For operations that identify elements of a Set by
// their values, the cost does not depend on the size of the Set.
func Apply(t *schema.ResourceType, d schema.Document, ops []Operation, q Quirks) error {
	e := &editor{t: t, d: d, quirks: q}
	for i, op := range ops {
		if err := e.operation(op); err != nil {
			return withLocation(i, op, err)
		}
	}
	return t.Validate(d)
}

// withLocation adds the operation and its faulty member to the detail of an error.
func withLocation(i int, op Operation, err error) error {
	var e *scimerror.Error
	if !errors.As(err, &e) {
		return fmt.Errorf("operation %d: %w", i, err)
	}
	member := "value"
	switch e.Type {
	case scimerror.InvalidPath, scimerror.InvalidFilter, scimerror.NoTarget, scimerror.Mutability:
		if op.HasPath || op.Op == remove {
			member = "path"
		}
	case scimerror.InvalidSyntax:
		if !isKnown(op.Op) {
			member = "op"
		}
	}
	return &scimerror.Error{
		Status: e.Status, Type: e.Type,
		Detail: fmt.Sprintf("Operations[%d].%s: %s", i, member, e.Detail),
	}
}

// maxVisits is the maximum number of elements that one request may visit. Without it a small body with
// 1,000 operations could scan a large group 1,000 times.
const maxVisits = 5_000_000

// editor is the state of one call of Apply.
type editor struct {
	t      *schema.ResourceType
	d      schema.Document
	quirks Quirks
	visits int
}

// visit counts visited elements and returns an error above maxVisits.
func (e *editor) visit(n int) error {
	if e.visits += n; e.visits > maxVisits {
		return scimerror.New(http.StatusRequestEntityTooLarge, "the operations visit more than %d values; send fewer operations in a request", maxVisits)
	}
	return nil
}

// operation applies one operation.
func (e *editor) operation(op Operation) error {
	if !isKnown(op.Op) {
		return scimerror.Bad(scimerror.InvalidSyntax, "must be %s, not %s", operations, scimerror.Quote(op.Op))
	}
	if op.Op != remove && !op.HasValue {
		return scimerror.Bad(scimerror.InvalidValue, "%s requires a value", op.Op)
	}
	if !op.HasPath || schema.SameName(e.t.Core.ID, op.Path) {
		if op.Op == remove {
			return scimerror.Bad(scimerror.NoTarget, "remove requires a path")
		}
		return e.assignAll(op.Op, op.Value)
	}
	target, err := e.resolve(op.Path)
	if err != nil || target.hidden() {
		return err
	}
	if target.readOnly() {
		return scimerror.Bad(scimerror.Mutability, "%s: is read-only", target)
	}
	if op.Op == remove {
		return e.unassign(target, op)
	}
	return e.assign(op.Op, target, op.Value)
}
