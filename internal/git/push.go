package git

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/quoin-dev/quoin/internal/masking"
)

const (
	// maxReport bounds the response to a push, bytes.
	maxReport = 1 << 20
	// maxWords bounds the text of a server in an error, characters.
	maxWords = 300

	reportStatus = "report-status"
	atomicPush   = "atomic"
)

// Update moves a branch of a remote from one commit to another. A zero From creates it, a zero To
// deletes it.
type Update struct {
	Branch   string
	From, To plumbing.Hash
}

// PushOptions configure a push.
type PushOptions struct {
	// URL is the repository, as ValidateURL allows it.
	URL   string
	Creds Credentials
	// Updates are the branches to move, all of them or none if the remote supports that. If it does not,
	// the remote moves them in this order, and may refuse some; branches are deleted only if it has moved
	// all others.
	Updates []Update
	// Pack returns the pack of the objects that the remote lacks. has are commits that it has. It is not
	// called if branches are only deleted.
	Pack func(has []plumbing.Hash) ([]byte, error)
}

// Push moves branches of a remote: gitprotocol-pack(5), heading "Pushing Data To a Server". The commit
// from which a branch is moved is sent with it and compared by the remote; nothing is forced. Branches
// that are where they should be are left out.
//
// Errors of a push contain the words of the remote, shortened, on one line and without secrets: the
// reason of a refusal is often one of its administrator's. The error is an *Error of one of the kinds:
//
//   - ErrMoved: a branch is not at From.
//   - ErrRefused, ErrUnauthorized: nothing has moved, or, without support of atomic pushes, not all.
//   - ErrUnreachable; with ErrUnknownOutcome if the branches may have been moved.
//
// Or it wraps ErrInvalidURL, or is that of Pack.
func (c *Client) Push(ctx context.Context, o PushOptions) error {
	r, err := parseURL(o.URL, c.options)
	if err != nil {
		return err
	}
	p := &push{PushOptions: o, remote: r}
	list := &branchList{remote: r}
	s, err := c.openService(ctx, r, o.Creds, receivePack, nil, list.visit)
	if err != nil {
		return p.failure(ctx, err, "")
	}
	defer s.close()
	p.session = s
	if err := p.compare(list); err != nil || len(p.Updates) == 0 {
		return err
	}
	o.Updates = p.postponeDeletions()
	request, err := p.request(list)
	if err != nil {
		return err
	}
	response, err := s.send(ctx, request, maxReport)
	if err != nil {
		return p.unconfirmed(ctx, err, "")
	}
	defer response.Close()
	if err := p.readReport(ctx, response); err != nil || len(o.Updates) == 0 {
		return err
	}
	return p.afterMoves(c.Push(ctx, o))
}

// push is a Push in progress.
type push struct {
	PushOptions
	remote  remote
	session *session
}

// compare leaves out the updates that are not necessary. The error is ErrMoved if one is not possible.
func (p *push) compare(list *branchList) error {
	at := make(map[string]string, len(list.refs))
	for _, ref := range list.refs {
		at[ref.Name] = ref.Commit
	}
	var needed []Update
	deletes := false
	for _, u := range p.Updates {
		is, from, to := at[u.Branch], commitText(u.From), commitText(u.To)
		switch {
		case is == to:
			continue
		case is != from:
			return p.remote.fail(ErrMoved, "branch %q has moved", u.Branch)
		}
		needed = append(needed, u)
		deletes = deletes || to == ""
	}
	p.Updates = needed
	switch {
	case len(needed) == 0:
		return nil
	case !p.session.capabilities.has(reportStatus):
		return p.remote.fail(ErrUnexpectedResponse, "the server does not report the result of a push")
	case deletes && !p.session.capabilities.has("delete-refs"):
		return p.remote.fail(ErrRefused, "the server does not allow to delete branches")
	}
	return nil
}

// postponeDeletions leaves out the deletions, and returns them, if the remote could make them and refuse the other updates: the
// commits of a branch that is deleted because it is merged would be in no branch.
func (p *push) postponeDeletions() (deletions []Update) {
	if p.session.capabilities.has(atomicPush) {
		return nil
	}
	var others []Update
	for _, u := range p.Updates {
		if u.To.IsZero() {
			deletions = append(deletions, u)
		} else {
			others = append(others, u)
		}
	}
	if len(others) == 0 {
		return nil
	}
	p.Updates = others
	return deletions
}

// afterMoves returns the error of the deletions that were postponed: the other branches have moved, so it does not mean that
// nothing has.
func (p *push) afterMoves(err error) error {
	var failed *Error
	if errors.Is(err, ErrRefused) || errors.Is(err, ErrUnauthorized) || !errors.As(err, &failed) {
		return err
	}
	return &Error{
		Subject: "repository " + p.remote.display, Reason: "branches have moved, and others could not be deleted: " + failed.Reason,
		kind: ErrUnreachable, cause: ErrUnknownOutcome,
	}
}

// commitText returns the name of a commit; empty for the zero hash.
func commitText(commit plumbing.Hash) string {
	if commit.IsZero() {
		return ""
	}
	return commit.String()
}

// request returns the commands and the pack.
func (p *push) request(list *branchList) (*request, error) {
	wanted := []string{reportStatus, "agent=" + agent}
	for _, name := range []string{sideBand, "quiet"} {
		if p.session.capabilities.has(name) {
			wanted = append(wanted, name)
		}
	}
	if len(p.Updates) > 1 && p.session.capabilities.has(atomicPush) {
		wanted = append(wanted, atomicPush)
	}
	if p.session.capabilities.has(objectFormat) {
		wanted = append(wanted, objectFormat+"="+sha1Format)
	}
	r, hasPack := &request{}, false
	for i, u := range p.Updates {
		line := fmt.Sprintf("%s %s %s%s", u.From, u.To, headsDir, u.Branch)
		if i == 0 {
			line += "\x00" + strings.Join(wanted, " ")
		}
		r.packet(line)
		hasPack = hasPack || !u.To.IsZero()
	}
	_, _ = r.WriteString(flushPacket)
	if !hasPack {
		return r, nil
	}
	has := make([]plumbing.Hash, len(list.refs))
	for i, ref := range list.refs {
		has[i] = plumbing.NewHash(ref.Commit)
	}
	pack, err := p.Pack(has)
	_, _ = r.Write(pack) // never fails
	return r, err
}

// readReport reads the result: gitprotocol-pack(5), heading "Report Status".
func (p *push) readReport(ctx context.Context, response *packets) error {
	report, messages := response, func() string { return "" }
	if p.session.capabilities.has(sideBand) {
		b := &bands{packets: response}
		report, messages = newPackets(b, io.NopCloser(b), maxReport), b.messages.String
	}
	unpacked, err := report.data()
	if err != nil {
		return p.unconfirmed(ctx, err, messages())
	}
	reasons := []string{}
	if reason, found := strings.CutPrefix(string(unpacked), "unpack "); !found {
		return p.unconfirmed(ctx, errNotGit, messages())
	} else if reason != "ok" {
		reasons = append(reasons, "the objects: "+reason)
	}
	accepted := map[string]bool{}
	for {
		line, err := report.data()
		if err != nil {
			return p.unconfirmed(ctx, err, messages())
		}
		if line == nil {
			break
		}
		result, rest, _ := strings.Cut(string(line), " ")
		ref, reason, _ := strings.Cut(rest, " ")
		if accepted[ref] = result == "ok"; result == "ng" && len(reasons) < len(p.Updates)+1 {
			reasons = append(reasons, fmt.Sprintf("branch %q: %s", strings.TrimPrefix(ref, headsDir), reason))
		}
	}
	for _, u := range p.Updates {
		if len(reasons) == 0 && !accepted[headsDir+u.Branch] {
			reasons = append(reasons, fmt.Sprintf("branch %q: not confirmed", u.Branch))
		}
	}
	if len(reasons) == 0 {
		return nil
	}
	return p.refused(ErrRefused, strings.Join(append(reasons, messages()), ": "))
}

// refused returns an error with the words of the remote.
func (p *push) refused(kind error, words string) error {
	return p.remote.fail(kind, "refused the push: %s", p.Creds.clean(words))
}

// failure returns the error of a push that was not made.
func (p *push) failure(ctx context.Context, err error, words string) error {
	var message *remoteMessage
	if ctx.Err() != nil || !errors.As(err, &message) {
		return p.remote.transportError(ctx, err)
	}
	kind, _ := messageReason(message.text)
	if isReadOnly := strings.Contains(strings.ToLower(strings.ReplaceAll(message.text, "-", " ")), "read only"); isReadOnly {
		kind = ErrUnauthorized
	}
	if errors.Is(kind, ErrUnreachable) {
		kind = ErrRefused
	}
	return p.refused(kind, message.text+": "+words)
}

// unconfirmed returns the error of a push that the server may have made: it has the request, and not
// all of its response was read.
func (p *push) unconfirmed(ctx context.Context, err error, words string) error {
	var status statusError
	var message *remoteMessage
	if ssh, ok := p.session.connection.(*sshConnection); ok && words == "" {
		words = ssh.messages()
	}
	switch {
	case errors.As(err, &status) && status < 500:
		return p.failure(ctx, err, words)
	case ctx.Err() == nil && errors.As(err, &message):
		return p.failure(ctx, err, words)
	}
	reason := "the response to the push is lost"
	var known *Error
	if errors.As(p.remote.transportError(ctx, err), &known) {
		reason += ": " + known.Reason
	}
	if words = p.Creds.clean(words); words != "" {
		reason += ": " + words
	}
	return &Error{Subject: "repository " + p.remote.display, Reason: reason, kind: ErrUnreachable, cause: ErrUnknownOutcome}
}

// clean returns a text of a server for an error: short, on one line, without secrets.
func (c *Credentials) clean(text string) string {
	hide := func(text string) string { return c.secrets.Replacer().Replace(masking.Text(text)) }
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, hide(strings.ToValidUTF8(text, "\uFFFD")))
	// Without control characters, more may be recognized.
	text = hide(strings.Trim(strings.Join(strings.Fields(text), " "), " :"))
	if runes := []rune(text); len(runes) > maxWords {
		text = string(runes[:maxWords]) + "…"
	}
	return text
}
