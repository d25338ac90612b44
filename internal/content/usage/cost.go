package usage

import (
	"fmt"
	"math/big"
)

// Price is what a million tokens cost, as decimal numbers. CachedInput is Input if empty.
type Price struct{ Input, CachedInput, Output string }

// Cost returns what tokens cost in millionths of the currency, rounded up.
func (p Price) Cost(a Amounts) (int64, error) {
	cached := p.CachedInput
	if cached == "" {
		cached = p.Input
	}
	sum := new(big.Rat)
	for _, part := range []struct {
		field, price string
		tokens       int64
	}{{"input", p.Input, a.InputTokens - a.CachedTokens}, {"cached input", cached, a.CachedTokens}, {"output", p.Output, a.OutputTokens}} {
		price, ok := new(big.Rat).SetString(part.price)
		if !ok || len(part.price) > maxPrice || price.Sign() < 0 {
			return 0, fmt.Errorf("the price of %s is %q; allowed: a decimal number", part.field, part.price)
		}
		// A price for a million tokens, in units, is the price of a token in millionths.
		sum.Add(sum, price.Mul(price, new(big.Rat).SetInt64(max(part.tokens, 0))))
	}
	up := new(big.Int).Add(sum.Num(), new(big.Int).Sub(sum.Denom(), big.NewInt(1)))
	if up.Quo(up, sum.Denom()); !up.IsInt64() {
		return 0, fmt.Errorf("the cost of %d tokens is too large", a.InputTokens+a.OutputTokens)
	}
	return up.Int64(), nil
}

// maxPrice is the maximum length of a price.
const maxPrice = 32
