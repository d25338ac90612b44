package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/url"
	"time"

	"github.com/quoin-dev/quoin/test/bench/internal/measure"
)

// user is a user as an identity provider sends it. Users differ only in their number.
const (
	user = `{"schemas":["` + userURN + `","` + enterpriseURN + `"],"userName":"user.0000000@bench.example.com","externalId":"00u0000000",` +
		`"name":{"givenName":"Given0000000","familyName":"Family0000000","formatted":"Given0000000 Family0000000"},"displayName":"Given0000000 Family0000000",` +
		`"title":"Analyst","locale":"en-GB","timezone":"Europe/London","emails":[{"value":"user.0000000@bench.example.com","type":"work","primary":true}],` +
		`"phoneNumbers":[{"value":"+44 20 0000000","type":"work"}],"active":true,` +
		`"` + enterpriseURN + `":{"employeeNumber":"0000000","costCenter":"4130","organization":"Universal Studios","department":"Tour Operations"}}`
	number = "0000000"
)

// withNumber returns a text with the number of a user filled in.
func withNumber[T string | []byte](text T, i int) []byte {
	return bytes.ReplaceAll([]byte(text), []byte(number), fmt.Appendf(nil, "%07d", i))
}

// eq returns the query for the value of an attribute of a user.
func eq(attribute, value string, i int) string {
	return "/Users?filter=" + url.QueryEscape(fmt.Sprintf(`%s eq "%s"`, attribute, withNumber(value, i)))
}

// random returns the same numbers in each run.
var random = rand.New(rand.NewPCG(1, 2))

// randomNumbers returns n random numbers below a limit.
func randomNumbers(n, limit int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = random.IntN(limit)
	}
	return all
}

// createUser returns a request that creates users, starting at a number.
func (b *bench) createUser(s *service, from int) measure.Timed {
	return func(ctx context.Context, i int) (took time.Duration, err error) {
		b.ids[from+i], took, err = s.create(ctx, "/Users", withNumber(user, from+i))
		return took, err
	}
}
