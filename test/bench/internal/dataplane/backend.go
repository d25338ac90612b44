// Package dataplane provides the data API of a deployment to benches: a program in place of its pod, the objects that the
// controllers would create, and `quoin gateway`.
package dataplane

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quoin-dev/quoin/test/bench/internal/controlplane"
	"github.com/quoin-dev/quoin/test/bench/internal/process"
)

// BackendCommand is the argument that makes a bench the backend.
const BackendCommand = "backend"

// The requests that the backend serves, the size of their responses, and their body.
const (
	PathSmall = "/cubejs-api/v1/load"
	PathLarge = "/cubejs-api/v1/large"

	BytesSmall = 1 << 10
	BytesLarge = 100 << 10

	Query = `{"query":{"measures":["orders.count"],"dimensions":["orders.status"],"timeDimensions":[{"dimension":"orders.created_at","granularity":"day","dateRange":"last 7 days"}],"limit":100}}`
)

// Listen listens on an address of this machine that is not loopback, which an EndpointSlice rejects. Packets stay on the
// machine.
func Listen() (net.Listener, error) {
	ip, err := ownAddress()
	if err != nil {
		return nil, err
	}
	return net.Listen("tcp", net.JoinHostPort(ip, "0"))
}

// ServeBackend serves until the process is stopped. It prints its address on stdout.
func ServeBackend() {
	l, err := Listen()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+PathSmall, RespondWith(BytesSmall))
	mux.HandleFunc("POST "+PathLarge, RespondWith(BytesLarge))
	fmt.Println(l.Addr())
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	fmt.Fprintln(os.Stderr, server.Serve(l))
}

// RespondWith returns a handler that sends JSON of a size.
func RespondWith(size int) http.HandlerFunc {
	const before, after = `{"data":"`, `"}`
	body := []byte(before + strings.Repeat("x", size-len(before)-len(after)) + after)
	length := strconv.Itoa(size)
	return func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		w.Header().Set("Content-Length", length)
		_, _ = w.Write(body) // the client has disconnected
	}
}

func ownAddress() (string, error) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return "", err
	}
	for _, address := range all {
		if ip, ok := address.(*net.IPNet); ok && ip.IP.IsGlobalUnicast() && ip.IP.To4() != nil {
			return ip.IP.String(), nil
		}
	}
	return "", fmt.Errorf("this machine has no address but loopback, which an EndpointSlice rejects")
}

// StartBackend runs this program again with an argument, such as BackendCommand, by another program if one is given, such as
// chrt with its arguments. It returns what the program prints first: its address.
func StartBackend(ctx context.Context, server *controlplane.APIServer, command string, by ...string) (*process.Process, string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, "", err
	}
	run := slices.Concat(by, []string{self, command})
	backend, address, err := process.StartListener("backend", exec.CommandContext(ctx, run[0], run[1:]...))
	if err != nil {
		return nil, "", err
	}
	server.Programs = append(server.Programs, backend)
	return backend, address, nil
}
