package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

// backendCommand is the argument with which this program is the backend.
const backendCommand = "backend"

// What is asked for.
const (
	pathSmall = "/cubejs-api/v1/load"
	pathLarge = "/cubejs-api/v1/large"

	bytesSmall = 1 << 10
	bytesLarge = 100 << 10

	query = `{"query":{"measures":["orders.count"],"dimensions":["orders.status"],"timeDimensions":[{"dimension":"orders.created_at","granularity":"day","dateRange":"last 7 days"}],"limit":100}}`
)

// serveBackend answers until it is ended. It says on stdout where: an address of this machine's
// that is not loopback, for no EndpointSlice takes one that is. The packets take the same way.
func serveBackend() {
	ip, err := ownAddress()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	l, err := net.Listen("tcp", net.JoinHostPort(ip, "0"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+pathSmall, answering(bytesSmall))
	mux.HandleFunc("POST "+pathLarge, answering(bytesLarge))
	fmt.Println(l.Addr())
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	fmt.Fprintln(os.Stderr, server.Serve(l))
}

// answering sends JSON of a size.
func answering(size int) http.HandlerFunc {
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
		_, _ = w.Write(body) // a caller that is gone cannot be told
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
	return "", fmt.Errorf("this machine has no address but loopback, which Kubernetes takes for no pod's")
}
