package auth

import (
	"context"
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
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/apikey"
	"github.com/quoin-dev/quoin/internal/claims"
	"github.com/quoin-dev/quoin/internal/fold"
)

// IndexUserName is the field by which the cache finds ScimUsers; UserNames are its values.
const IndexUserName = "userName"

// UserNames is the one name by which a ScimUser is found: userName without regard to case.
func UserNames(obj client.Object) []string {
	u, ok := obj.(*v1alpha1.ScimUser)
	if !ok {
		return nil
	}
	return []string{fold.Case(u.Spec.UserName)}
}

// skew is how far the clocks of an issuer and of this process may be apart.
const skew = 30 * time.Second

// algorithms that may sign a token: those of which we hold a public key only.
var algorithms = []string{
	oidc.RS256, oidc.RS384, oidc.RS512, oidc.PS256, oidc.PS384, oidc.PS512, oidc.ES256, oidc.ES384, oidc.ES512, oidc.EdDSA,
}

// OIDC recognises people by access or ID tokens of the account's issuers. Make one with
// NewOIDC.
type OIDC struct {
	users client.Reader
	clock clock.PassiveClock
	http  *http.Client

	mu      sync.Mutex
	issuers map[string]*issuer
}

// NewOIDC returns an authenticator of OpenID Connect tokens. users has the index
// IndexUserName. base is how issuers are reached, nil for the usual way: tests and closed
// networks have certificate authorities of their own. Only https is spoken, whatever base can.
func NewOIDC(users client.Reader, clk clock.PassiveClock, base *http.Client) *OIDC {
	return &OIDC{users: users, clock: clk, http: base, issuers: map[string]*issuer{}}
}

// Authenticate implements Authenticator. An issuer that does not answer is a fault.
func (a *OIDC) Authenticate(ctx context.Context, account *v1alpha1.Account, r *http.Request) (*Principal, error) {
	c, err := credentialOf(r)
	if err != nil {
		return nil, err
	}
	if c.isKey() {
		return nil, otherForm
	}
	spec, err := issuerOf(account, c.jwt)
	if err != nil {
		return nil, err
	}
	if spec == nil {
		return nil, foreignIssuer
	}
	said, err := a.verify(ctx, spec, c.jwt)
	if err != nil {
		return nil, err
	}
	p, userName, err := personOf(account, spec, said)
	if err != nil {
		return nil, err
	}
	p.User, err = a.mayAct(ctx, account.Spec.Namespace, userName)
	if err != nil {
		return nil, err
	}
	return p, nil
}

const foreignIssuer = otherCredential("the issuer of the token is none of the account's")

// issuerOf is the issuer of the account that a token says it is of; nil when it is none.
func issuerOf(account *v1alpha1.Account, jwt string) (*v1alpha1.OIDCIssuer, error) {
	parts := strings.Split(jwt, ".")
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return nil, refused("the token is malformed")
	}
	var said struct {
		Issuer string `json:"iss"`
	}
	if err := json.Unmarshal(payload, &said); err != nil {
		return nil, refused("the token is malformed")
	}
	for i := range account.Spec.OIDCIssuers {
		if spec := &account.Spec.OIDCIssuers[i]; spec.URL == said.Issuer {
			return spec, nil
		}
	}
	return nil, nil
}

// tokenClaims are those of a token that holds.
type tokenClaims map[string]any

// text is the value of a claim that is a text that is not empty.
func (c tokenClaims) text(name string) (string, bool) {
	value, _ := c[name].(string)
	return value, value != ""
}

// texts is the value of a claim that is a list of texts, or one text.
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

// verify checks signature, issuer, audience and times of a token.
func (a *OIDC) verify(ctx context.Context, spec *v1alpha1.OIDCIssuer, jwt string) (tokenClaims, error) {
	set, err := a.issuer(spec.URL).keySet(ctx)
	if err != nil {
		return nil, fmt.Errorf("OIDC issuer %s: %w", spec.URL, err)
	}
	keys := &judge{KeySet: set}
	// Times and audiences are checked here: the library allows five minutes, and one audience.
	token, err := oidc.NewVerifier(spec.URL, keys, &oidc.Config{
		SupportedSigningAlgs: algorithms, SkipClientIDCheck: true, SkipExpiryCheck: true,
	}).Verify(ctx, jwt)
	if keys.fault != nil {
		return nil, fmt.Errorf("OIDC issuer %s: %w", spec.URL, keys.fault)
	}
	if err != nil {
		return nil, refused("the token is malformed, or not signed by its issuer")
	}
	if !slices.ContainsFunc(token.Audience, func(audience string) bool { return slices.Contains(spec.Audiences, audience) }) {
		return nil, refused("the token is for another audience")
	}
	var all tokenClaims
	if err := token.Claims(&all); err != nil {
		return nil, refused("the token is malformed")
	}
	now := a.clock.Now()
	switch {
	case token.Expiry.IsZero():
		return nil, refused("the token has no expiry")
	case !now.Before(token.Expiry.Add(skew)):
		return nil, refused("the token has expired")
	}
	if value, given := all["nbf"]; given {
		if begin, ok := value.(float64); !ok || begin > float64(now.Add(skew).Unix()) {
			return nil, refused("the token is not valid yet")
		}
	}
	return all, nil
}

// judge is a key set that tells a signature that is wrong from one that could not be checked:
// fault is why it could not.
type judge struct {
	oidc.KeySet
	fault error
}

// VerifySignature implements oidc.KeySet. The verifier hides causes, and the key set's own
// failures have no type: what begins with these words happened on the way to the keys.
func (j *judge) VerifySignature(ctx context.Context, jwt string) ([]byte, error) {
	payload, err := j.KeySet.VerifySignature(ctx, jwt)
	if err != nil && strings.HasPrefix(err.Error(), "fetching keys ") {
		j.fault = short(err)
		if errors.Is(err, errTooOften) {
			j.fault = ErrBusy
		}
	}
	return payload, err
}

// personOf turns the claims of a token into a principal, and returns the name by which the
// person is known over SCIM.
func personOf(account *v1alpha1.Account, spec *v1alpha1.OIDCIssuer, c tokenClaims) (p *Principal, userName string, err error) {
	nameClaim, groupsClaim := spec.UserNameClaim, spec.GroupsClaim
	if nameClaim == "" {
		nameClaim = "email"
	}
	if groupsClaim == "" {
		groupsClaim = "groups"
	}
	subject, ok := c.text("sub")
	if !ok {
		return nil, "", refused(`the token has no claim "sub"`)
	}
	userName, ok = c.text(nameClaim)
	if !ok {
		return nil, "", refused("the token has no claim %q", nameClaim)
	}
	// Whoever enters an address that is not theirs would act as its user.
	if verified, given := c["email_verified"]; nameClaim == "email" && given && verified != true && verified != "true" {
		return nil, "", refused("the e-mail address in the token is not verified")
	}
	p = &Principal{
		Kind: KindUser, Account: account.Name, ID: subject, Name: userName,
		Permissions: []v1alpha1.Permission{"DeploymentRead", "SchemaRead"},
	}
	if name, ok := c.text("name"); ok {
		p.Name = name
	}
	p.Email, _ = c.text("email")
	if slices.ContainsFunc(c.texts(groupsClaim), func(g string) bool { return slices.Contains(spec.AdminGroups, g) }) {
		p.Permissions = []v1alpha1.Permission{v1alpha1.PermissionAdmin}
	}
	return p, userName, nil
}

// mayAct refuses people whom SCIM has deactivated, and names the ScimUser of the others. Those
// whom it does not know may act.
func (a *OIDC) mayAct(ctx context.Context, namespace, userName string) (string, error) {
	list := &v1alpha1.ScimUserList{}
	err := a.users.List(ctx, list, client.InNamespace(namespace), client.MatchingFields{IndexUserName: fold.Case(userName)})
	if err != nil {
		return "", fmt.Errorf("find user: %w", err)
	}
	// Of several with the name one has it, and the others have lost it.
	list.Items = slices.DeleteFunc(list.Items, func(u v1alpha1.ScimUser) bool { return claims.IsNameTaken(&u) })
	for i := range list.Items {
		if !apikey.Active(&list.Items[i]) {
			return "", refused("the user is not active")
		}
	}
	if len(list.Items) != 1 {
		return "", nil
	}
	return list.Items[0].Name, nil
}
