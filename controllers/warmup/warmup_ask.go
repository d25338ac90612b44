package warmup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/quoin-dev/quoin/internal/engine"
	"github.com/quoin-dev/quoin/internal/engine/dataapi"
)

const (
	// requestTimeout bounds one request. A pod that takes longer continues to compile and gets
	// another request; one that hangs occupies a worker for this time only.
	requestTimeout = time.Minute
	// connectTimeout bounds the connection to a pod.
	connectTimeout = 5 * time.Second
	// maxBody bounds the body that is read: enough for an error message. The metadata, which may
	// be large, are not needed.
	maxBody = 256 << 10
)

// newHTTPClient returns a client that uses no proxy, follows no redirects and keeps no
// connections, because each pod gets few requests.
func newHTTPClient() *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			DialContext:            (&net.Dialer{Timeout: connectTimeout}).DialContext,
			DisableKeepAlives:      true,
			DisableCompression:     true,
			MaxResponseHeaderBytes: 64 << 10,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// overHTTP sends requests to the pod's own address: a Service would select any pod.
func overHTTP(c *http.Client) Ask {
	return func(ctx context.Context, pod *corev1.Pod, token string) (int, []byte, error) {
		return get(ctx, c, "http://"+net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(engine.PortHTTP)), token)
	}
}

func get(ctx context.Context, c *http.Client, address, token string) (int, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	var sent atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteRequest: func(info httptrace.WroteRequestInfo) { sent.Store(info.Err == nil) },
	})
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address+engine.BasePath+dataapi.PathMeta, nil)
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Authorization", token)
	resp, err := c.Do(req)
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) && sent.Load() {
			return 0, nil, fmt.Errorf("%w: %w", errCompiling, err)
		}
		return 0, nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody))
	if err != nil && resp.StatusCode != http.StatusOK {
		return 0, nil, err
	}
	return resp.StatusCode, body, nil
}
