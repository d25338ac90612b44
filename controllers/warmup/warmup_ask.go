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
	// askTimeout bounds one question. A pod that takes longer goes on compiling without us, and
	// is asked again; one that hangs costs its place for that long only.
	askTimeout = time.Minute
	// connectTimeout bounds the connection to a pod.
	connectTimeout = 5 * time.Second
	// maxAnswer is how much of an answer is read: enough for the text of an error. The metadata
	// themselves, which may be large, are not needed.
	maxAnswer = 256 << 10
)

// newHTTPClient returns a client without a proxy, which has no business between the controller
// and a pod, that follows no redirect and keeps no connection: each pod is asked a few times.
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

// overHTTP asks at the pod's own address: a Service would choose another pod.
func overHTTP(c *http.Client) Ask {
	return func(ctx context.Context, pod *corev1.Pod, token string) (int, []byte, error) {
		return get(ctx, c, "http://"+net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(engine.PortHTTP)), token)
	}
}

func get(ctx context.Context, c *http.Client, address, token string) (int, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	var taken atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteRequest: func(info httptrace.WroteRequestInfo) { taken.Store(info.Err == nil) },
	})
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address+engine.BasePath+dataapi.PathMeta, nil)
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Authorization", token)
	resp, err := c.Do(req)
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) && taken.Load() {
			return 0, nil, fmt.Errorf("%w: %w", errCompiling, err)
		}
		return 0, nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil && resp.StatusCode != http.StatusOK {
		return 0, nil, err
	}
	return resp.StatusCode, body, nil
}
