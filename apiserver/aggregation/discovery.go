package aggregation

import (
	"net/http"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	apidiscovery "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
)

// The verbs of the resources.
var (
	accountVerbs = metav1.Verbs{"get", "list"}
	proxyVerbs   = metav1.Verbs{"create", "delete", "get", "patch", "update"}
	reviewVerbs  = metav1.Verbs{"create"}
)

// proxyKind is used in discovery only, which requires a kind for every subresource, like
// ServiceProxyOptions.
const proxyKind = "AccountProxyOptions"

// discover serves discovery and OpenAPI documents. It needs neither the content store nor a cache, so
// that the APIService stays available without them: Kubernetes deletes no namespaces while it is not.
func (s *Server) discover(w http.ResponseWriter, r *http.Request, who user.Info) error {
	if err := s.authorize(r.Context(), toPath(who, r)); err != nil {
		return err
	}
	document, contentType, err := discoveryDocument(r)
	if err != nil {
		return err
	}
	if document == nil {
		return notFound(r)
	}
	if err := mayRead(r, verbs[r.Method]); err != nil {
		return err
	}
	write(w, http.StatusOK, contentType, document)
	return nil
}

// discoveryDocument returns the discovery document of a path, nil if there is none.
func discoveryDocument(r *http.Request) (document any, contentType string, err error) {
	const json = "application/json"
	switch strings.TrimSuffix(r.URL.Path, "/") {
	case openAPIv2Path:
		return openAPIv2(), json, nil
	case openAPIv3Path:
		index, err := openAPIIndex()
		return index, json, err
	case openAPIv3Path + "/" + groupPath:
		return openAPIv3(), json, nil
	case "/apis":
		if accepted(r, metav1.GroupVersionKind{Group: apidiscovery.GroupName, Version: "v2", Kind: "APIGroupDiscoveryList"}) {
			return aggregatedDiscovery(), json + ";g=" + apidiscovery.GroupName + ";v=v2;as=APIGroupDiscoveryList", nil
		}
		return metav1.APIGroupList{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIGroupList"},
			Groups:   []metav1.APIGroup{group()},
		}, json, nil
	case "/apis/" + GroupVersion.Group:
		one := group()
		one.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "APIGroup"}
		return one, json, nil
	case "/apis/" + GroupVersion.String():
		return metav1.APIResourceList{
			TypeMeta:     metav1.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"},
			GroupVersion: GroupVersion.String(),
			APIResources: []metav1.APIResource{
				{Name: accounts, SingularName: "account", Kind: "Account", Verbs: accountVerbs},
				{Name: accounts + "/" + proxy, Kind: proxyKind, Verbs: proxyVerbs},
				{Name: reviews, SingularName: "admissionreview", Kind: "AdmissionReview", Group: admissionv1.GroupName, Version: "v1", Verbs: reviewVerbs},
			},
		}, json, nil
	}
	return nil, "", nil
}

func group() metav1.APIGroup {
	version := metav1.GroupVersionForDiscovery{GroupVersion: GroupVersion.String(), Version: GroupVersion.Version}
	return metav1.APIGroup{Name: GroupVersion.Group, Versions: []metav1.GroupVersionForDiscovery{version}, PreferredVersion: version}
}

// aggregatedDiscovery returns the document of aggregated discovery (KEP-3352).
func aggregatedDiscovery() apidiscovery.APIGroupDiscoveryList {
	kind := func(name string) *metav1.GroupVersionKind {
		return &metav1.GroupVersionKind{Group: GroupVersion.Group, Version: GroupVersion.Version, Kind: name}
	}
	return apidiscovery.APIGroupDiscoveryList{
		TypeMeta: metav1.TypeMeta{APIVersion: apidiscovery.SchemeGroupVersion.String(), Kind: "APIGroupDiscoveryList"},
		Items: []apidiscovery.APIGroupDiscovery{{
			ObjectMeta: metav1.ObjectMeta{Name: GroupVersion.Group},
			Versions: []apidiscovery.APIVersionDiscovery{{
				Version:   GroupVersion.Version,
				Freshness: apidiscovery.DiscoveryFreshnessCurrent,
				Resources: []apidiscovery.APIResourceDiscovery{{
					Resource:         accounts,
					SingularResource: "account",
					ResponseKind:     kind("Account"),
					Scope:            apidiscovery.ScopeCluster,
					Verbs:            accountVerbs,
					Subresources: []apidiscovery.APISubresourceDiscovery{{
						Subresource:  proxy,
						ResponseKind: kind(proxyKind),
						Verbs:        proxyVerbs,
					}},
				}, {
					Resource:         reviews,
					SingularResource: "admissionreview",
					ResponseKind:     &metav1.GroupVersionKind{Group: admissionv1.GroupName, Version: "v1", Kind: "AdmissionReview"},
					Scope:            apidiscovery.ScopeCluster,
					Verbs:            reviewVerbs,
				}},
			}},
		}},
	}
}
