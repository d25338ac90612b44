// Package number derives the numbers that users and groups have in the REST API from their SCIM ids.
//
// A number is 53 bits of a hash, so that all JSON parsers represent it exactly. It needs no write, no counter
// and no ledger, all replicas derive the same one, and a restored backup has the same ones
// (docs/decisions/0069).
package number

import (
	"crypto/sha256"
	"encoding/binary"
)

// Max is the largest number: that of JavaScript's Number.MAX_SAFE_INTEGER.
const Max = 1<<53 - 1

// Of returns the number of the resource of a type, such as User, with an id: from 1 to Max.
func Of(resourceType, id string) int64 {
	sum := sha256.Sum256([]byte(resourceType + "\x00" + id))
	return int64(binary.BigEndian.Uint64(sum[:])%Max) + 1
}
