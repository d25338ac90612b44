package githttp

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/quoin-dev/quoin/internal/content/repository"
	"github.com/quoin-dev/quoin/internal/serving"
	"github.com/quoin-dev/quoin/internal/turns"
)

const (
	// maxCommands bounds the branches of one push, and maxCommandBytes their commands.
	maxCommands     = 1000
	maxCommandBytes = 1 << 20
	// maxPushes is the number of pushes that are unpacked at the same time, and maxAccountPushes that of those of
	// an account: each needs up to some 100 MiB of memory, and its client may send slowly. Others wait, at most
	// maxWait.
	maxPushes, maxAccountPushes = 2, 1
	maxWait                     = 20 * time.Second
)

// command is a request to move a branch. A zero from creates it, a zero to deletes it.
type command struct {
	ref      string
	from, to plumbing.Hash
	// failure is why the branch is not moved.
	failure string
}

// branch returns the name of the branch.
func (c *command) branch() string { return strings.TrimPrefix(c.ref, headsDir) }

// push is a request of git-receive-pack.
type push struct {
	target   target
	session  *repository.Session
	commands []*command
	// capabilities that the client uses.
	capabilities []string
	// unpackFailure is why the pack was not accepted.
	unpackFailure string
	// messages are shown to the user.
	messages []string
}

func (p *push) has(capability string) bool { return slices.Contains(p.capabilities, capability) }

// receivePack serves a request of git-receive-pack: gitprotocol-pack(5), heading "Pushing Data To a
// Server".
func (s *Server) receivePack(out *response, r *http.Request, t target, session *repository.Session) {
	raw, err := bodyOf(r, maxPushBody)
	if err != nil {
		out.fail(r, err)
		return
	}
	body := bufio.NewReaderSize(raw, 64<<10)
	p := &push{target: t, session: session}
	if err := p.readCommands(newPacketReader(body, maxCommandBytes)); err != nil {
		out.fail(r, err)
		return
	}
	if len(p.commands) == 0 { // a probe, before a long request
		out.Header().Set("Content-Length", "0")
		_, _ = out.Write(nil)
		return
	}
	release, err := wait(r.Context(), s.pushes, t.account.Name)
	if err != nil {
		serving.WriteBusy(out.ResponseWriter, http.StatusServiceUnavailable, "too many pushes at the moment: retry later")
		return
	}
	defer release()
	if err := s.apply(r.Context(), p, body); err != nil {
		out.fail(r, err)
		return
	}
	// A client that still sends does not read the response.
	_, _ = io.Copy(io.Discard, body)
	buffered := bufio.NewWriterSize(out, maxPacket)
	p.report(&packetWriter{w: buffered})
	_ = buffered.Flush() // fails only if the client has disconnected
}

// wait waits for a place for an account, at most maxWait.
func wait(ctx context.Context, places *turns.Places[string], account string) (release func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	return places.Acquire(ctx, account)
}

// readCommands reads the commands and their capabilities.
func (p *push) readCommands(in *packetReader) error {
	for {
		line, ok, err := in.data()
		switch {
		case err != nil:
			return err
		case !ok:
			return p.skipOptions(in)
		case strings.HasPrefix(line, "shallow "):
			continue // whether all objects exist is checked after the push
		case len(p.commands) == maxCommands:
			return rejectf("a push moves at most %d branches", maxCommands)
		}
		text, capabilities, _ := strings.Cut(line, "\x00")
		if len(p.commands) == 0 {
			p.capabilities = strings.Fields(capabilities)
			if i := slices.IndexFunc(p.capabilities, func(c string) bool { return strings.HasPrefix(c, "object-format=") }); i >= 0 && p.capabilities[i] != format {
				return rejection("the repository has objects of the format sha1")
			}
		}
		c, err := parseCommand(text)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(p.commands, func(other *command) bool { return other.ref == c.ref }) {
			return rejection("a branch is named twice in the push")
		}
		p.commands = append(p.commands, c)
	}
}

// skipOptions reads the options of a push, which have no effect.
func (p *push) skipOptions(in *packetReader) error {
	for present := p.has("push-options"); present; {
		var err error
		if _, present, err = in.data(); err != nil {
			return err
		}
	}
	return nil
}

// parseCommand parses "<from> <to> <ref>".
func parseCommand(text string) (*command, error) {
	parts := strings.SplitN(text, " ", 3)
	if len(parts) != 3 || parts[2] == "" {
		return nil, errMalformed
	}
	from, err := parseHash(parts[0])
	if err != nil {
		return nil, err
	}
	to, err := parseHash(parts[1])
	if err != nil {
		return nil, err
	}
	return &command{ref: parts[2], from: from, to: to}, nil
}

// checkRef returns why a ref cannot be pushed, or "".
func checkRef(ref string) string {
	name, ok := strings.CutPrefix(ref, headsDir)
	if !ok {
		return "only branches can be pushed"
	}
	if err := repository.CheckBranchName(name); err != nil {
		return oneLine(err.Error())
	}
	return ""
}

// report writes the result of a push: gitprotocol-pack(5), heading "Report Status".
func (p *push) report(out *packetWriter) {
	result := out
	var inBand strings.Builder
	if p.has("side-band-64k") {
		if !p.has("quiet") {
			for _, message := range p.messages {
				_, _ = band{out, bandProgress}.Write([]byte(message + "\n"))
			}
		}
		result = &packetWriter{w: &inBand}
	}
	if p.has("report-status") {
		result.line("unpack %s", p.unpacked())
		for _, c := range p.commands {
			if c.failure == "" {
				result.line("ok %s", c.ref)
				continue
			}
			result.line("ng %s %s", c.ref, c.failure)
		}
		result.flush()
	}
	if result != out {
		_, _ = band{out, bandData}.Write([]byte(inBand.String()))
		out.flush()
	}
}

func (p *push) unpacked() string {
	if p.unpackFailure != "" {
		return p.unpackFailure
	}
	return "ok"
}
