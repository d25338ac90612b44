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

// backendCommand is the argument that makes this program the backend.
const backendCommand = "backend"

// The requests.
const (
	pathSmall = "/cubejs-api/v1/load"
	pathLarge = "/cubejs-api/v1/large"

	bytesSmall = 1 << 10
	bytesLarge = 100 << 10

	query = `{"query":{"measures":["orders.count"],"dimensions":["orders.status"],"timeDimensions":[{"dimension":"orders.created_at","granularity":"day","dateRange":"last 7 days"}],"limit":100}}`
)

// serveBackend serves until the process is stopped. It prints its address on stdout: one of this machine that is not
// loopback, which an EndpointSlice rejects. Packets stay on the machine.
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
	mux.HandleFunc("POST "+pathSmall, respondWith(bytesSmall))
	mux.HandleFunc("POST "+pathLarge, respondWith(bytesLarge))
	fmt.Println(l.Addr())
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	fmt.Fprintln(os.Stderr, server.Serve(l))
}

// respondWith returns a handler that sends JSON of a size.
func respondWith(size int) http.HandlerFunc {
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
