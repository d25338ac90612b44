package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"embed"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/quoin-dev/quoin/test/bench/internal/controlplane"
	"github.com/quoin-dev/quoin/test/bench/internal/measure"
	"github.com/quoin-dev/quoin/test/bench/internal/process"
)

// peerFiles are the peer's package.json and its program.
//
//go:embed peer/package.json peer/server.js
var peerFiles embed.FS

// peer is a SCIM service built with scimmy.
type peer struct {
	*service
	ids []string
}

// errNoPeer is the error if the peer is not available on this machine.
var errNoPeer = errors.New("peer not available")

// measurePeer measures the same work with scimmy, at sizes that it can handle, while Quoin is stopped.
func measurePeer(ctx context.Context, o options, r *report) error {
	if !o.peer {
		r.Fact("scimmy", "skipped (-peer=false)")
		return nil
	}
	measure.Progress("installing scimmy")
	dir, err := os.MkdirTemp("", "quoin-bench-scim-peer-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	err = install(ctx, dir)
	if errors.Is(err, errNoPeer) && ctx.Err() == nil {
		measure.Progress("SKIPPED LOUDLY: %v", err)
		r.Fact("scimmy", "**skipped**: %v", err)
		return nil
	}
	if err != nil {
		return err
	}
	p, stop, err := startPeer(ctx, dir)
	if err != nil {
		return err
	}
	defer stop()
	measure.Progress("the same work with scimmy and %d users", o.peerUsers)
	return p.measure(ctx, o, r)
}

// install installs the peer in a temporary folder.
func install(ctx context.Context, dir string) error {
	for _, name := range []string{"package.json", "server.js"} {
		text, err := peerFiles.ReadFile("peer/" + name)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			return err
		}
	}
	for _, program := range []string{"node", "npm"} {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("%w: %w", errNoPeer, err)
		}
	}
	npm := exec.CommandContext(ctx, "npm", "install", "--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts", "--loglevel=error")
	npm.Dir = dir
	if out, err := npm.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: npm install: %w: %.500s", errNoPeer, err, bytes.TrimSpace(out))
	}
	return nil
}

func startPeer(ctx context.Context, dir string) (*peer, func(), error) {
	token := rand.Text()
	node := exec.CommandContext(ctx, "node", "server.js")
	node.Dir = dir
	node.Env = append(os.Environ(), "NODE_ENV=production", "PEER_TOKEN="+token)
	started, port, err := process.StartListener("scimmy", node)
	if err != nil {
		return nil, nil, err
	}
	return &peer{service: &service{client: controlplane.NewHTTPClient(nil), base: "http://127.0.0.1:" + port + "/scim/v2", token: token}}, started.Stop, nil
}

func (p *peer) measure(ctx context.Context, o options, r *report) error {
	const few = 5 // requests that take seconds
	add := func(what, like string, m measure.Times) {
		quoin := r.Find(like)
		r.Add("scimmy: "+what, m, "p50 %.1f × Quoin's with %d users", m.Milliseconds(0.5)/quoin.Milliseconds(0.5), o.users)
	}
	p.ids = make([]string, o.peerUsers)
	m, err := measure.Spread(ctx, o.peerUsers, o.callers, reporting("users", o.peerUsers, func(ctx context.Context, i int) (took time.Duration, err error) {
		p.ids[i], took, err = p.create(ctx, "/Users", withNumber(user, i))
		return took, err
	}))
	if err != nil {
		return err
	}
	r.Add("scimmy: POST /Users", m, "%d at once; stores nothing on disk; Quoin creates %.2f × as many a second", o.callers, r.Find(workCreate).PerSecond()/m.PerSecond())
	users := randomNumbers(min(o.lookups, 40*few), o.peerUsers)
	if m, err = measure.Spread(ctx, len(users), 1, func(ctx context.Context, i int) (time.Duration, error) {
		_, took, err := p.list(ctx, eq("userName", "user."+number+"@bench.example.com", users[i]), 1)
		return took, err
	}); err != nil {
		return err
	}
	add(fmt.Sprintf("userName eq, %d users", o.peerUsers), workLookup, m)
	middle := fmt.Sprintf("/Users?startIndex=%d&count=%d", (o.peerUsers-pageSize)/2+1, pageSize)
	if m, err = measure.Spread(ctx, few, 1, func(ctx context.Context, _ int) (time.Duration, error) {
		_, took, err := p.list(ctx, middle, pageSize)
		return took, err
	}); err != nil {
		return err
	}
	add(fmt.Sprintf("page of %d in the middle of %d", pageSize, o.peerUsers), pageWork(o.users/2), m)
	sizes := slices.DeleteFunc(o.groupSizes(), func(size int) bool { return size < 1000 || size > 5000 || size >= o.peerUsers })
	for _, size := range sizes {
		added, err := p.changeMembers(ctx, size, min(2*few, o.patches))
		if err != nil {
			return err
		}
		add(memberWork("add", size), memberWork("add", size), added)
	}
	return nil
}

// changeMembers creates a group and changes its members.
func (p *peer) changeMembers(ctx context.Context, size, n int) (measure.Times, error) {
	added := measure.Times{}
	body, err := groupBody(fmt.Sprintf("Group of %d", size), membersOf(p.ids, sequence(0, size)))
	if err != nil {
		return added, err
	}
	id, _, err := p.create(ctx, "/Groups", body)
	if err != nil {
		return added, err
	}
	g := largeGroup{id, sequence(0, size), sequence(size, len(p.ids))}
	for range n {
		user, member := g.swap()
		a, _, err := change(ctx, p.service, http.StatusOK, id, p.ids[user], p.ids[member]) // the response is the group
		if err != nil {
			return added, err
		}
		added = added.With(a)
	}
	return added, nil
}
