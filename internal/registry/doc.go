// Package registry reads tags and digests of an OCI repository over the
// distribution API. It reads and does not decide: which tag is a version, and
// which version to run, is for the caller.
//
// Every error it returns is stable text: no ephemeral ports, no timestamps, no
// credentials, nothing the registry wrote. The same failure gives the same
// words, so an error may go into a Kubernetes condition as it is.
//
// Source: OCI Distribution Specification v1.1, headings "Content Discovery"
// and "Pulling manifests".
package registry
