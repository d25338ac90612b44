package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/quoin-dev/quoin/internal/engine"
	"github.com/quoin-dev/quoin/internal/engine/dataapi"
	"github.com/quoin-dev/quoin/test/bench/internal/dataplane"
)

// slowBody are headers of a request with a body.
const slowBody = "Content-Type: application/json\r\nContent-Length: 100000\r\n"

// slowDataBodies sends bodies of one octet a second: of preflights and of queries without a token to the victim, and of
// queries with the attacker's token to its own deployment.
var slowDataBodies = repeat(1200, func(ctx context.Context, a *attacker, worker int) string {
	host, begin := a.Victim.DataHost, ""
	switch worker % 3 {
	case 0:
		begin = head("OPTIONS", dataplane.PathSmall, host, "Origin: https://a.example\r\nAccess-Control-Request-Method: POST\r\n"+slowBody)
	case 1:
		begin = head("POST", dataplane.PathSmall, host, slowBody)
	default:
		host = a.Attacker.DataHost
		begin = head("POST", dataplane.PathSmall, host, "Authorization: "+a.Attacker.Token+"\r\n"+slowBody)
	}
	return hold(ctx, a.Gateway, host, worker, begin, "x")
})

// silentWebSockets opens WebSockets to the victim and sends no message.
var silentWebSockets = repeat(1200, func(ctx context.Context, a *attacker, worker int) string {
	return hold(ctx, a.Gateway, a.Victim.DataHost, worker, head("GET", dataplane.PathSmall, a.Victim.DataHost,
		"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"), "")
})

// idleConnections opens TLS connections and sends no request, more than the gateway accepts before authentication.
var idleConnections = repeat(1500, func(ctx context.Context, a *attacker, worker int) string {
	return hold(ctx, a.Gateway, a.Victim.DataHost, worker, "", "")
})

// largeListings requests the listings that the gateway derives from the metadata of the attacker's own pods.
var largeListings = flood(32, dataHost, func(a *attacker, _, n int) string {
	path := []string{dataapi.PathEntities, dataapi.PathDataSources}[n%2]
	return head("GET", engine.BasePath+path, a.Attacker.DataHost, "Authorization: "+a.Attacker.Token+"\r\n")
})

func dataHost(a *attacker) (address, host string) { return a.Gateway, a.Attacker.DataHost }

// sqlWithoutLogin opens SQL connections to the victim and does not send a password.
var sqlWithoutLogin = repeat(1500, func(ctx context.Context, a *attacker, worker int) string {
	conn, err := dialTLS(ctx, a.SQL, sqlHost(a.Victim), worker, "postgresql")
	if err != nil {
		return "not connected"
	}
	defer func() { _ = conn.Close() }()
	if _, err := io.WriteString(conn, sqlStartup); err != nil {
		return "closed"
	}
	if _, err := io.ReadFull(conn, make([]byte, len(sqlAsk))); err != nil {
		return "refused"
	}
	_, _ = io.Copy(io.Discard, conn) // until it is closed
	return "asked for a password, then closed"
})

// invalidTokens sends queries to the victim with tokens that are signed with another secret, each another one.
var invalidTokens = flood(16, func(a *attacker) (string, string) { return a.Gateway, a.Victim.DataHost }, func(a *attacker, worker, n int) string {
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{
		"exp": time.Now().Add(time.Hour).Unix(), "jti": fmt.Sprint(worker, "-", n),
	}).SignedString([]byte("a secret that the attacker made up"))
	if err != nil {
		token = err.Error()
	}
	return head("POST", dataplane.PathSmall, a.Victim.DataHost,
		"Authorization: "+token+"\r\nContent-Type: application/json\r\nContent-Length: "+strconv.Itoa(len(dataplane.Query))+"\r\n") + dataplane.Query
})
