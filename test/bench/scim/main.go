// Command scim measures the SCIM service of `quoin apiserver` at the size of a large company, on a
// real kube-apiserver and etcd, beside what it is made of and beside a peer:
//
//   - creates, beside raw creates of the same objects on the same API server, taking turns
//   - looking up a user, beside a raw GET of its object
//   - the same work done by scimmy and scimmy-routers (npm), which keep everything in memory
//
// Ratios are what Quoin is worth; requests a second say more about the machine. Its etcd does not
// wait for the disk (envtest), so neither side of a ratio pays for it.
//
//	make bench-scim
//	go run ./test/bench/scim -users 2000 -groups 20 -members 1000      # KUBEBUILDER_ASSETS is set
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/quoin-dev/quoin/test/bench/internal/controlplane"
	"github.com/quoin-dev/quoin/test/bench/internal/measure"
	"github.com/quoin-dev/quoin/test/bench/internal/process"
)

// options are the flags.
type options struct {
	users, groups, members, batch int
	creates, turns, callers       int
	lookups, pages, patches       int
	sync, syncWorkers             int
	peer                          bool
	peerUsers                     int
	controller                    bool
	quoin                         string
}

func main() {
	o := options{}
	flag.IntVar(&o.users, "users", 100_000, "`number` of users")
	flag.IntVar(&o.groups, "groups", 1000, "`number` of groups")
	flag.IntVar(&o.members, "members", 50_000, "`number` of members of the largest group")
	flag.IntVar(&o.batch, "batch", 2000, "`number` of members that one PATCH adds while groups are filled")
	flag.IntVar(&o.creates, "creates", 5000, "`number` of users created over SCIM, and as many raw, to compare the two")
	flag.IntVar(&o.turns, "turns", 10, "how `often` the two take turns")
	flag.IntVar(&o.callers, "callers", 16, "`number` of callers at once that create")
	flag.IntVar(&o.lookups, "lookups", 2000, "`number` of look-ups of each kind")
	flag.IntVar(&o.pages, "pages", 300, "`number` of pages of each kind")
	flag.IntVar(&o.patches, "patches", 200, "`number` of members added to, and removed from, each group")
	flag.IntVar(&o.sync, "sync", 2000, "`number` of users that are matched and created as Entra ID does")
	flag.IntVar(&o.syncWorkers, "sync-workers", 4, "`number` of workers that do so")
	flag.BoolVar(&o.peer, "peer", true, "measure the npm peer too, where there is node")
	flag.IntVar(&o.peerUsers, "peer-users", 5001, "`number` of users of the peer")
	flag.BoolVar(&o.controller, "controller", true, "run `quoin controller` too, as a real deployment does")
	flag.StringVar(&o.quoin, "quoin", filepath.Join("bin", "quoin"), "`binary` to measure")
	flag.Parse()
	process.Main("scim", func(ctx context.Context) error { return run(ctx, o) })
}

func run(ctx context.Context, o options) error {
	if err := o.check(); err != nil {
		return err
	}
	r := &report{}
	err := controlplane.WithAPIServer("scim", func(server *controlplane.APIServer) error { return measureQuoin(ctx, o, r, server) })
	if err == nil {
		err = measurePeer(ctx, o, r)
	}
	if r.Empty() {
		return err
	}
	// What was found before something failed is shown too.
	fmt.Printf("%d users, %d groups, one of %d members; controller %s; %d cores, %s %s/%s, load %s\n\n", o.users, o.groups, o.members,
		map[bool]string{true: "running", false: "not running"}[o.controller], runtime.NumCPU(), runtime.Version(), runtime.GOOS, runtime.GOARCH, measure.Load())
	r.print(os.Stdout)
	return err
}

func (o options) check() error {
	return process.CheckFlags(map[string]int{
		"creates": 1, "turns": 1, "callers": 1, "lookups": 1, "pages": 1, "patches": 1, "sync": 1, "sync-workers": 1, "batch": 1, "members": 1,
		"users": max(2*o.creates, o.members+1, pageSize), "groups": len(o.groupSizes()), "peer-users": pageSize,
	})
}

// measureQuoin takes the steps in order; each finds what the one before has left.
func measureQuoin(ctx context.Context, o options, r *report, server *controlplane.APIServer) error {
	w, err := newWorld(ctx, o, server)
	if err != nil {
		return err
	}
	b := &bench{options: o, world: w, report: r, ids: make([]string, o.users+o.sync)}
	for _, step := range []struct {
		what string
		run  func(context.Context) error
	}{
		{"creating users over SCIM and raw, in turns", b.compareCreates},
		{fmt.Sprintf("filling up to %d users", o.users), b.fill},
		{fmt.Sprintf("making %d groups", o.groups), b.makeGroups},
		{"measuring memory", b.weigh},
		{"looking up users", b.lookUp},
		{"reading pages", b.readPages},
		{"adding and removing members", b.changeMembers},
		{"listing groups", b.listGroups},
		{fmt.Sprintf("matching and creating %d users", o.sync), b.syncUsers},
	} {
		measure.Progress("%s", step.what)
		w.settle(ctx)
		if err := step.run(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
	}
	return nil
}

// bench is what the steps share.
type bench struct {
	options
	world  *world
	report *report
	// ids of the users, by their number.
	ids []string
	// large are the groups whose members are changed.
	large []*largeGroup
	// template is a stored user with the number 0, for raw creates.
	template []byte
	// unfilled is the memory of the front end before there were users.
	unfilled memory
}
