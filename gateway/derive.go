package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/engine"
	"github.com/quoin-dev/quoin/internal/engine/dataapi"
	"github.com/quoin-dev/quoin/internal/fairsemaphore"
	"github.com/quoin-dev/quoin/internal/serving"
)

// derivation is a listing that the server lacks, derived from its metadata.
type derivation struct {
	// query is the query of the metadata request.
	query string
	// make writes the listing as JSON.
	make func(ctx context.Context, h *handler, e *exchange, listing *bytes.Buffer, meta io.Reader) error
}

var derivations = map[string]*derivation{
	dataapi.PathEntities: {"", func(_ context.Context, _ *handler, _ *exchange, listing *bytes.Buffer, meta io.Reader) error {
		return dataapi.Entities(listing, meta)
	}},
	dataapi.PathDataSources: {"extended=true", func(ctx context.Context, h *handler, e *exchange, listing *bytes.Buffer, meta io.Reader) error {
		d := &v1alpha1.Deployment{}
		key := client.ObjectKey{Namespace: e.target.Namespace, Name: e.target.Deployment}
		if err := h.objects.Get(ctx, key, d); client.IgnoreNotFound(err) != nil {
			return err
		}
		sources, err := dataapi.DataSources(meta, d.Spec.Env)
		if err != nil {
			return err
		}
		return json.NewEncoder(listing).Encode(map[string]any{"dataSources": sources})
	}},
}

// listingBuffers are *bytes.Buffer: a listing may need some MiB.
var listingBuffers = sync.Pool{New: func() any { return &bytes.Buffer{} }}

// derive responds with a listing that is derived from a pod's response to GET /v1/meta with the
// same token. Responses other than 200, such as compile errors, are forwarded.
func (h *handler) derive(w http.ResponseWriter, r *http.Request, e *exchange, d *derivation) {
	e.call.Query = true
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	response, err := h.transport.RoundTrip(metadataRequest(r.WithContext(ctx), e, d.query))
	if err != nil {
		h.handleError(w, r, err)
		return
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		forwardError(w, response, e)
		return
	}
	// The pod has answered: a pod that is slow to compile its model holds no place.
	done, err := h.listings.acquire(ctx, e.target.Account)
	if err != nil {
		h.writeListingError(w, r, e, err)
		return
	}
	defer done()
	timeout := time.AfterFunc(listingTimeout, func() { cancel(errListingTimeout) })
	defer timeout.Stop()
	metadata, end := fairsemaphore.Processors.Reader(ctx, e.target.Account, response.Body)
	defer end()
	listing, _ := listingBuffers.Get().(*bytes.Buffer) // by New
	defer listingBuffers.Put(listing)
	listing.Reset()
	err = d.make(ctx, h, e, listing, metadata)
	end() // the client may be slow
	if err != nil {
		if errors.Is(context.Cause(ctx), errListingTimeout) {
			err = errListingTimeout
		}
		h.writeListingError(w, r, e, err)
		return
	}
	e.outcome = outcomeDerived
	w.Header().Set("Access-Control-Allow-Origin", "*")
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(listing.Bytes()) // fails only if the client has disconnected
}

// metadataRequest returns the request to a pod for its metadata.
func metadataRequest(r *http.Request, e *exchange, query string) *http.Request {
	out := r.Clone(r.Context())
	out.Method, out.Body, out.ContentLength, out.RequestURI = http.MethodGet, nil, 0, ""
	out.URL.Scheme, out.URL.Host = "http", "pod"
	setPath(out, engine.BasePath+dataapi.PathMeta)
	out.URL.RawQuery = query
	out.Header = http.Header{"Accept": {"application/json"}, "X-Request-Id": {serving.RequestID(r.Context())}}
	value := e.exchanged
	if value == "" {
		value = r.Header.Get(e.header)
	}
	out.Header.Set("Authorization", value)
	return out
}

// forwardError forwards a pod's response as a stream.
func forwardError(w http.ResponseWriter, response *http.Response, e *exchange) {
	e.outcome = outcomeServed
	w.Header().Set("Content-Type", response.Header.Get("Content-Type"))
	w.WriteHeader(response.StatusCode)
	if _, err := io.Copy(w, response.Body); err != nil {
		panic(http.ErrAbortHandler) // the client must not mistake a part for the complete response
	}
}

// writeListingError responds to a request for a listing that cannot be derived.
func (h *handler) writeListingError(w http.ResponseWriter, r *http.Request, e *exchange, err error) {
	switch {
	case r.Context().Err() != nil:
		w.WriteHeader(statusClientClosedRequest)
	case errors.Is(err, errTooManyListings):
		e.outcome = outcomeLimited
		serving.RetryAfter(w, retryAfter)
		writeError(w, http.StatusTooManyRequests, err.Error())
	case errors.Is(err, dataapi.ErrNoDataSources):
		e.outcome = outcomeDerived
		writeError(w, http.StatusNotImplemented, err.Error())
	case errors.Is(err, dataapi.ErrTooLarge), errors.Is(err, dataapi.ErrMalformed), errors.Is(err, errListingTimeout):
		e.outcome = outcomeFailed
		writeError(w, http.StatusBadGateway, err.Error())
	default:
		h.handleError(w, r, fmt.Errorf("read the metadata: %w", err))
	}
}
