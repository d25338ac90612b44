// Package git reads branches and folders of a remote Git repository, over
// HTTPS or SSH, without a git binary. It reads and does not decide: which
// branch is which environment is for the caller.
//
// Every error about a remote is stable text: no ephemeral ports, no
// timestamps, no credentials, nothing the server wrote. The same failure gives
// the same words, so an error may go into a Kubernetes condition as it is.
//
// Source: the Git documentation gitprotocol-pack(5), gitprotocol-http(5) and
// gitformat-pack(5). The protocol is version 0, the one go-git speaks.
package git
