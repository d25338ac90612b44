package v1alpha1

// LocalReference refers to an object in the same namespace.
type LocalReference struct {
	// name of the object.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name"`
}

// SecretKeyReference refers to a key of a Secret in the same namespace.
type SecretKeyReference struct {
	// name of the Secret.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name"`

	// key in the Secret's data.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Key string `json:"key"`
}

// Host is a host name in lower case with an optional port.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=259
// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?([.][a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*(:[1-9][0-9]{0,4})?$')",message="must be a host name in lower case such as analytics.example.com, with an optional port such as :8443"
type Host string

// DomainName is a host name in lower case without a port.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=253
// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?([.][a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*$')",message="must be a domain name in lower case such as example.com"
type DomainName string

// EnvironmentType is the purpose of an environment.
// +kubebuilder:validation:Enum=production;staging;development
type EnvironmentType string

// The types of an environment.
const (
	// EnvironmentProduction serves the deployment's production branch.
	EnvironmentProduction EnvironmentType = "production"
	// EnvironmentStaging serves a shared branch.
	EnvironmentStaging EnvironmentType = "staging"
	// EnvironmentDevelopment serves one user's personal branch.
	EnvironmentDevelopment EnvironmentType = "development"
)
