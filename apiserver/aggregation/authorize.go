package aggregation

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// verbs are the Kubernetes verbs of the methods of a request to an object or its subresource
// (k8s.io/apiserver/pkg/endpoints/request, RequestInfoFactory).
var verbs = map[string]string{
	http.MethodGet:    "get",
	http.MethodHead:   "get",
	http.MethodPost:   "create",
	http.MethodPut:    "update",
	http.MethodPatch:  "patch",
	http.MethodDelete: "delete",
}

// toAccounts returns the authorizer attributes of a request to accounts. They have no namespace, so
// RoleBindings do not apply.
func toAccounts(who user.Info, verb, name, subresource string) authorizer.AttributesRecord {
	return authorizer.AttributesRecord{
		User: who, Verb: verb, ResourceRequest: true,
		APIGroup: GroupVersion.Group, APIVersion: GroupVersion.Version, Resource: accounts, Subresource: subresource, Name: name,
	}
}

// toPath returns the authorizer attributes of a request to a non-resource path.
func toPath(who user.Info, r *http.Request) authorizer.AttributesRecord {
	return authorizer.AttributesRecord{User: who, Verb: strings.ToLower(r.Method), Path: r.URL.Path}
}

// may reports whether Kubernetes authorizes a request.
func (s *Server) may(ctx context.Context, attempt authorizer.AttributesRecord) (bool, error) {
	decision, reason, err := s.authorizer.Authorize(ctx, attempt)
	if decision == authorizer.DecisionAllow {
		return true, nil
	}
	logger := log.FromContext(ctx).WithValues("user", attempt.User.GetName(), "verb", attempt.Verb)
	if err != nil {
		logger.Error(err, "Failed to create a SubjectAccessReview")
		return false, apierrors.NewInternalError(errors.New("kubernetes did not say what this user may do"))
	}
	logger.V(1).Info("Forbidden", "reason", reason)
	return false, nil
}

// authorize returns an error for the caller if Kubernetes does not authorize a request.
func (s *Server) authorize(ctx context.Context, attempt authorizer.AttributesRecord) error {
	allowed, err := s.may(ctx, attempt)
	if allowed || err != nil {
		return err
	}
	if !attempt.ResourceRequest {
		return apierrors.NewForbidden(accountResource("").GroupResource(), "", fmt.Errorf("user %q cannot %s path %q", attempt.User.GetName(), attempt.Verb, attempt.Path))
	}
	resource := GroupVersion.WithResource(attempt.Resource).GroupResource()
	if attempt.Subresource != "" {
		resource.Resource += "/" + attempt.Subresource
	}
	return apierrors.NewForbidden(resource, attempt.Name, fmt.Errorf("user %q cannot %s resource %q in API group %q at the cluster scope",
		attempt.User.GetName(), attempt.Verb, resource.Resource, resource.Group))
}
