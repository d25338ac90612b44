package githttp

import (
	"bufio"
	"context"
	"errors"
	"io"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/quoin-dev/quoin/apiserver/recording"
	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/repository"
	"github.com/quoin-dev/quoin/internal/fairsemaphore"
	"github.com/quoin-dev/quoin/internal/gitpack"
	"github.com/quoin-dev/quoin/internal/modeltree"
	"github.com/quoin-dev/quoin/internal/serving"
)

// pushedToBranch is the name of the event of a push to a branch that existed.
var pushedToBranch = audit.Declare("Pushed to Git branch")

// Failures of single branches. git shows them, and knows the first two.
const (
	failureFetchFirst     = "fetch first"
	failureNotFastForward = "non-fast-forward"
	failureProduction     = "the branch of production cannot be deleted"
	failureAtomic         = "atomic push failed: another branch of the push was rejected"
	failureUnpack         = "unpacker error"
)

// apply unpacks a push and moves its branches, all in one transaction. The error is that of a request
// that cannot be served; rejections are in p.
func (s *Server) apply(ctx context.Context, p *push, body io.Reader) error {
	if err := p.examine(ctx, body); err != nil {
		return err
	}
	moved, err := p.save()
	if err != nil || !moved {
		return err
	}
	if err := s.Moved(ctx, p.target.deployment); err != nil {
		// The branches have moved. The controller reads them at its interval.
		log.FromContext(ctx).Error(err, "Failed to trigger a fetch after a push", "requestID", serving.RequestID(ctx))
		p.messages = append(p.messages, "The push is stored. Quoin notices it within some minutes.")
	}
	return nil
}

// readStep is how much of a pack is read at once, in bytes.
const readStep = 32 << 10

// examine unpacks a push and judges its branches. Accounts take turns for the processors.
func (p *push) examine(ctx context.Context, body io.Reader) error {
	turn, err := fairsemaphore.Processors.Begin(ctx, p.target.account.Name)
	if err != nil {
		return err
	}
	defer turn.End()
	p.session.InTurns(turn)
	defer p.session.InTurns(nil)
	if err := p.unpack(bufio.NewReaderSize(turn.Reader(body), readStep)); err != nil {
		return err
	}
	branches, err := p.session.Branches()
	if err != nil {
		return err
	}
	current := map[string]plumbing.Hash{}
	for _, b := range branches {
		current[b.Name] = b.Commit
	}
	for _, c := range p.commands {
		if err := p.judge(c, current); err != nil {
			return err
		}
	}
	if p.has("atomic") {
		p.judgeTogether()
	}
	return nil
}

// unpack adds the objects of the push to the session.
func (p *push) unpack(body io.Reader) error {
	deletes := 0
	for _, c := range p.commands {
		if c.to.IsZero() {
			deletes++
		}
	}
	if deletes == len(p.commands) {
		return nil // there is no pack
	}
	err := gitpack.Unpack(body, p.session, gitpack.PushLimits)
	text, known := explain(err)
	if source := (*gitpack.SourceError)(nil); errors.As(err, &source) && !known {
		text, known = "the pack is damaged", true
	}
	if err == nil || !known {
		return err
	}
	p.unpackFailure = oneLine(text)
	for _, c := range p.commands {
		c.failure = failureUnpack
	}
	return nil
}

// oneLine returns a text that may be part of a line of the protocol.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, text)
}

// judge sets why a branch is not moved, if so.
func (p *push) judge(c *command, current map[string]plumbing.Hash) error {
	if c.failure != "" {
		return nil
	}
	at := current[c.branch()]
	c.failure = checkRef(c.ref)
	switch {
	case c.failure != "":
	case at != c.from:
		c.failure = failureFetchFirst
	case c.to.IsZero() && c.from.IsZero():
		c.failure = "the branch does not exist"
	case c.to.IsZero() && c.branch() == p.target.production():
		c.failure = failureProduction
	case !c.to.IsZero():
		err := p.judgeCommit(c)
		if errors.Is(err, plumbing.ErrObjectNotFound) {
			err = rejection("the push lacks objects that its commits refer to")
		}
		text, known := explain(err)
		if err != nil && !known {
			return err
		}
		if err != nil {
			c.failure = oneLine(text)
		}
	}
	return nil
}

// judgeCommit returns an error if a branch cannot be moved to its commit.
func (p *push) judgeCommit(c *command) error {
	if !c.from.IsZero() {
		forward, err := modeltree.IsAncestor(p.session, c.from, c.to)
		if err != nil {
			return err
		}
		if !forward {
			return rejection(failureNotFastForward)
		}
	}
	files, err := modeltree.Files(p.session, c.to, "")
	if err != nil {
		return err
	}
	paths := make([]string, 0, len(files))
	for _, file := range files {
		if err := modeltree.CheckPath(file.Path); err != nil {
			return err
		}
		switch file.Mode {
		case filemode.Regular, filemode.Executable, filemode.Deprecated:
		case filemode.Symlink:
			return rejectf("%q is a symbolic link: data models must not have any", file.Path)
		default:
			return rejectf("%q is a submodule: data models must not have any", file.Path)
		}
		paths = append(paths, file.Path)
	}
	return modeltree.CheckCase(paths)
}

// judgeTogether rejects all branches if one of them is rejected.
func (p *push) judgeTogether() {
	failed := false
	for _, c := range p.commands {
		failed = failed || c.failure != ""
	}
	for _, c := range p.commands {
		if failed && c.failure == "" {
			c.failure = failureAtomic
		}
	}
}

// save stores the objects and moves the branches that are not rejected. It returns false if none has
// moved.
func (p *push) save() (moved bool, err error) {
	var moves []repository.Move
	var events []audit.Event
	for _, c := range p.commands {
		if c.failure != "" || c.from == c.to {
			continue
		}
		event, err := p.event(c)
		if err != nil {
			return false, err
		}
		moves = append(moves, repository.Move{Branch: c.branch(), From: c.from, To: c.to})
		events = append(events, event)
	}
	if len(moves) == 0 {
		return false, nil
	}
	err = p.session.Save(moves, events, nil)
	var refused *content.Error
	if errors.As(err, &refused) {
		for _, c := range p.commands {
			if c.failure == "" {
				c.failure = oneLine(refused.Message)
			}
		}
		return false, nil
	}
	return err == nil, err
}

// event returns the event of the move of a branch.
func (p *push) event(c *command) (audit.Event, error) {
	e := audit.Event{
		Name: pushedToBranch, Deployment: recording.DeploymentOf(p.target.deployment),
		Object: audit.Object{Kind: "Branch", Namespace: p.target.deployment.Namespace, Name: c.branch()},
	}
	var before, after map[string]any
	if c.from.IsZero() {
		e.Name = audit.CreatedGitBranch
	} else {
		before = map[string]any{"commit": c.from.String()}
	}
	if c.to.IsZero() {
		e.Name = audit.DeletedGitBranch
	} else {
		after = map[string]any{"commit": c.to.String()}
	}
	var err error
	e.Changes, err = audit.DiffJSON(before, after)
	return e, err
}
