// Package clientcredentials issues access tokens to programs with an API key (RFC 6749, section 4.4), and authenticates them.
//
// The client is the ApiKey: its client_id is the name of the object, and its client_secret the token of the key. An access token
// acts as the key, for an hour and no longer than the key is valid. It is stored nowhere: it has the hash of the key's token,
// encrypted with a key of the account, so each replica can check it, also without a database.
package clientcredentials

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"k8s.io/utils/clock"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/auth"
	"github.com/quoin-dev/quoin/internal/apikey"
	"github.com/quoin-dev/quoin/internal/keyring"
)

const (
	// Prefix of every access token, by which people and scanners recognize it.
	Prefix = "qct_"
	// Lifetime of an access token.
	Lifetime = time.Hour
	// maxLength is the maximum length of an access token in bytes.
	maxLength = 512
	// use is what the encrypted part of a token belongs to: see keyring.
	use = "access token of an API key"
)

// Tokens issues and authenticates access tokens. Create it with New.
type Tokens struct {
	keys   *auth.Keys
	ring   *keyring.Keyring
	clock  clock.PassiveClock
	budget *auth.Budget
}

// New returns Tokens for the keys of an authenticator.
func New(keys *auth.Keys, ring *keyring.Keyring, clk clock.PassiveClock) *Tokens {
	return &Tokens{keys, ring, clk, auth.NewTokenBudget(clk)}
}

// content is the encrypted part of an access token.
type content struct {
	// Key is the token of the API key, as the ApiKey has it.
	Key v1alpha1.ApiKeyToken `json:"key"`
	// Expires is in seconds of Unix time.
	Expires int64 `json:"exp"`
}

// Issue returns an access token for the ApiKey with a name and a token. Errors are those of auth.Keys.
func (t *Tokens) Issue(ctx context.Context, account *v1alpha1.Account, name, secret string) (string, error) {
	key, err := apikey.Parse(secret)
	if err != nil {
		return "", auth.Invalid("client_secret: " + err.Error())
	}
	p, err := t.keys.Principal(ctx, account, key.Hash())
	if err != nil {
		return "", err
	}
	if p.ID != name {
		return "", auth.Invalid("client_id is not the name of the ApiKey whose token is client_secret")
	}
	data, err := json.Marshal(content{key.Hash(), t.clock.Now().Add(Lifetime).Unix()})
	if err != nil {
		return "", fmt.Errorf("encode an access token: %w", err)
	}
	id, sealed, err := t.ring.Seal(ctx, account, use, data)
	if err != nil {
		return "", fmt.Errorf("encrypt an access token: %w", err)
	}
	return Prefix + id + "_" + sealed, nil
}

// errToken is returned for every invalid access token.
var errToken = auth.Invalid("there is no such access token, or it is that of another account")

// Authenticate implements auth.Authenticator. The principal is that of the key.
func (t *Tokens) Authenticate(ctx context.Context, account *v1alpha1.Account, r *http.Request) (*auth.Principal, error) {
	text, ok := auth.TokenIn(r, Prefix)
	if !ok {
		return nil, auth.OtherForm
	}
	if len(text) > maxLength {
		return nil, errToken
	}
	// A token may name any key of the account, which is then looked up.
	if err := t.budget.Spend(ctx, account.Name, text); err != nil {
		return nil, err
	}
	c, err := t.open(ctx, account, text)
	if err == nil && t.clock.Now().Unix() >= c.Expires {
		err = auth.Invalid("the access token has expired")
	}
	if errors.Is(err, auth.ErrNoCredential) {
		t.budget.Disprove(account.Name, text)
	}
	if err != nil {
		return nil, err
	}
	t.budget.Prove(ctx, account.Name, text)
	return t.keys.Principal(ctx, account, c.Key)
}

// open returns the content of an access token.
func (t *Tokens) open(ctx context.Context, account *v1alpha1.Account, text string) (c content, err error) {
	id, sealed, _ := strings.Cut(strings.TrimPrefix(text, Prefix), "_")
	data, err := t.ring.Open(ctx, account, use, id, sealed)
	switch {
	case errors.Is(err, keyring.ErrUnknownKey), errors.Is(err, keyring.ErrMalformed):
		return c, errToken
	case err != nil:
		return c, fmt.Errorf("decrypt an access token: %w", err)
	}
	return c, json.Unmarshal(data, &c)
}
