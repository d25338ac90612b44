package auth

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/quoin-dev/quoin/internal/ratelimit"
	"github.com/quoin-dev/quoin/internal/serving"
)

// ErrBusy is returned if a credential cannot be checked because too many unknown credentials were
// presented in a short time. The response is 503, or 429 for ErrTooMany.
var ErrBusy = errors.New("too many unknown credentials")

// ErrTooMany is the ErrBusy of a client address that has itself presented too many.
var ErrTooMany = fmt.Errorf("%w from the address of the client", ErrBusy)

// rates are a rate limit: events per second on average, and at once.
type rates struct {
	perSecond float64
	burst     int
}

// allowance are the limits of a budget.
type allowance struct{ address, account, total rates }

const (
	// provenFor is how long a credential and a client address count as known after a successful check.
	provenFor = time.Hour
	// maxProven is the maximum number of known credentials of an account, and of its known addresses.
	maxProven = 256
	// maxLimited bounds the memory of the limits by address and by account.
	maxLimited = 10_000
)

// budget limits the calls to other systems that check unknown credentials, which unauthenticated
// requests cause: for each client address, for each account and in total. A caller who is known is
// not affected by the unknown credentials of others: known credentials are not limited, because
// their number is, and in an account from which a client address has presented a valid credential
// that address has a limit of its own instead of its shares of the account's and the total limit.
type budget struct {
	clock     clock.PassiveClock
	addresses *ratelimit.Limits[netip.Prefix]
	accounts  *ratelimit.Limits[string]
	total     *ratelimit.Limits[struct{}]
	// known are the limits of known addresses.
	known *ratelimit.Limits[knownAddress]

	mu     sync.Mutex
	proven map[string]*proven // by account; accounts are created by administrators only
}

type knownAddress struct {
	account string
	address netip.Prefix
}

// proven has what was part of successful checks in an account.
type proven struct {
	credentials *expiringCache[string, struct{}]
	addresses   *expiringCache[netip.Prefix, struct{}]
}

func newBudget(clk clock.PassiveClock, a allowance) *budget {
	return &budget{
		clock:     clk,
		addresses: ratelimit.New[netip.Prefix](a.address.perSecond, a.address.burst, maxLimited),
		accounts:  ratelimit.New[string](a.account.perSecond, a.account.burst, maxLimited),
		total:     ratelimit.New[struct{}](a.total.perSecond, a.total.burst, 2),
		known:     ratelimit.New[knownAddress](a.address.perSecond, a.address.burst, maxLimited),
		proven:    map[string]*proven{},
	}
}

// spend admits the check of a credential, which may be empty if it is never known, or returns an error
// that wraps ErrBusy.
func (b *budget) spend(ctx context.Context, account, credential string) error {
	now, address := b.clock.Now(), serving.ClientNetwork(ctx)
	known := b.of(account)
	if _, ok := known.credentials.get(credential); ok {
		return nil
	}
	if _, ok := known.addresses.get(address); ok && address.IsValid() {
		if b.known.Take(knownAddress{account, address}, now) > 0 {
			return ErrTooMany
		}
		return nil
	}
	switch {
	case address.IsValid() && b.addresses.Take(address, now) > 0:
		return ErrTooMany
	case b.accounts.Take(account, now) > 0, b.total.Take(struct{}{}, now) > 0:
		return ErrBusy
	}
	return nil
}

// prove records a successful check of a credential.
func (b *budget) prove(ctx context.Context, account, credential string) {
	known := b.of(account)
	if credential != "" {
		known.credentials.put(credential, struct{}{})
	}
	if address := serving.ClientNetwork(ctx); address.IsValid() {
		known.addresses.put(address, struct{}{})
	}
}

// disprove records that a credential is no longer valid.
func (b *budget) disprove(account, credential string) { b.of(account).credentials.delete(credential) }

func (b *budget) of(account string) *proven {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.proven[account]
	if p == nil {
		p = &proven{
			credentials: newExpiringCache[string, struct{}](b.clock, provenFor, maxProven),
			addresses:   newExpiringCache[netip.Prefix, struct{}](b.clock, provenFor, maxProven),
		}
		b.proven[account] = p
	}
	return p
}

// tokenAllowance limits the reads of the database that invented access tokens cause.
var tokenAllowance = allowance{address: rates{5, 20}, account: rates{10, 40}, total: rates{50, 100}}

// Budget limits the calls to other systems that check unknown credentials, for authenticators of other packages.
type Budget struct{ *budget }

// NewTokenBudget returns the budget of access tokens, by which the database is read.
func NewTokenBudget(clk clock.PassiveClock) *Budget { return &Budget{newBudget(clk, tokenAllowance)} }

// Spend admits the check of a credential, or returns an error that wraps ErrBusy.
func (b *Budget) Spend(ctx context.Context, account, credential string) error {
	return b.spend(ctx, account, hashed(credential))
}

// Prove records a successful check of a credential.
func (b *Budget) Prove(ctx context.Context, account, credential string) {
	b.prove(ctx, account, hashed(credential))
}

// Disprove records that a credential is no longer valid.
func (b *Budget) Disprove(account, credential string) { b.disprove(account, hashed(credential)) }

// hashed returns a credential as a budget has it.
func hashed(credential string) string {
	sum := sha256.Sum256([]byte(credential))
	return hex.EncodeToString(sum[:])
}
