//go:build memory

package scim_test

import "testing"

// passwordIsNowhere does nothing: the in-memory store contains only what responses contain.
func passwordIsNowhere(*testing.T, string, string) {}

// accessOf checks nothing: in memory persons have no keys.
func accessOf(*testing.T, string) func(status int) { return func(int) {} }
