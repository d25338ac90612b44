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
}

// Client reads remotes. It is stateless and safe for concurrent use. It does
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
