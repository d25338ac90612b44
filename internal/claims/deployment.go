package claims

import "github.com/quoin-dev/quoin/api/v1alpha1"

// DeploymentName is unique among the deployments of an account.
var DeploymentName = Attribute[*v1alpha1.Deployment]{
	Kind: "Deployment", Field: "displayName",
	Value: (*v1alpha1.Deployment).DisplayName,
	New:   func() *v1alpha1.Deployment { return &v1alpha1.Deployment{} },
}
