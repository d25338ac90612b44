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

// user is what an identity provider sends of one; its number is all that users differ by.
const (
	user = `{"schemas":["` + userURN + `","` + enterpriseURN + `"],"userName":"user.0000000@bench.example.com","externalId":"00u0000000",` +
		`"name":{"givenName":"Given0000000","familyName":"Family0000000","formatted":"Given0000000 Family0000000"},"displayName":"Given0000000 Family0000000",` +
		`"title":"Analyst","locale":"en-GB","timezone":"Europe/London","emails":[{"value":"user.0000000@bench.example.com","type":"work","primary":true}],` +
		`"phoneNumbers":[{"value":"+44 20 0000000","type":"work"}],"active":true,` +
		`"` + enterpriseURN + `":{"employeeNumber":"0000000","costCenter":"4130","organization":"Universal Studios","department":"Tour Operations"}}`
	number = "0000000"
)

// numbered is a text about the user with a number.
func numbered[T string | []byte](text T, i int) []byte {
	return bytes.ReplaceAll([]byte(text), []byte(number), fmt.Appendf(nil, "%07d", i))
}

// eq is the query for what the user with a number has.
func eq(attribute, value string, i int) string {
	return "/Users?filter=" + url.QueryEscape(fmt.Sprintf(`%s eq "%s"`, attribute, numbered(value, i)))
}

// random numbers are the same in each run.
var random = rand.New(rand.NewPCG(1, 2))

// anyOf are n random numbers below a limit.
func anyOf(n, limit int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = random.IntN(limit)
	}
	return all
}

// createUser is a request that creates users from a number on.
func (b *bench) createUser(s *service, from int) measure.Timed {
	return func(ctx context.Context, i int) (took time.Duration, err error) {
		b.ids[from+i], took, err = s.create(ctx, "/Users", numbered(user, from+i))
		return took, err
	}
}
