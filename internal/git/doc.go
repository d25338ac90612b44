// Package git reads branches and folders of a remote Git repository, over
// HTTPS or SSH, without a git binary. It only reads: the mapping of branches to
// environments is the caller's.
//
// Errors about a remote are stable: they contain no ephemeral ports, no
// timestamps, no credentials and no text from the server. The same failure has
// the same message, so an error can be used as the message of a condition.
//
// Source: the Git documentation gitprotocol-v2(5), gitprotocol-pack(5),
// gitprotocol-http(5) and gitformat-pack(5). Servers are asked for version 2 of the
// protocol, in which they send only the refs that are needed, and read in
// version 0 if they do not support it. Messages of a server are read as a
// stream: go-git, which reads packs here, holds all refs of a server in memory.
package git
