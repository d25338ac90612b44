// Package git reads branches and folders of a remote Git repository, and pushes
// to it, over HTTPS or SSH, without a git binary. The mapping of branches to
// environments is the caller's.
//
// Errors about a remote are stable: they contain no ephemeral ports, no
// timestamps, no credentials and, but for those of a push, no text from the
// server. The same failure has the same message, so an error can be used as the
// message of a condition.
//
// Source: the Git documentation gitprotocol-v2(5), gitprotocol-pack(5),
// gitprotocol-http(5) and gitformat-pack(5). Servers are asked for version 2 of the
// protocol, in which they send only the refs that are needed, and read in
// version 0 if they do not support it. Messages of a server are read as a
// stream: go-git, which reads packs here, holds all refs of a server in memory.
package git

import "time"

// DefaultTimeout is used where Options.Timeout is zero.
const DefaultTimeout = 30 * time.Second

// Options configure a Client; production uses the zero value.
type Options struct {
	// AllowInsecure allows http:// URLs: for tests and isolated networks only.
	AllowInsecure bool
	// Timeout limits connecting to a server, including the TLS or SSH handshake;
	// zero means DefaultTimeout. The context limits the whole call.
	Timeout time.Duration
	// MaxConnectionBytes limits what is read of a connection over SSH, whose server can send messages at any
	// time; zero means no limit. Over HTTP, each response has a limit.
	MaxConnectionBytes int64
}

// Client reads remotes and pushes to them. It is stateless and safe for concurrent use. It does
// not retry: callers have their own backoff.
type Client struct {
	options Options
}

// New returns a Client.
func New(o Options) *Client {
	if o.Timeout <= 0 {
		o.Timeout = DefaultTimeout
	}
	return &Client{options: o}
}
