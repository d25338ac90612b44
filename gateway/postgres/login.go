package postgres

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/quoin-dev/quoin/internal/serving"
)

// Messages of a pod during authentication. Source: PostgreSQL, "Message Formats".
const (
	messageAuthentication = 'R'
	authenticationOK      = 0
	// maxLoginMessage is the maximum length of a message before the client has logged in: an error.
	maxLoginMessage = 64 << 10
)

var errTooManyConnections = errors.New("too many connections to this deployment or its account")

// logIn forwards the messages of a pod until it has authenticated the client. Only then does the
// connection take a place of the deployment. It returns the number of octets that it forwarded.
func (s *Server) logIn(c *session, pod net.Conn) (forwarded int64, err error) {
	for {
		message, err := readMessage(pod)
		if err != nil {
			return forwarded, err
		}
		authenticated := message[0] == messageAuthentication && len(message) == 9 && binary.BigEndian.Uint32(message[5:]) == authenticationOK
		if authenticated && !s.admit(c) {
			c.rejected = true
			s.reject(c.client, rejection{"refused", stateTooMany, errTooManyConnections.Error(), ""})
			return forwarded, errTooManyConnections
		}
		if authenticated {
			_ = c.raw.SetDeadline(time.Time{})
			_ = pod.SetDeadline(time.Time{})
		}
		n, err := c.client.Write(message)
		forwarded += int64(n)
		if err != nil || authenticated {
			return forwarded, err
		}
	}
}

// admit takes a place of the deployment for a client that has logged in, or returns false if there
// is none.
func (s *Server) admit(c *session) bool {
	e := c.environment
	deployment := target{e.Account, e.Namespace, e.Deployment}
	if !s.acquire(deployment) {
		return false
	}
	c.release = func() { s.release(deployment) }
	c.peer.Done()
	if limited, ok := c.client.NetConn().(*serving.HandshakeConn); ok {
		limited.Handshake.Authenticated()
	}
	return true
}

// readMessage reads a message of a pod: its type, its length and its content.
func readMessage(pod io.Reader) ([]byte, error) {
	head := make([]byte, 5)
	if _, err := io.ReadFull(pod, head); err != nil {
		return nil, err
	}
	length := binary.BigEndian.Uint32(head[1:])
	if length < 4 || length > maxLoginMessage {
		return nil, fmt.Errorf("the pod has sent a message of %d octets before authentication", length)
	}
	message := append(head, make([]byte, length-4)...)
	_, err := io.ReadFull(pod, message[len(head):])
	return message, err
}
