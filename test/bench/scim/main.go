// Command scim measures the SCIM service of `quoin apiserver` at the size of a large company, with a real kube-apiserver
// and etcd:
//
//   - creates, compared with raw creates of the same objects on the same kube-apiserver, alternating
//   - lookups of a user, compared with a raw GET of its object
//   - changes of members, compared with a raw update of an object
//   - the same work done by scimmy and scimmy-routers (npm), which keep everything in memory
//
// Ratios measure Quoin; absolute throughput depends on the machine. The etcd of envtest does not wait for the disk, on
// either side of a ratio.
//
//	make bench-scim BENCH_FLAGS=-docs                                   # also writes the results into the documentation
//	go run ./test/bench/scim -users 2000 -groups 20 -members 1000      # KUBEBUILDER_ASSETS is set
package main

import (
	"context"
	"flag"
	"fmt"
	"path/filepath"

	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/quoin-dev/quoin/test/bench/internal/controlplane"
	"github.com/quoin-dev/quoin/test/bench/internal/measure"
	"github.com/quoin-dev/quoin/test/bench/internal/process"
)

// options are the flags.
type options struct {
	users, groups, members, batch int
	creates, rounds, callers      int
	lookups, pages, patches       int
	sync, syncWorkers             int
	peer                          bool
	peerUsers                     int
	controller                    bool
	quoin                         string
	docs                          *bool
}

func main() {
	o := options{docs: measure.DocsFlag()}
	flag.IntVar(&o.users, "users", 100_000, "`number` of users")
	flag.IntVar(&o.groups, "groups", 1000, "`number` of groups")
	flag.IntVar(&o.members, "members", 50_000, "`number` of members of the largest group")
	flag.IntVar(&o.batch, "batch", 2000, "`number` of members that one PATCH adds while groups are filled")
	flag.IntVar(&o.creates, "creates", 5000, "`number` of users created over SCIM, and as many raw, to compare the two")
	flag.IntVar(&o.rounds, "rounds", 10, "`number` of rounds of the two")
	flag.IntVar(&o.callers, "callers", 16, "`number` of concurrent callers that create")
	flag.IntVar(&o.lookups, "lookups", 2000, "`number` of lookups of each kind")
	flag.IntVar(&o.pages, "pages", 300, "`number` of pages of each kind")
	flag.IntVar(&o.patches, "patches", 1000, "`number` of members added to, and removed from, each group")
	flag.IntVar(&o.sync, "sync", 2000, "`number` of users that are matched and created like Entra ID does")
	flag.IntVar(&o.syncWorkers, "sync-workers", 4, "`number` of concurrent workers that match and create")
	flag.BoolVar(&o.peer, "peer", true, "also measure the npm peer, if node is installed")
	flag.IntVar(&o.peerUsers, "peer-users", 5001, "`number` of users of the peer")
	flag.BoolVar(&o.controller, "controller", true, "also run `quoin controller`, as in production")
	flag.StringVar(&o.quoin, "quoin", filepath.Join("bin", "quoin"), "`binary` to measure")
	flag.Parse()
	process.Main("scim", func(ctx context.Context) error { return run(ctx, o) })
}

func run(ctx context.Context, o options) error {
	if err := o.check(); err != nil {
		return err
	}
	results, err := measure.OpenResults("scim", *o.docs)
	if err != nil {
		return err
	}
	r := &report{}
	err = controlplane.WithAPIServer("scim", func(server *controlplane.APIServer) error { return measureQuoin(ctx, o, r, server) }, withoutCacheCheck)
	if err == nil {
		err = measurePeer(ctx, o, r)
	}
	if r.Empty() {
		return err
	}
	setup := fmt.Sprintf("%d users, %d groups, one of them with %d members; controller %s; etcd, kube-apiserver, Quoin and bench share the machine", o.users, o.groups, o.members,
		map[bool]string{true: "running", false: "not running"}[o.controller])
	if err != nil { // print what was measured before the error
		results.Print(setup, r.print)
		return err
	}
	return results.Publish(setup, r.print)
}

// withoutCacheCheck turns off the check in which kube-apiserver compares its caches with etcd. It reads all objects every five
// minutes, some 45 s of processor time here, and would be measured with the work of one section or another.
func withoutCacheCheck(plane *envtest.ControlPlane) {
	plane.GetAPIServer().Configure().Append("feature-gates", "DetectCacheInconsistency=false")
}

func (o options) check() error {
	return process.CheckFlags(map[string]int{
		"creates": 1, "rounds": 1, "callers": 1, "lookups": 1, "pages": 1, "patches": 1, "sync": 1, "sync-workers": 1, "batch": 1, "members": 1,
		"users": max(2*o.creates, o.members+1, pageSize), "groups": len(o.groupSizes()), "peer-users": pageSize,
	})
}

// measureQuoin runs the steps in order. Each uses the objects of the previous ones.
func measureQuoin(ctx context.Context, o options, r *report, server *controlplane.APIServer) error {
	w, err := newWorld(ctx, o, server)
	if err != nil {
		return err
	}
	b := &bench{options: o, world: w, report: r, ids: make([]string, o.users+o.sync)}
	for _, step := range []struct {
		name string
		run  func(context.Context) error
	}{
		{"creating users over SCIM and raw, alternating", b.compareCreates},
		{fmt.Sprintf("creating %d users in total", o.users), b.fill},
		{fmt.Sprintf("creating %d groups", o.groups), b.createGroups},
		{"measuring memory", b.measureMemory},
		{"looking up users", b.lookUpUsers},
		{"reading pages", b.readPages},
		{"adding and removing members", b.changeMembers},
		{"listing groups", b.listGroups},
		{fmt.Sprintf("matching and creating %d users", o.sync), b.syncUsers},
	} {
		measure.Progress("%s", step.name)
		w.server.Settle(ctx)
		if err := step.run(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	return nil
}

// bench is the state of the steps.
type bench struct {
	options
	world  *world
	report *report
	// ids are the ids of the users, by number.
	ids []string
	// plain is the id of the group that is updated without SCIM.
	plain string
	// large are the groups whose members are changed.
	large []*largeGroup
	// template is a stored user with the number 0, for raw creates.
	template []byte
	// initialMemory is the memory of quoin apiserver without users.
	initialMemory memory
}
