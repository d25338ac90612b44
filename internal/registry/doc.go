// Package registry reads tags and digests of an OCI repository over the
// distribution API. It only reads: selecting the tags that are versions, and
// the version to run, is the caller's.
//
// Errors are stable: they contain no ephemeral ports, no timestamps, no
// credentials and no text from the registry. The same failure has the same
// message, so an error can be used as the message of a condition.
//
// Source: OCI Distribution Specification v1.1, headings "Content Discovery"
// and "Pulling manifests".
package registry
