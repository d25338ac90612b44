// Package version decides which version a deployment runs.
//
// It knows the three written forms of a version, the channels and their heads, the
// documented list of versions, pins, holds and upgrade policies. It is pure: it reads
// nothing but its arguments, so the same question always has the same answer, whatever
// order channels and runs are given in.
//
// The parts, in the order a version travels:
//
//   - version.go: a version and its precedence; tags and written forms.
//   - policy.go: which versions of a repository belong to a channel.
//   - channel.go: releases, channels, and what has run.
//   - list.go: the documented list, and choosing from it.
//   - resolve.go: what a deployment shall run; pin.go is the part for pinned ones.
//   - errors.go: the refusals, as types.
//
// Why a pin in YAML may name more versions than the list shows, and what becomes of pins
// and holds over time, is in docs/decisions/0003-versions-pin-and-hold.md.
package version
