package scimtest

import (
	"fmt"

	"github.com/quoin-dev/quoin/apiserver/scim/schema"
)

// AddMembers adds members with these values to a set.
func AddMembers(s schema.Set, values ...string) {
	for _, value := range values {
		s.Put(map[string]any{"value": value})
	}
}

// Sequence returns values with a prefix and consecutive numbers, from <= number < to.
func Sequence(prefix string, from, to int) []string {
	var values []string
	for i := from; i < to; i++ {
		values = append(values, fmt.Sprintf("%s%07d", prefix, i))
	}
	return values
}
