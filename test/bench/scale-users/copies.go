package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/quoin-dev/quoin/internal/claims"
	"github.com/quoin-dev/quoin/test/bench/internal/etcd"
	"github.com/quoin-dev/quoin/test/bench/internal/measure"
)

// The kinds of the objects of a user.
const (
	users   = "platform.quoin.dev/scimusers"
	claimed = "platform.quoin.dev/claims"
)

// user is a user as an identity provider sends it. Users differ only in their number.
const (
	user = `{"schemas":["urn:ietf:params:scim:schemas:core:2.0:User","` + enterprise + `"],"userName":"user.0000000@bench.example.com","externalId":"00u0000000",` +
		`"name":{"givenName":"Given0000000","familyName":"Family0000000","formatted":"Given0000000 Family0000000"},"displayName":"Given0000000 Family0000000",` +
		`"title":"Analyst","locale":"en-GB","timezone":"Europe/London","emails":[{"value":"user.0000000@bench.example.com","type":"work","primary":true}],` +
		`"phoneNumbers":[{"value":"+44 20 0000000","type":"work"}],"active":true,` +
		`"` + enterprise + `":{"employeeNumber":"0000000","costCenter":"4130","organization":"Universal Studios","department":"Tour Operations"}}`
	enterprise = "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User"
	number     = "0000000"
)

// withNumber returns a text with the number of a user filled in.
func withNumber(text string, i int) []byte {
	return bytes.ReplaceAll([]byte(text), []byte(number), fmt.Appendf(nil, "%07d", i))
}

// userName returns the user name with a number.
func userName(i int) string { return string(withNumber("user."+number+"@bench.example.com", i)) }

// stored is an object in etcd, with its UID.
type stored struct {
	etcd.Pair
	uid []byte
}

// find returns the only object of a kind whose value contains a text.
func find(ctx context.Context, e etcd.Server, kind, text string) (stored, error) {
	const few = 100
	pairs, _, err := e.Range(ctx, etcd.Prefix+kind+"/"+namespace+"/", few)
	if err != nil {
		return stored{}, err
	}
	for _, p := range pairs {
		if !bytes.Contains(p.Value, []byte(text)) {
			continue
		}
		const field = `"uid":"`
		from := bytes.Index(p.Value, []byte(field)) + len(field)
		length := bytes.IndexByte(p.Value[max(from, 0):], '"')
		if from < len(field) || length < 0 {
			return stored{}, fmt.Errorf("%s has no UID: %s", p.Key, p.Value)
		}
		return stored{p, p.Value[from : from+length]}, nil
	}
	return stored{}, errors.New("no object of the user among " + kind)
}

// copyUser writes copies of the user and its claim to etcd, with other names and UIDs.
func (w *world) copyUser(ctx context.Context) error {
	const writers = 4
	e := etcd.Server{URL: w.server.Etcd()}
	first, err := find(ctx, e, users, w.names[0])
	if err != nil {
		return err
	}
	claim, err := find(ctx, e, claimed, w.names[0])
	if err != nil {
		return err
	}
	const each = etcd.Batch / 2
	batches := (w.n - 1 + each - 1) / each
	times, err := measure.Spread(ctx, batches, writers, func(ctx context.Context, batch int) (time.Duration, error) {
		var pairs []etcd.Pair
		for i := 1 + batch*each; i < min(1+(batch+1)*each, w.n); i++ {
			id, err := uuid.NewV7()
			if err != nil {
				return 0, err
			}
			w.names[i] = id.String()
			pairs = append(pairs, w.copyOf(first, i), w.copyOf(claim, i))
		}
		return 0, e.Put(ctx, pairs)
	})
	measure.Progress("    %.0f users a second", times.PerSecond()*each)
	return err
}

// copyOf returns a copy of an object of the first user for another one.
func (w *world) copyOf(of stored, i int) etcd.Pair {
	replace := func(text []byte) []byte {
		for _, change := range [][2]string{
			{w.names[0], w.names[i]},
			{claims.UserName.Name(userName(0)), claims.UserName.Name(userName(i))},
			{string(of.uid), uuid.NewString()},
		} {
			text = bytes.ReplaceAll(text, []byte(change[0]), []byte(change[1]))
		}
		return withNumber(string(text), i)
	}
	return etcd.Pair{Key: replace(of.Key), Value: replace(of.Value)}
}
