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

// verbs are what Kubernetes calls the methods of a request to one object or its subresource
// (k8s.io/apiserver/pkg/endpoints/request, RequestInfoFactory).
var verbs = map[string]string{
	http.MethodGet:    "get",
	http.MethodHead:   "get",
	http.MethodPost:   "create",
	http.MethodPut:    "update",
	http.MethodPatch:  "patch",
	http.MethodDelete: "delete",
}

// toAccounts is an attempt on the accounts of this group, for an authorizer. They belong to no
// namespace, so a RoleBinding never allows it.
func toAccounts(who user.Info, verb, name, subresource string) authorizer.AttributesRecord {
	return authorizer.AttributesRecord{
		User: who, Verb: verb, ResourceRequest: true,
		APIGroup: GroupVersion.Group, APIVersion: GroupVersion.Version, Resource: accounts, Subresource: subresource, Name: name,
	}
}

// toPath is an attempt on a path that is not a resource.
func toPath(who user.Info, r *http.Request) authorizer.AttributesRecord {
	return authorizer.AttributesRecord{User: who, Verb: strings.ToLower(r.Method), Path: r.URL.Path}
}

// may asks Kubernetes.
func (s *Server) may(ctx context.Context, attempt authorizer.AttributesRecord) (bool, error) {
	decision, reason, err := s.authorizer.Authorize(ctx, attempt)
	if decision == authorizer.DecisionAllow {
		return true, nil
	}
	logger := log.FromContext(ctx).WithValues("user", attempt.User.GetName(), "verb", attempt.Verb)
	if err != nil {
		logger.Error(err, "Failed to ask Kubernetes what a user may do")
		return false, apierrors.NewInternalError(errors.New("kubernetes did not say what this user may do"))
	}
	logger.V(1).Info("Refused", "reason", reason)
	return false, nil
}

// authorize asks Kubernetes; the error is the answer to the caller.
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
