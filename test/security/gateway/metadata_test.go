package gateway_test

import (
	"bytes"
	"io"
	"net/http"
	"runtime/metrics"
	"strings"
	"sync"
	"testing"
	"time"
)

// maxHeapMiB is how much the heap may grow while listings are derived from the metadata of hostile pods. An account has
// two such listings in progress.
const maxHeapMiB = 96

// TestMetadataOfAHostilePod: a tenant controls the image or the model of its pods, and lets them answer GET /v1/meta with
// documents that are small on the wire and large in memory, or that do not end. Then it requests the listings that the
// gateway derives from them, many at a time. The gateway serves all tenants from one process: other tenants rely on its
// memory. The tenant is told what is wrong with the document.
func TestMetadataOfAHostilePod(t *testing.T) {
	for name, tc := range map[string]struct {
		before, repeated string
	}{
		"endless, of empty cubes":            {`{"cubes":[{}`, `,{}`},
		"endless, one cube of empty members": {`{"cubes":[{"measures":[{}`, `,{}`},
		"endless, of data sources":           {`{"cubes":[{}`, `,{"name":"a","dataSource":"` + strings.Repeat("x", 8) + `"}`},
		"an endless string":                  {`{"cubes":[{"name":"`, `xxxxxxxxxxxxxxxx`},
		"an endless name of a field":         {`{"`, `xxxxxxxxxxxxxxxx`},
		"endless nesting":                    {`{"cubes":[{"meta":`, `[`},
		"endless nesting at the top":         {``, `{"cubes":[`},
		"an endless unknown field":           {`{"cubes":[],"more":[0`, `,0`},
		"endless white space":                {`{"cubes":`, `        `},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			w.deploy("hostile", w.pod(func(rw http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(rw, tc.before)
				chunk := bytes.Repeat([]byte(tc.repeated), 4096)
				for range 1 << 30 / len(chunk) { // 1 GiB: more than any limit
					if _, err := rw.Write(chunk); err != nil {
						return
					}
				}
			}), w.listenAsPod().Addr())
			peak := peakHeapMiB(func() {
				var all sync.WaitGroup
				for i := range 8 {
					all.Go(func() {
						path := []string{"/v1/entities", "/v1/data-sources"}[i%2]
						if status, body := w.get(w.client("127.0.0.1"), "hostile", path); status != http.StatusBadGateway && status != http.StatusTooManyRequests || !strings.Contains(body, "metadata") {
							t.Errorf("%s: %d %.300s, want an error that describes the metadata", path, status, body)
						}
					})
				}
				all.Wait()
			})
			t.Logf("the heap grew by %d MiB", peak)
			if peak > maxHeapMiB {
				t.Errorf("the heap grew by %d MiB, want at most %d", peak, maxHeapMiB)
			}
		})
	}
}

// peakHeapMiB returns by how much the heap grows while work runs, with the garbage that is not collected yet.
func peakHeapMiB(work func()) uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	heap := func() uint64 {
		metrics.Read(sample)
		return sample[0].Value.Uint64() >> 20
	}
	before, peak := heap(), uint64(0)
	done, sampled := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(sampled)
		for {
			select {
			case <-done:
				return
			case <-time.After(time.Millisecond):
				peak = max(peak, heap())
			}
		}
	}()
	work()
	close(done)
	<-sampled
	return peak - min(peak, before)
}
