package git

import (
	"context"
	"errors"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/transport"
	"github.com/go-git/go-git/v5/plumbing/transport/file"
	gitdaemon "github.com/go-git/go-git/v5/plumbing/transport/git"
)

// DefaultTimeout is used where Options.Timeout is zero.
const DefaultTimeout = 30 * time.Second

// Options configure a Client; production uses the zero value.
type Options struct {
	// AllowInsecure allows http://, git:// and file:// URLs: for tests and
	// loopback only.
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

// uploadPack is a session with git-upload-pack: the refs first, then at most
// one pack. go-git's sessions and sshSession implement it.
type uploadPack interface {
	AdvertisedReferencesContext(context.Context) (*packp.AdvRefs, error)
	UploadPack(context.Context, *packp.UploadPackRequest) (*packp.UploadPackResponse, error)
	Close() error
}

// session is an open upload-pack session with the advertised refs.
type session struct {
	uploadPack
	remote remote
	refs   *packp.AdvRefs
}

// open connects and reads the refs; an empty repository has none. The caller
// must close the session.
func (c *Client) open(ctx context.Context, r remote, creds Credentials) (*session, error) {
	conversation, err := c.connect(ctx, r, creds)
	if err != nil {
		return nil, r.transportError(ctx, err)
	}
	refs, err := conversation.AdvertisedReferencesContext(ctx)
	if errors.Is(err, transport.ErrEmptyRemoteRepository) {
		refs, err = packp.NewAdvRefs(), nil
	}
	if err != nil {
		_ = conversation.Close()
		return nil, r.transportError(ctx, err)
	}
	return &session{uploadPack: conversation, remote: r, refs: refs}, nil
}

func (c *Client) connect(ctx context.Context, r remote, creds Credentials) (uploadPack, error) {
	endpoint, err := r.endpoint()
	if err != nil {
		return nil, err
	}
	switch r.url.Scheme {
	case "https", "http":
		return c.connectHTTP(endpoint, creds)
	case "ssh":
		return c.connectSSH(ctx, r, creds)
	case "git":
		return gitdaemon.DefaultClient.NewUploadPackSession(endpoint, nil)
	case "file":
		return file.DefaultClient.NewUploadPackSession(endpoint, nil)
	}
	return nil, invalid(ErrInvalidURL, "want %s", c.options.allowedSchemes())
}

// tip returns the commit of a ref with the full name.
func (s *session) tip(name plumbing.ReferenceName) (plumbing.Hash, bool) {
	hash, ok := s.refs.References[name.String()]
	return hash, ok
}
