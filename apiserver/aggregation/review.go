package aggregation

import (
	"encoding/json"
	"fmt"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// The resource that the validating webhook calls. Its configuration names the Service "kubernetes" in
// the namespace "default" instead of Quoin's: the Kubernetes API server then calls itself, and its
// aggregator forwards the review with an authenticated user. Calls of a webhook to a Service are not
// authenticated, so that any client in the cluster could write events
// (k8s.io/apiserver/pkg/util/webhook, NewDefaultAuthenticationInfoResolverWrapper).
const (
	reviews     = "admissionreviews"
	reviewsPath = "/apis/api.platform.quoin.dev/v1/" + reviews
)

// maxReviewSize is the maximum size of a review in bytes: it has two objects of the maximum size in
// etcd.
const maxReviewSize = 7 << 20

// review serves an AdmissionReview.
func (s *Server) review(w http.ResponseWriter, r *http.Request, who user.Info) error {
	if r.Method != http.MethodPost {
		return apierrors.NewMethodNotSupported(GroupVersion.WithResource(reviews).GroupResource(), verbs[r.Method])
	}
	attempt := authorizer.AttributesRecord{
		User: who, Verb: "create", ResourceRequest: true, APIGroup: GroupVersion.Group, APIVersion: GroupVersion.Version, Resource: reviews,
	}
	if err := s.authorize(r.Context(), attempt); err != nil {
		return err
	}
	asked := &admissionv1.AdmissionReview{}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxReviewSize)).Decode(asked); err != nil {
		return apierrors.NewBadRequest(fmt.Sprintf("the body is not an AdmissionReview: %v", err))
	}
	if asked.Request == nil {
		return apierrors.NewBadRequest("the AdmissionReview has no request")
	}
	write(w, http.StatusOK, "application/json", admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "AdmissionReview"},
		Response: s.options.Review(r.Context(), asked.Request),
	})
	return nil
}
