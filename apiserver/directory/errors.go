package directory

import (
	"context"
	"errors"
	"net/http"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quoin-dev/quoin/apiserver/edit"
	"github.com/quoin-dev/quoin/apiserver/recording"
	"github.com/quoin-dev/quoin/apiserver/scim/schema"
	"github.com/quoin-dev/quoin/apiserver/scim/scimerror"
	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/claims"
)

// toSCIM is the one way from an error of Kubernetes to one of SCIM. What nobody outside can do
// anything about stays as it is.
func toSCIM(err error) error {
	var known *scimerror.Error
	var owned *edit.OwnedError
	switch {
	case err == nil, errors.As(err, &known), errors.Is(err, context.Canceled):
		return err
	case errors.As(err, &owned):
		return scimerror.New(http.StatusConflict, "%s: %q owns this attribute and would set it back: change it where that is written, such as in Git", attributeOf(owned.Field), owned.Manager)
	case noNamespace(err):
		return errMissing
	case errors.Is(err, audit.ErrUnavailable):
		return scimerror.New(http.StatusServiceUnavailable, "the audit log does not answer, and nothing is changed without it; try again")
	case apierrors.IsInvalid(err):
		return scimerror.Bad(scimerror.InvalidValue, "%s", invalid(err))
	case apierrors.IsRequestEntityTooLargeError(err):
		return scimerror.New(http.StatusRequestEntityTooLarge, "the resource is larger than Kubernetes keeps")
	case apierrors.IsConflict(err):
		return scimerror.New(http.StatusConflict, "others are changing the same; try again")
	case errors.Is(err, claims.ErrInFlight): // not a 409, which clients take for "is there already"
		return scimerror.New(http.StatusServiceUnavailable, "somebody else is just taking the same name; try again")
	case errors.Is(err, context.DeadlineExceeded), apierrors.IsTimeout(err), apierrors.IsServerTimeout(err),
		apierrors.IsTooManyRequests(err), apierrors.IsServiceUnavailable(err):
		return scimerror.New(http.StatusServiceUnavailable, "Kubernetes did not answer in time; try again")
	}
	return err
}

// isRefusal tells whether nothing was written, and nothing will be. What is there already may have
// been written by us, before an answer was lost.
func isRefusal(err error) bool {
	var known *scimerror.Error
	var owned *edit.OwnedError
	return errors.As(err, &known) || errors.As(err, &owned) || recording.Refused(err) && !apierrors.IsAlreadyExists(err)
}

// isNotFound tells whether a resource is not there.
func isNotFound(err error) bool {
	var known *scimerror.Error
	return errors.As(err, &known) && known.Status == http.StatusNotFound
}

// notFoundAs says of an object that is not there that the resource is not.
func notFoundAs(err error, kind, id string) error {
	if apierrors.IsNotFound(err) && !noNamespace(err) {
		return scimerror.NotFound(kind, id)
	}
	return err
}

// noNamespace tells whether the namespace is not there, or not for long.
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

// invalid says what the API server refused, attribute by attribute.
func invalid(err error) string {
	const most, longest = 5, 300
	var status apierrors.APIStatus
	var causes []metav1.StatusCause
	if errors.As(err, &status) && status.Status().Details != nil {
		causes = status.Status().Details.Causes
	}
	var parts []string
	for _, cause := range causes[:min(most, len(causes))] {
		message := cause.Message
		if len(message) > longest {
			message = strings.ToValidUTF8(message[:longest], "") + "..."
		}
		parts = append(parts, attributeOf(cause.Field)+": "+message)
	}
	if len(parts) == 0 {
		return "Kubernetes does not take this resource"
	}
	return strings.Join(parts, "; ")
}

// attributeOf is the attribute that a field of a spec keeps.
func attributeOf(field string) string {
	name := strings.TrimPrefix(field, "spec.")
	switch {
	case strings.HasPrefix(name, "enterprise"):
		return schema.EnterpriseURN + strings.Replace(strings.TrimPrefix(name, "enterprise"), ".", ":", 1)
	case strings.HasPrefix(name, "memberChunks"):
		return attributeMembers
	}
	return name
}
