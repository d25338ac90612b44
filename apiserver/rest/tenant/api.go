// Package tenant serves the families of the REST API that concern an account as a whole: its
// settings, its theme, the OpenID Connect tokens that it issues, its OAuth integrations and the export of its audit log.
package tenant

import (
	"context"
	"iter"
	"time"

	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/kube"
	"github.com/quoin-dev/quoin/internal/ratelimit"
)

// AuditLog reads the events of all accounts: an *audit.Log.
type AuditLog interface {
	Query(ctx context.Context, f audit.Filter) (iter.Seq2[audit.Event, error], error)
}

// Options configure the group.
type Options struct {
	// Kube reads and writes the Account, its OidcTokenConfigs and its OAuthIntegrations.
	Kube *kube.Client
	// AuditLog is exported; nil without a database.
	AuditLog AuditLog
	// UserTokens are the OAuth tokens of people; nil without a database.
	UserTokens UserTokens
	// Now is the clock; time.Now when nil.
	Now func() time.Time
}

// New returns the families of the group.
func New(o Options) []rest.Family {
	if o.Now == nil {
		o.Now = time.Now
	}
	a := &api{o, newInitiates()}
	return []rest.Family{a.settingsFamily(), a.themeFamily(), a.oidcTokensFamily(), a.integrationsFamily(), a.userTokensFamily(), a.auditLogsFamily()}
}

// api has the handlers of the group.
type api struct {
	Options
	// initiates limits how often a person begins an authorization.
	initiates *ratelimit.Limits[string]
}
