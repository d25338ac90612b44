package freeport

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

const addresses = 100

// An address is given once, also to other processes that run at the same time, and is outside the ephemeral ports.
func TestAddress(t *testing.T) {
	if os.Getenv("FREEPORT_PRINT") != "" {
		for range addresses {
			fmt.Println(address(t))
		}
		_, _ = os.Stdin.Read(make([]byte, 1)) // the addresses are reserved until the process ends
		return
	}
	inUse := net.JoinHostPort("127.0.0.1", strconv.Itoa(first))
	if taken, err := net.Listen("tcp", inUse); err == nil { // otherwise by another program
		defer taken.Close()
	}
	seen := map[string]bool{inUse: true}
	add := func(a string) {
		t.Helper()
		const ephemeral = 32768
		if _, port, err := net.SplitHostPort(a); err != nil {
			t.Fatal(err)
		} else if n, err := strconv.Atoi(port); err != nil || n >= ephemeral {
			t.Fatalf("%s: the port is ephemeral", a)
		}
		if seen[a] {
			t.Fatalf("%s was given twice", a)
		}
		seen[a] = true
	}
	for range 2 {
		other := exec.Command(os.Args[0], "-test.run=^TestAddress$")
		other.Env = append(os.Environ(), "FREEPORT_PRINT=1")
		stdin, err := other.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		stdout, err := other.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := other.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() { _, _ = stdin.Close(), other.Wait() }()
		for range addresses {
			var a string
			if _, err := fmt.Fscanln(stdout, &a); err != nil || !strings.HasPrefix(a, "127.0.0.1:") {
				t.Fatalf("the other process printed %q: %v", a, err)
			}
			add(a)
		}
	}
	for range addresses {
		add(address(t))
	}
}

func address(t *testing.T) string {
	t.Helper()
	a, err := Address()
	if err != nil {
		t.Fatal(err)
	}
	return a
}
