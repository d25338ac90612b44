// Package git reads branches and folders of a remote Git repository, over
// HTTPS or SSH, without a git binary. It only reads: the mapping of branches to
// environments is the caller's.
//
// Errors about a remote are stable: they contain no ephemeral ports, no
// timestamps, no credentials and no text from the server. The same failure has
// the same message, so an error can be used as the message of a condition.
//
// Source: the Git documentation gitprotocol-pack(5), gitprotocol-http(5) and
// gitformat-pack(5). The protocol is version 0, the one that go-git supports.
package git
