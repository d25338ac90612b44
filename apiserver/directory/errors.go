package directory

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quoin-dev/quoin/apiserver/recording"
	"github.com/quoin-dev/quoin/apiserver/scim/schema"
	"github.com/quoin-dev/quoin/apiserver/scim/scimerror"
	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/claims"
	"github.com/quoin-dev/quoin/internal/fieldowner"
)

// toSCIM converts an error of Kubernetes to a SCIM error. It returns internal errors unchanged.
func toSCIM(err error) error {
	var known *scimerror.Error
	var owned *fieldowner.OwnedError
	var withdrawn *withdrawnError
	const ownedBy = "%s: %s owns this attribute and would revert the change: change it at its source%s"
	switch {
	case err == nil, errors.As(err, &known), errors.Is(err, context.Canceled):
		return err
	case errors.As(err, &withdrawn):
		owner, example := describeOwner(withdrawn.Manager)
		return scimerror.New(http.StatusConflict, ownedBy+". Nothing else was changed, but %s", attributeOf(withdrawn.Field), owner, example, withdrawn.what)
	case errors.As(err, &owned):
		owner, example := describeOwner(owned.Manager)
		return scimerror.New(http.StatusConflict, ownedBy, attributeOf(owned.Field), owner, example)
	case noNamespace(err):
		return errNoNamespace
	case errors.Is(err, audit.ErrUnavailable):
		return scimerror.New(http.StatusServiceUnavailable, "the audit log does not answer, and nothing is changed without it; try again")
	case apierrors.IsInvalid(err):
		return scimerror.Bad(scimerror.InvalidValue, "%s", invalid(err))
	case apierrors.IsRequestEntityTooLargeError(err):
		return scimerror.New(http.StatusRequestEntityTooLarge, "the resource is too large for Kubernetes")
	case apierrors.IsConflict(err):
		return scimerror.New(http.StatusConflict, "the resource was changed concurrently; try again")
	case errors.Is(err, claims.ErrInFlight): // clients treat a 409 as "already exists"
		return scimerror.New(http.StatusServiceUnavailable, "another request for the same name is in progress; try again")
	case errors.Is(err, context.DeadlineExceeded), apierrors.IsTimeout(err), apierrors.IsServerTimeout(err),
		apierrors.IsTooManyRequests(err), apierrors.IsServiceUnavailable(err):
		return scimerror.New(http.StatusServiceUnavailable, "Kubernetes did not answer in time; try again")
	}
	return err
}

// describeOwner returns a field manager as the owner of an attribute, and an example of its source.
func describeOwner(manager string) (owner, example string) {
	if manager == fieldowner.SCIM {
		return fmt.Sprintf("the SCIM client that provisions the user (field manager %q)", manager), ", such as the identity provider"
	}
	return strconv.Quote(manager), ", such as Git"
}

// isRejection reports whether a write was definitely rejected. AlreadyExists is not a rejection: the
// object may have been written by an attempt whose response was lost.
func isRejection(err error) bool {
	var known *scimerror.Error
	var owned *fieldowner.OwnedError
	return errors.As(err, &known) || errors.As(err, &owned) || recording.Refused(err) && !apierrors.IsAlreadyExists(err)
}

// isNotFound reports whether err is the 404 error of a resource.
func isNotFound(err error) bool {
	var known *scimerror.Error
	return errors.As(err, &known) && known.Status == http.StatusNotFound
}

// notFoundAs converts the NotFound error of an object to the 404 error of its resource.
func notFoundAs(err error, kind, id string) error {
	if apierrors.IsNotFound(err) && !noNamespace(err) {
		return scimerror.NotFound(kind, id)
	}
	return err
}

// noNamespace reports whether the namespace does not exist or is being deleted.
func noNamespace(err error) bool {
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return true
	}
	var status apierrors.APIStatus
	if !apierrors.IsNotFound(err) || !errors.As(err, &status) {
		return false
	}
	details := status.Status().Details
	return details != nil && details.Kind == "namespaces"
}

// invalid returns the messages of an Invalid error by attribute.
func invalid(err error) string {
	const maxCauses, maxLength = 5, 300
	var status apierrors.APIStatus
	var causes []metav1.StatusCause
	if errors.As(err, &status) && status.Status().Details != nil {
		causes = status.Status().Details.Causes
	}
	var parts []string
	for _, cause := range causes[:min(maxCauses, len(causes))] {
		message := cause.Message
		if len(message) > maxLength {
			message = strings.ToValidUTF8(message[:maxLength], "") + "..."
		}
		parts = append(parts, attributeOf(cause.Field)+": "+message)
	}
	if len(parts) == 0 {
		return "Kubernetes rejects this resource"
	}
	return strings.Join(parts, "; ")
}

// attributeOf returns the attribute that is stored in a field of the spec.
func attributeOf(field string) string {
	name := strings.TrimPrefix(field, "spec.")
	switch {
	case strings.HasPrefix(name, "enterprise"):
		return schema.EnterpriseURN + strings.Replace(strings.TrimPrefix(name, "enterprise"), ".", ":", 1)
	case strings.HasPrefix(name, "memberCh"): // memberChanges, memberChunkList and memberChunks
		return attributeMembers
	}
	return name
}
