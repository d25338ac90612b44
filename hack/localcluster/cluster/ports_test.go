package cluster

import (
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
)

func TestPickPortsReturnsDistinctBlocks(t *testing.T) {
	cache := t.TempDir()
	seen := map[int]bool{}
	for range 5 {
		ports, release, err := PickPorts(cache)
		if err != nil {
			t.Fatal(err)
		}
		defer release() // held until the end, as a cluster does while it starts
		if len(ports) != len(DefaultPorts) {
			t.Fatalf("%d ports, want %d", len(ports), len(DefaultPorts))
		}
		for name, port := range ports {
			if seen[port] {
				t.Errorf("port %d (%s) was assigned twice", port, name)
			}
			if port < autoPortsFirst || port >= autoPortsLast {
				t.Errorf("port %d (%s) is outside of the range", port, name)
			}
			seen[port] = true
		}
	}
}

func TestPortBlockFitsItsSize(t *testing.T) {
	if len(DefaultPorts) > autoPortsBlock {
		t.Errorf("%d listeners do not fit into a block of %d ports", len(DefaultPorts), autoPortsBlock)
	}
}

func TestDefaultPortsAreDistinct(t *testing.T) {
	seen := map[int]PortName{}
	for name, port := range DefaultPorts {
		if other, ok := seen[port]; ok {
			t.Errorf("%s and %s share port %d", name, other, port)
		}
		seen[port] = name
	}
}

func TestCheckPortsNamesPortAndProcess(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	port := listener.Addr().(*net.TCPAddr).Port
	_, release, err := PickPorts(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	ports := PortBlock(port - 1) // the listener has the port of the second name
	err = CheckPorts(ports)
	if err == nil {
		t.Fatal("no error although a port is in use")
	}
	for _, want := range []string{strconv.Itoa(port), string(sortedPortNames()[1]), "--auto-ports"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q does not mention %q", err, want)
		}
	}
	if _, statErr := os.Stat("/proc/net/tcp"); statErr == nil && !strings.Contains(err.Error(), "process "+strconv.Itoa(os.Getpid())) {
		t.Errorf("error %q does not name this process (%d)", err, os.Getpid())
	}
}
