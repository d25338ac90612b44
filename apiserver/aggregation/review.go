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

// Where a validating webhook asks. It names the Service "kubernetes" in the namespace "default"
// and not ours: then the Kubernetes API server sends its question to itself, as itself, and its
// aggregator hands it on with the proof of who asks. A webhook that calls a Service directly
// proves nothing, and anybody in the cluster could write events
// (k8s.io/apiserver/pkg/util/webhook, NewDefaultAuthenticationInfoResolverWrapper).
const (
	reviews     = "admissionreviews"
	reviewsPath = "/apis/api.platform.quoin.dev/v1/" + reviews
)

// mostOfReview bounds a review: the objects before and after, each at most what etcd takes.
const mostOfReview = 7 << 20

// review answers an AdmissionReview.
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
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, mostOfReview)).Decode(asked); err != nil {
		return apierrors.NewBadRequest(fmt.Sprintf("the body is no AdmissionReview: %v", err))
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
