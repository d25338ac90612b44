package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/quoin-dev/quoin/internal/engine"
	"github.com/quoin-dev/quoin/internal/engine/dataapi"
	"github.com/quoin-dev/quoin/test/bench/internal/dataplane"
)

// podsCommand is the argument that makes this program the pods of the deployments of a tenant.
const podsCommand = "pods"

// Messages of the PostgreSQL protocol.
const (
	sqlStartup  = "\x00\x00\x00\x13\x00\x03\x00\x00user\x00cube\x00\x00"
	sqlAsk      = "R\x00\x00\x00\x08\x00\x00\x00\x03"
	sqlPassword = "p\x00\x00\x00\x0bsecret\x00"
	sqlOK       = "R\x00\x00\x00\x08\x00\x00\x00\x00"
)

// metadataBytes is the size of the metadata of a pod: near the largest from which the gateway derives listings.
const metadataBytes = 7 << 20

// servePods serves the data API and the SQL interface until the process is stopped. It prints both addresses on stdout.
func servePods() {
	api, err := dataplane.Listen()
	if err == nil {
		var sql net.Listener
		if sql, err = dataplane.Listen(); err == nil {
			fmt.Println(api.Addr(), sql.Addr())
			go serveSQL(sql)
			err = servePodAPI(api)
		}
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func servePodAPI(l net.Listener) error {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+dataplane.PathSmall, dataplane.RespondWith(dataplane.BytesSmall))
	mux.HandleFunc("GET "+dataplane.PathSmall, acceptWebSocket)
	mux.HandleFunc("OPTIONS "+dataplane.PathSmall, dataplane.RespondWith(dataplane.BytesSmall))
	metadata := largeMetadata()
	mux.HandleFunc("GET "+engine.BasePath+dataapi.PathMeta, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(metadata) // the client has disconnected
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	return server.Serve(l)
}

// largeMetadata returns the metadata of cubes with many members, whose listing is within the limits.
func largeMetadata() []byte {
	const members = 100
	var text bytes.Buffer
	text.WriteString(`{"cubes":[`)
	for cube := 0; text.Len() < metadataBytes; cube++ {
		if cube > 0 {
			text.WriteByte(',')
		}
		fmt.Fprintf(&text, `{"name":"cube%d","type":"cube","measures":[`, cube)
		for i := range members {
			if i > 0 {
				text.WriteByte(',')
			}
			fmt.Fprintf(&text, `{"name":"cube%d.m%d","title":"Measure %d","type":"number","meta":{"padding":"%s"}}`, cube, i, i, strings.Repeat("x", 100))
		}
		text.WriteString(`],"dimensions":[],"segments":[]}`)
	}
	text.WriteString(`]}`)
	return text.Bytes()
}

// acceptWebSocket accepts a WebSocket and reads what is sent.
func acceptWebSocket(w http.ResponseWriter, _ *http.Request) {
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }()
	_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	_, _ = io.Copy(io.Discard, buffered)
}

// serveSQL asks each client for its password, as the server does, and then sends back what it receives.
func serveSQL(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer func() { _ = conn.Close() }()
			if _, err := io.ReadFull(conn, make([]byte, len(sqlStartup))); err != nil {
				return
			}
			_, _ = io.WriteString(conn, sqlAsk)
			given := make([]byte, len(sqlPassword))
			if _, err := io.ReadFull(conn, given); err != nil || string(given) != sqlPassword {
				return
			}
			_, _ = io.WriteString(conn, sqlOK)
			_, _ = io.Copy(conn, conn)
		}()
	}
}
