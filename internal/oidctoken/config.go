// Package oidctoken has the rules of the OpenID Connect tokens that an account issues to its deployments: which
// deployments have which tokens, their claims, when they are renewed, and which keys sign and verify them.
package oidctoken

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"k8s.io/utils/ptr"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/engine"
)

const (
	// MaxPerAccount is the number of configurations of an account that are in effect: the oldest.
	MaxPerAccount = 32
	// MaxClaimBytes is the maximum size of the custom claims of a configuration, as JSON.
	MaxClaimBytes = 4096
)

// Path is the path of the issuer on the tenant host. The host itself identifies the authorization server of the account
// (RFC 8414), so that neither accepts the tokens of the other.
const Path = "/oidc"

// Issuer returns the issuer of an account's tokens. Custom domains do not change it.
func Issuer(a *v1alpha1.Account) string { return "https://" + string(a.Spec.Host) + Path }

// Items returns the configurations of a list.
func Items(list *v1alpha1.OidcTokenConfigList) []*v1alpha1.OidcTokenConfig {
	all := make([]*v1alpha1.OidcTokenConfig, len(list.Items))
	for i := range list.Items {
		all[i] = &list.Items[i]
	}
	return all
}

// Name returns the name of a configuration, which is that of the file.
func Name(c *v1alpha1.OidcTokenConfig) string { return cmp.Or(c.Spec.Name, c.Name) }

// Audience returns the audience of the tokens of a configuration.
func Audience(c *v1alpha1.OidcTokenConfig, issuer string) string {
	if c.Spec.Audience != "" {
		return c.Spec.Audience
	}
	switch c.Spec.AudienceType {
	case v1alpha1.OidcAudienceAWS:
		return "sts.amazonaws.com"
	case v1alpha1.OidcAudienceAzure:
		return "api://AzureADTokenExchange"
	case v1alpha1.OidcAudienceSnowflake:
		return "snowflakecomputing.com"
	case v1alpha1.OidcAudienceGCP, v1alpha1.OidcAudienceCustom:
	}
	return issuer
}

// Suspended reports whether a configuration is suspended.
func Suspended(c *v1alpha1.OidcTokenConfig) bool { return ptr.Deref(c.Spec.Suspend, false) }

// Check returns an error for what the schema cannot check. It names the field.
func Check(c *v1alpha1.OidcTokenConfig) error {
	if engine.ReservedVariable(c.Spec.TargetEnvVar) {
		return fmt.Errorf("targetEnvVar: %s is set by the platform; choose another variable", c.Spec.TargetEnvVar)
	}
	size := 0
	for i := range c.Spec.CustomClaims {
		claim := &c.Spec.CustomClaims[i]
		if _, err := decode(claim.Value.Raw); err != nil {
			return fmt.Errorf("customClaims[%s]: %w", claim.Name, err)
		}
		size += len(claim.Name) + len(claim.Value.Raw)
	}
	if size > MaxClaimBytes {
		return fmt.Errorf("customClaims: the claims have %d bytes; allowed: at most %d", size, MaxClaimBytes)
	}
	return nil
}

// decode decodes a JSON value without changing its numbers.
func decode(raw []byte) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, errors.New("is not JSON")
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("is more than one JSON value")
	}
	return value, nil
}

// AppliesTo reports whether a configuration is one for a deployment.
func AppliesTo(c *v1alpha1.OidcTokenConfig, deployment string) bool {
	return len(c.Spec.Deployments) == 0 ||
		slices.ContainsFunc(c.Spec.Deployments, func(r v1alpha1.LocalReference) bool { return r.Name == deployment })
}

// older orders configurations by age.
func older(a, b *v1alpha1.OidcTokenConfig) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
}

// ExceedsLimit reports whether a configuration is not in effect because the account has MaxPerAccount older ones.
func ExceedsLimit(all []*v1alpha1.OidcTokenConfig, c *v1alpha1.OidcTokenConfig) bool {
	before := 0
	for _, other := range all {
		if other.Name != c.Name && older(other, c) < 0 {
			before++
		}
	}
	return before >= MaxPerAccount
}

// InEffect returns the configurations that are in effect for a deployment, the oldest first. Of two with the same variable
// or name, the older one is. all are those of the account.
func InEffect(all []*v1alpha1.OidcTokenConfig, deployment string) []*v1alpha1.OidcTokenConfig {
	sorted := slices.SortedFunc(slices.Values(all), older)
	var found []*v1alpha1.OidcTokenConfig
	for _, c := range sorted[:min(len(sorted), MaxPerAccount)] {
		if Suspended(c) || !c.DeletionTimestamp.IsZero() || !AppliesTo(c, deployment) || Check(c) != nil {
			continue
		}
		if _, rival := rivalOf(found, c); rival == nil {
			found = append(found, c)
		}
	}
	return found
}

// Rival returns the configuration because of which another one is not in effect for a deployment, and the field that both
// have in common; nil if there is none.
func Rival(all []*v1alpha1.OidcTokenConfig, c *v1alpha1.OidcTokenConfig, deployment string) (field string, rival *v1alpha1.OidcTokenConfig) {
	in := InEffect(all, deployment)
	if slices.ContainsFunc(in, func(other *v1alpha1.OidcTokenConfig) bool { return other.Name == c.Name }) {
		return "", nil
	}
	return rivalOf(in, c)
}

// Overlapping returns a configuration that is not suspended, has a deployment in common with c and the same name or
// variable, and that field; nil if there is none.
func Overlapping(all []*v1alpha1.OidcTokenConfig, c *v1alpha1.OidcTokenConfig) (field string, other *v1alpha1.OidcTokenConfig) {
	return rivalOf(slices.DeleteFunc(slices.Clone(all), func(other *v1alpha1.OidcTokenConfig) bool {
		return other.Name == c.Name || Suspended(other) || !haveCommonDeployment(other, c)
	}), c)
}

func haveCommonDeployment(a, b *v1alpha1.OidcTokenConfig) bool {
	return len(a.Spec.Deployments) == 0 || len(b.Spec.Deployments) == 0 ||
		slices.ContainsFunc(a.Spec.Deployments, func(r v1alpha1.LocalReference) bool { return AppliesTo(b, r.Name) })
}

func rivalOf(others []*v1alpha1.OidcTokenConfig, c *v1alpha1.OidcTokenConfig) (field string, rival *v1alpha1.OidcTokenConfig) {
	for _, other := range others {
		switch {
		case Name(other) == Name(c):
			return "name", other
		case c.Spec.TargetEnvVar != "" && other.Spec.TargetEnvVar == c.Spec.TargetEnvVar:
			return "targetEnvVar", other
		}
	}
	return "", nil
}

// Files returns the files of tokens that the pods of a deployment mount, sorted by name.
func Files(all []*v1alpha1.OidcTokenConfig, deployment string) []engine.TokenFile {
	var files []engine.TokenFile
	for _, c := range InEffect(all, deployment) {
		if c.Status.Mounted {
			files = append(files, engine.TokenFile{Config: c.Name, Name: Name(c), Variable: c.Spec.TargetEnvVar})
		}
	}
	slices.SortFunc(files, func(a, b engine.TokenFile) int { return strings.Compare(a.Name, b.Name) })
	return files
}
