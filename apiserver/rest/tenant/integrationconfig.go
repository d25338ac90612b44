package tenant

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/internal/masking"
)

// Properties of the documented config that are fields of the kind. The contract does not list any.
const (
	revocationProperty     = "revocationUrl"
	authenticationProperty = "clientAuthentication"
	parametersProperty     = "authorizationParameters"
)

const (
	maxConfig         = 32
	maxConfigName     = 64
	maxParameters     = 16
	maxParameterValue = 1024
	maxEndpoint       = 1024
)

var (
	endpointPattern  = regexp.MustCompile(`^https://[A-Za-z0-9][^#@ ]*$`)
	parameterPattern = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)
	// reservedParameters are those that the flow sets, as in the schema of the kind.
	reservedParameters = []string{
		"client_id", "client_secret", "code_challenge", "code_challenge_method", "redirect_uri", "request", "request_uri", "response_mode", "response_type", "scope", "state",
	}
)

// shownConfig returns the documented config of an integration; nil if it has none.
func shownConfig(spec *v1alpha1.OAuthIntegrationSpec) map[string]any {
	out := map[string]any{}
	for name, value := range spec.Config {
		out[name] = json.RawMessage(value.Raw)
	}
	if spec.RevocationURL != "" {
		out[revocationProperty] = spec.RevocationURL
	}
	if spec.ClientAuthentication != "" {
		out[authenticationProperty] = strings.ToLower(string(spec.ClientAuthentication))
	}
	if len(spec.AuthorizationParameters) > 0 {
		out[parametersProperty] = spec.AuthorizationParameters
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// setConfig replaces the config of an integration.
func setConfig(spec *v1alpha1.OAuthIntegrationSpec, config map[string]json.RawMessage) error {
	if len(config) > maxConfig {
		return rest.BadRequest("config: %d properties; allowed: at most %d", len(config), maxConfig)
	}
	spec.Config, spec.RevocationURL, spec.ClientAuthentication, spec.AuthorizationParameters = nil, "", "", nil
	for _, name := range slices.Sorted(maps.Keys(config)) {
		value := config[name]
		var err error
		switch name {
		case revocationProperty:
			err = setRevocation(spec, value)
		case authenticationProperty:
			err = setAuthentication(spec, value)
		case parametersProperty:
			err = setParameters(spec, value)
		default:
			err = setFurther(spec, name, value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func setRevocation(spec *v1alpha1.OAuthIntegrationSpec, value json.RawMessage) error {
	var text *string
	if err := json.Unmarshal(value, &text); err != nil || text != nil && (len(*text) > maxEndpoint || !endpointPattern.MatchString(*text)) {
		return rest.BadRequest("config.%s: %s; allowed: an https:// URL without credentials and fragment, or null", revocationProperty, rest.Clip(string(value)))
	}
	if text != nil {
		spec.RevocationURL = v1alpha1.HTTPSEndpoint(*text)
	}
	return nil
}

func setAuthentication(spec *v1alpha1.OAuthIntegrationSpec, value json.RawMessage) error {
	switch string(value) {
	case "null":
	case `"basic"`:
		spec.ClientAuthentication = v1alpha1.OAuthClientBasic
	case `"post"`:
		spec.ClientAuthentication = v1alpha1.OAuthClientPost
	default:
		return rest.BadRequest("config.%s: %s; allowed: basic, post, null", authenticationProperty, rest.Clip(string(value)))
	}
	return nil
}

func setParameters(spec *v1alpha1.OAuthIntegrationSpec, value json.RawMessage) error {
	var given map[string]v1alpha1.OAuthParameter
	if err := json.Unmarshal(value, &given); err != nil || len(given) > maxParameters {
		return rest.BadRequest("config.%s: not an object of at most %d strings", parametersProperty, maxParameters)
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if slices.Contains(reservedParameters, name) {
			return rest.BadRequest("config.%s: %q is set by the platform; allowed: other names than %s", parametersProperty, name, strings.Join(reservedParameters, ", "))
		}
		if !parameterPattern.MatchString(name) || len(given[name]) > maxParameterValue {
			return rest.BadRequest("config.%s: %q; allowed: names of 1 to 64 letters, digits, _, . and -, and values of at most %d bytes",
				parametersProperty, rest.Clip(name), maxParameterValue)
		}
	}
	spec.AuthorizationParameters = given
	return nil
}

// setFurther keeps a property that has no effect. Those with names of secrets are rejected: users who may read the object
// would see them.
func setFurther(spec *v1alpha1.OAuthIntegrationSpec, name string, value json.RawMessage) error {
	if name == "" || len(name) > maxConfigName {
		return rest.BadRequest("config: the name %q has %d bytes; allowed: 1 to %d", rest.Clip(name), len(name), maxConfigName)
	}
	if masking.IsSecret(name) {
		return rest.BadRequest("config: %q is the name of a secret; allowed: settings without secrets", name)
	}
	if spec.Config == nil {
		spec.Config = map[string]apiextensionsv1.JSON{}
	}
	spec.Config[name] = apiextensionsv1.JSON{Raw: value}
	return nil
}
