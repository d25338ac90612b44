// Package patch changes a document as a PATCH request says (RFC 7644 section 3.5.2), the forms
// that Okta and Entra ID really send included.
//
// A request goes: ParseRequest (the body becomes operations) → Apply, which takes the operations
// one after the other: resolve (the path becomes a target) → assign or unassign, which change a
// single value themselves, and the elements of a multi-valued attribute as a list or a set.
package patch

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/quoin-dev/quoin/apiserver/scim/schema"
	"github.com/quoin-dev/quoin/apiserver/scim/scimerror"
)

// Quirks are the forms of a PATCH that are taken from a client besides those of the RFC. Where
// each is needed stands in the table of client profiles.
type Quirks struct {
	schema.Leniency
	// CapitalOps takes op in any case, and a request without schemas.
	CapitalOps bool
	// RemoveListed takes a remove that has a path and a value: what the value lists goes, and
	// nothing else. Without it such a remove is refused, for who ignores the value empties groups.
	RemoveListed bool
	// CreateUnmatched has an add or replace whose filter matches nothing create the element, from
	// the eq terms of the filter and the value. Without it that is a 400 noTarget.
	CreateUnmatched bool
	// QualifiedKeys takes paths for the keys of a value without a path: name.givenName,
	// urn:…:User:employeeNumber, emails[type eq "work"].value.
	QualifiedKeys bool
}

// Operation is one operation of a PATCH request.
type Operation struct {
	// Op is add, replace or remove.
	Op string
	// Path is as it was sent; HasPath tells an absent one from an empty one.
	Path    string
	HasPath bool
	// Value is as strictjson reads it; HasValue tells an absent one from null.
	Value    any
	HasValue bool
}

// The operations.
const (
	add     = "add"
	replace = "replace"
	remove  = "remove"

	operations = "add, replace or remove"
)

func known(op string) bool { return op == add || op == replace || op == remove }

// Apply changes a document in place, operation by operation. A client that says again what is so
// already changes nothing (section 3.5.2.1). After an error the document is half changed: the
// caller gives a copy, and throws it away.
//
// Errors are *scimerror.Error and name the operation. What a Set costs does not grow with its
// elements where an operation names its elements by their values.
func Apply(t *schema.ResourceType, d schema.Document, ops []Operation, q Quirks) error {
	e := &editor{t: t, d: d, quirks: q}
	for i, op := range ops {
		if err := e.operation(op); err != nil {
			return located(i, op, err)
		}
	}
	return t.Validate(d)
}

// located is an error with the operation in its detail, and the member of it that is to blame.
func located(i int, op Operation, err error) error {
	var refused *scimerror.Error
	if !errors.As(err, &refused) {
		return fmt.Errorf("operation %d: %w", i, err)
	}
	member := "value"
	switch refused.Type {
	case scimerror.InvalidPath, scimerror.InvalidFilter, scimerror.NoTarget, scimerror.Mutability:
		if op.HasPath || op.Op == remove {
			member = "path"
		}
	case scimerror.InvalidSyntax:
		if !known(op.Op) {
			member = "op"
		}
	}
	return &scimerror.Error{
		Status: refused.Status, Type: refused.Type,
		Detail: fmt.Sprintf("Operations[%d].%s: %s", i, member, refused.Detail),
	}
}

// maxVisits bounds how many elements of multi-valued attributes one request may have looked at:
// the operations of a small body could otherwise go a thousand times through a big group.
const maxVisits = 5_000_000

// editor is one Apply.
type editor struct {
	t      *schema.ResourceType
	d      schema.Document
	quirks Quirks
	visits int
}

// visit counts elements that are looked at.
func (e *editor) visit(n int) error {
	if e.visits += n; e.visits > maxVisits {
		return scimerror.New(http.StatusRequestEntityTooLarge, "the operations look at more than %d values; send fewer at a time", maxVisits)
	}
	return nil
}

// operation does one.
func (e *editor) operation(op Operation) error {
	if !known(op.Op) {
		return scimerror.Bad(scimerror.InvalidSyntax, "must be %s, not %s", operations, scimerror.Quote(op.Op))
	}
	if op.Op != remove && !op.HasValue {
		return scimerror.Bad(scimerror.InvalidValue, "%s needs a value", op.Op)
	}
	if !op.HasPath || schema.SameName(e.t.Core.ID, op.Path) {
		if op.Op == remove {
			return scimerror.Bad(scimerror.NoTarget, "remove needs the path of an attribute")
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
