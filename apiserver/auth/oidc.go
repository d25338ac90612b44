package auth

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

// skew is the tolerated clock skew between an issuer and this process.
const skew = 30 * time.Second

// algorithms that may sign a token: asymmetric ones only.
var algorithms = []string{
	oidc.RS256, oidc.RS384, oidc.RS512, oidc.PS256, oidc.PS384, oidc.PS512, oidc.ES256, oidc.ES384, oidc.ES512, oidc.EdDSA,
}

// signatureAlgorithms are the same algorithms in the type of package jose.
var signatureAlgorithms = func() []jose.SignatureAlgorithm {
	all := make([]jose.SignatureAlgorithm, len(algorithms))
	for i, name := range algorithms {
		all[i] = jose.SignatureAlgorithm(name)
	}
	return all
}()

// OIDC authenticates users by access or ID tokens of the account's issuers. Create it with NewOIDC.
type OIDC struct {
	users  *ActiveUsers
	clock  clock.PassiveClock
	http   *http.Client
	budget *budget
	// unsigned are the tokens, by hash, whose signatures were invalid with the latest keys.
	unsigned *expiringCache[[sha256.Size]byte, struct{}]
	// signed are the tokens, by hash, whose signatures are valid.
	signed *expiringCache[[sha256.Size]byte, signedToken]

	mu      sync.Mutex
	issuers map[string]*issuer
}

// NewOIDC returns an authenticator of OpenID Connect tokens. base is the HTTP client for requests to
// issuers, such as one with private certificate authorities; nil for the default. Only https URLs are
// requested.
func NewOIDC(users *ActiveUsers, clk clock.PassiveClock, base *http.Client) *OIDC {
	return &OIDC{
		users: users, clock: clk, http: base, issuers: map[string]*issuer{},
		budget:   newBudget(clk, keyAllowance),
		unsigned: newExpiringCache[[sha256.Size]byte, struct{}](clk, unsignedFor, maxUnsigned),
		signed:   newExpiringCache[[sha256.Size]byte, signedToken](clk, signedFor, maxSigned),
	}
}

// Authenticate implements Authenticator. An unavailable issuer is a server-side failure.
func (a *OIDC) Authenticate(ctx context.Context, account *v1alpha1.Account, r *http.Request) (*Principal, error) {
	c, err := credentialOf(r)
	if err != nil {
		return nil, err
	}
	if c.isKey() {
		return nil, otherForm
	}
	token := hashedJWT{text: c.jwt, sum: sha256.Sum256([]byte(c.jwt))}
	spec, err := a.issuerOf(account, token)
	if err != nil {
		return nil, err
	}
	if spec == nil {
		return nil, foreignIssuer
	}
	verified, err := a.verify(ctx, account.Name, spec, spec.Audiences, token)
	if err != nil {
		return nil, err
	}
	return a.principal(ctx, account, spec, verified)
}

// principal returns the principal of a person by the claims of a verified token.
func (a *OIDC) principal(ctx context.Context, account *v1alpha1.Account, spec *v1alpha1.OIDCIssuer, c Claims) (*Principal, error) {
	p, userName, err := userPrincipal(account, spec, c)
	if err != nil {
		return nil, err
	}
	p.UserName = userName
	user, err := a.users.named(ctx, account.Spec.Namespace, userName)
	if err != nil {
		return nil, err
	}
	if user != nil {
		p.User, p.UserUID = user.Name, string(user.UID)
	}
	if groups := groupsWithRoles(spec, groupsIn(spec, c)); len(groups) > 0 {
		p.Issuer, p.Groups = spec.URL, groups
	}
	p.Grants, p.HasRole = a.users.grantsOf(ctx, account, user, spec, p.Groups)
	return p, nil
}

// errUnsigned is returned for a token that its issuer has not signed.
var errUnsigned = unauthenticated("the token is malformed, or not signed by its issuer")

const foreignIssuer = otherCredential("the account does not have the issuer of the token")

// hashedJWT is a token with its hash, by which what is known of it is found.
type hashedJWT struct {
	text string
	sum  [sha256.Size]byte
}

// issuerOf is the function issuerOf, without parsing tokens whose signatures were valid before.
func (a *OIDC) issuerOf(account *v1alpha1.Account, jwt hashedJWT) (*v1alpha1.OIDCIssuer, error) {
	if known, ok := a.signed.get(jwt.sum); ok {
		return trustedIssuer(account, known.issuer), nil
	}
	return issuerOf(account, jwt.text)
}

// issuerOf returns the issuer of the account that the unverified token names; nil if there is none, or if
// the account's settings disable OIDC.
func issuerOf(account *v1alpha1.Account, jwt string) (*v1alpha1.OIDCIssuer, error) {
	unverified, err := unverifiedClaims(jwt)
	if err != nil {
		return nil, err
	}
	named, _ := unverified.text("iss")
	return trustedIssuer(account, named), nil
}

// trustedIssuer returns the issuer of the account with a URL; nil if there is none, or if the account's
// settings disable OIDC.
func trustedIssuer(account *v1alpha1.Account, url string) *v1alpha1.OIDCIssuer {
	if settings := account.Spec.Settings; settings != nil && !ptr.Deref(settings.OIDC, true) {
		return nil
	}
	for i := range account.Spec.OIDCIssuers {
		if spec := &account.Spec.OIDCIssuers[i]; spec.URL == url {
			return spec
		}
	}
	return nil
}

// unverifiedClaims returns the claims of a token without verifying it.
func unverifiedClaims(jwt string) (tokenClaims, error) { return unverifiedPart(jwt, 1) }

// unverifiedPart returns the header of a token, part 0, or its claims, part 1.
func unverifiedPart(jwt string, part int) (all tokenClaims, err error) {
	text, err := base64.RawURLEncoding.DecodeString(strings.Split(jwt, ".")[part])
	if err != nil || json.Unmarshal(text, &all) != nil {
		return nil, unauthenticated("the token is malformed")
	}
	return all, nil
}

// tokenClaims are the claims of a token.
type tokenClaims map[string]any

// text returns the value of a claim and whether it is a non-empty string.
func (c tokenClaims) text(name string) (string, bool) {
	value, _ := c[name].(string)
	return value, value != ""
}

// texts returns the value of a claim that is a string or a list of strings.
func (c tokenClaims) texts(name string) []string {
	switch value := c[name].(type) {
	case string:
		return []string{value}
	case []any:
		var all []string
		for _, item := range value {
			if text, ok := item.(string); ok {
				all = append(all, text)
			}
		}
		return all
	}
	return nil
}

// verify checks the signature, issuer, audience and times of a token and returns its claims. The token must
// have one of the audiences.
func (a *OIDC) verify(ctx context.Context, account string, spec *v1alpha1.OIDCIssuer, audiences []string, jwt hashedJWT) (tokenClaims, error) {
	token, err := a.signedBy(ctx, account, spec.URL, jwt)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(token.audience, func(audience string) bool { return slices.Contains(audiences, audience) }) {
		return nil, unauthenticated("the token is for another audience")
	}
	now := a.clock.Now()
	switch {
	case token.expiry.IsZero():
		return nil, unauthenticated("the token has no expiry")
	case !now.Before(token.expiry.Add(skew)):
		return nil, unauthenticated("the token has expired")
	}
	if value, given := token.claims["nbf"]; given {
		if begin, ok := value.(float64); !ok || begin > float64(now.Add(skew).Unix()) {
			return nil, unauthenticated("the token is not valid yet")
		}
	}
	return token.claims, nil
}

// signedToken is a token with a valid signature. It is shared and must not be modified.
type signedToken struct {
	audience []string
	expiry   time.Time
	claims   tokenClaims
	// issuer is the URL of the issuer, and version that of its keys.
	issuer  string
	version int
}

// signedBy returns a token that an issuer has signed. Callers send the same token many times: its signature is checked
// once for each change of the issuer's keys.
func (a *OIDC) signedBy(ctx context.Context, account, url string, jwt hashedJWT) (signedToken, error) {
	from := a.issuer(url)
	// An error is that of the check below, too.
	version, err := from.version(ctx)
	if known, ok := a.signed.get(jwt.sum); ok && err == nil && known.issuer == url && known.version == version {
		return known, nil
	}
	if _, known := a.unsigned.get(jwt.sum); known {
		return signedToken{}, errUnsigned
	}
	keys := &keySet{issuer: from, admit: func() error { return a.budget.spend(ctx, account, "") }}
	// Times and audiences are checked by the caller: the library tolerates five minutes of clock skew, and accepts one
	// audience only.
	token, err := oidc.NewVerifier(url, keys, &oidc.Config{
		SupportedSigningAlgs: algorithms, SkipClientIDCheck: true, SkipExpiryCheck: true,
	}).Verify(ctx, jwt.text)
	if errors.Is(keys.fault, ErrBusy) {
		return signedToken{}, keys.fault
	}
	if keys.fault != nil {
		return signedToken{}, fmt.Errorf("OIDC issuer %s: %w", url, keys.fault)
	}
	if err != nil {
		a.unsigned.put(jwt.sum, struct{}{})
		return signedToken{}, errUnsigned
	}
	checked := signedToken{audience: token.Audience, expiry: token.Expiry, issuer: url, version: version}
	if err := token.Claims(&checked.claims); err != nil {
		return signedToken{}, unauthenticated("the token is malformed")
	}
	a.signed.put(jwt.sum, checked)
	return checked, nil
}

// claimNames returns the names of the claims with the user's name and groups.
func claimNames(spec *v1alpha1.OIDCIssuer) (userName, groups string) {
	return cmp.Or(spec.UserNameClaim, "email"), cmp.Or(spec.GroupsClaim, "groups")
}

// userPrincipal returns the principal of a token and the userName of its ScimUser.
func userPrincipal(account *v1alpha1.Account, spec *v1alpha1.OIDCIssuer, c tokenClaims) (p *Principal, userName string, err error) {
	nameClaim, _ := claimNames(spec)
	subject, ok := c.text("sub")
	if !ok {
		return nil, "", unauthenticated(`the token has no claim "sub"`)
	}
	userName, ok = c.text(nameClaim)
	if !ok {
		return nil, "", unauthenticated("the token has no claim %q", nameClaim)
	}
	// Otherwise a user who enters a foreign address at the issuer would act as its owner.
	if verified, given := c["email_verified"]; nameClaim == "email" && given && verified != true && verified != "true" {
		return nil, "", unauthenticated("the e-mail address in the token is not verified")
	}
	p = &Principal{Kind: KindUser, Account: account.Name, ID: idOf(subject, spec.URL), Name: userName}
	if name, ok := c.text("name"); ok {
		p.Name = name
	}
	p.Email, _ = c.text("email")
	return p, userName, nil
}

// idOf returns the id of a person. A subject is unique at its issuer only (OpenID Connect Core 1.0, section 2), and an account may have
// several issuers. The URL of an issuer has no fragment, so different people have different ids.
func idOf(subject, issuer string) string {
	return strings.TrimPrefix(issuer, "https://") + "#" + subject
}

// groupsIn returns the groups in the claims of a token.
func groupsIn(spec *v1alpha1.OIDCIssuer, c tokenClaims) []string {
	_, claim := claimNames(spec)
	return c.texts(claim)
}

// groupsWithRoles returns the groups to which an issuer gives permissions.
func groupsWithRoles(spec *v1alpha1.OIDCIssuer, groups []string) []string {
	var kept []string
	for _, g := range groups {
		mapped := func(r v1alpha1.OIDCGroupRoles) bool { return r.Group == g }
		if !slices.Contains(kept, g) && (slices.Contains(spec.AdminGroups, g) || slices.ContainsFunc(spec.GroupRoles, mapped)) {
			kept = append(kept, g)
		}
	}
	return kept
}

// rolesOf returns the roles of the members of groups of an issuer.
func rolesOf(spec *v1alpha1.OIDCIssuer, groups []string) []v1alpha1.AccountRoleReference {
	var roles []v1alpha1.AccountRoleReference
	for i := range spec.GroupRoles {
		if mapped := &spec.GroupRoles[i]; slices.Contains(groups, mapped.Group) {
			roles = append(roles, mapped.Roles...)
		}
	}
	return roles
}

// Claims are the claims of a token of an issuer.
type Claims = tokenClaims

// Person returns the principal of a person who has authenticated at an issuer of the account, as Authenticate
// returns it for a token with the same claims. The error wraps ErrNoCredential if the account no longer has the
// issuer, or if the person is deactivated.
func (a *OIDC) Person(ctx context.Context, account *v1alpha1.Account, issuer string, c Claims) (*Principal, error) {
	spec := trustedIssuer(account, issuer)
	if spec == nil {
		return nil, unauthenticated("the account does not have the issuer at which the user has signed in")
	}
	return a.principal(ctx, account, spec, c)
}

// IDToken verifies an ID token of an issuer for the client spec.clientID (OpenID Connect Core 1.0, section
// 3.1.3.7), and returns the claims that Person needs. The error wraps ErrNoCredential if the token is invalid.
func (a *OIDC) IDToken(ctx context.Context, account *v1alpha1.Account, spec *v1alpha1.OIDCIssuer, nonce, jwt string) (Claims, error) {
	if !isJWT(jwt) || len(jwt) > maxIDToken {
		return nil, unauthenticated("the issuer has returned no ID token, or one of more than %d bytes", maxIDToken)
	}
	all, err := a.verify(ctx, account.Name, spec, []string{spec.ClientID}, hashedJWT{text: jwt, sum: sha256.Sum256([]byte(jwt))})
	if err != nil {
		return nil, err
	}
	party, given := all.text("azp")
	switch shown, _ := all.text("nonce"); {
	case nonce == "" || shown != nonce:
		return nil, unauthenticated("the ID token is for another sign-in")
	case given && party != spec.ClientID, !given && len(all.texts("aud")) > 1:
		return nil, unauthenticated("the ID token is for another client")
	}
	nameClaim, groupsClaim := claimNames(spec)
	kept := Claims{}
	for _, name := range []string{"sub", "name", "email", "email_verified", nameClaim, groupsClaim} {
		if value, ok := all[name]; ok {
			kept[name] = value
		}
	}
	return kept, nil
}

// maxIDToken is the maximum length of an ID token in bytes.
const maxIDToken = 64 << 10
