package pending

import (
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// TestTheOldestPeerIsEnded: of the peers that exceed a limit, the oldest is ended after some seconds, unless it
// authenticates in them.
func TestTheOldestPeerIsEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ended []string
		registry := prometheus.NewRegistry()
		s := NewSet(Limits{Total: 4, PerAddress: 2, PerDeployment: 2}, NewMetrics("gateway", registry), KindRequest)
		const open, total = "quoin_gateway_unauthenticated", "quoin_gateway_unauthenticated_ended_total"
		peers := map[string]*Peer{}
		add := func(name, address string) {
			network, _ := netip.ParsePrefix(address)
			peers[name] = s.Add(network, func() { ended = append(ended, name) })
		}
		expect := func(what string, want ...string) {
			t.Helper()
			time.Sleep(excessTime/2 - 1)
			synctest.Wait()
			if len(ended) > 0 {
				t.Errorf("%s: %v were ended early", what, ended)
			}
			time.Sleep(excessTime/2 + 1)
			synctest.Wait()
			slices.Sort(ended) // their order is random
			if !slices.Equal(ended, want) {
				t.Errorf("%s: %v were ended, want %v", what, ended, want)
			}
			ended = nil
		}
		add("a1", "192.0.2.1/32")
		add("a2", "192.0.2.1/32")
		add("b1", "2001:db8::/64")
		add("b2", "2001:db8::/64")
		expect("within the limits")
		add("b3", "2001:db8::/64")
		expect("a third peer of a network", "a1", "b1") // the fifth in total, too
		peers["a2"].Join("sales")
		peers["b2"].Join("sales")
		peers["b3"].Join("sales")
		expect("a third peer of a deployment", "a2")
		peers["a2"].Join("sales")
		peers["a2"].Done()
		add("none1", "")
		add("none2", "")
		peers["b3"].Done()
		peers["b3"].Done()
		add("none3", "")
		expect("no address")
		add("none4", "")
		peers["b2"].Done()
		expect("a fifth peer, and the oldest has authenticated")
		if got := value(t, registry, open); got != 4 {
			t.Errorf("%v are pending", got)
		}
		for range 4 {
			if !s.EndOldest() {
				t.Error("no peer to end")
			}
		}
		if want := []string{"none1", "none2", "none3", "none4"}; !slices.Equal(ended, want) {
			t.Errorf("at the maximum of connections: %v were ended, want %v", ended, want)
		}
		if s.EndOldest() || len(s.groups) > 0 || value(t, registry, open) != 0 || value(t, registry, total) != 7 {
			t.Errorf("groups %v, %v ended", s.groups, value(t, registry, total))
		}
	})
}

// TestExcessPeersAreBounded: of too many that exceed a limit, the oldest is ended at once, as it is for a new connection
// when there are too many of all.
func TestExcessPeersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ended []int
		s := NewSet(Limits{Total: 2, PerAddress: 2}, NewMetrics("gateway", nil), KindConnection)
		for i := range 5 {
			s.Add(netip.Prefix{}, func() { ended = append(ended, i) })
		}
		if !slices.Equal(ended, []int{0}) {
			t.Errorf("%v were ended at once", ended)
		}
		s.EndOldest()
		if !slices.Equal(ended, []int{0, 1}) {
			t.Errorf("%v were ended for a new connection", ended)
		}
		time.Sleep(excessTime)
		synctest.Wait()
		if !slices.Equal(ended, []int{0, 1, 2}) || s.excess.Len() != 0 {
			t.Errorf("%v were ended, %d remain", ended, s.excess.Len())
		}
	})
}

// value returns the value of a metric with one time series.
func value(t *testing.T, registry *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetGauge().GetValue() + f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}
