// Package version decides which version a deployment runs.
//
// It implements the three written forms of a version, channels and their heads, the
// documented list of versions, pins, holds and upgrade policies. It is pure: the result
// depends on the arguments only, and not on the order of channels and runs.
//
// The files, from the bottom up:
//
//   - version.go: versions, their precedence, tags and written forms.
//   - policy.go: which versions of a repository belong to a channel.
//   - channel.go: releases, channels and runs.
//   - list.go: the documented list and the choice from it.
//   - resolve.go: the release that a deployment runs; pin.go: the same for pinned deployments.
//   - rollout.go: whether a release is stopped because it failed on the first deployments.
//   - errors.go: typed errors.
//
// docs/decisions/0003-versions-pin-and-hold.md explains why a pin in YAML may name more versions
// than the list shows, and how pins and holds behave over time.
package version
