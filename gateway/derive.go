package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/engine"
	"github.com/quoin-dev/quoin/internal/engine/dataapi"
	"github.com/quoin-dev/quoin/internal/serving"
)

// maxMetadata is the maximum size of a pod's metadata.
const maxMetadata = 64 << 20

// derivation is a listing that the server lacks, derived from its metadata.
type derivation struct {
	// query is the query of the metadata request.
	query string
	make  func(ctx context.Context, h *handler, e *exchange, entities []dataapi.Entity) (any, error)
}

var derivations = map[string]*derivation{
	dataapi.PathEntities: {"", func(_ context.Context, _ *handler, _ *exchange, entities []dataapi.Entity) (any, error) {
		return map[string]any{"entities": entities}, nil
	}},
	dataapi.PathDataSources: {"extended=true", func(ctx context.Context, h *handler, e *exchange, entities []dataapi.Entity) (any, error) {
		d := &v1alpha1.Deployment{}
		key := client.ObjectKey{Namespace: e.target.Namespace, Name: e.target.Deployment}
		if err := h.objects.Get(ctx, key, d); client.IgnoreNotFound(err) != nil {
			return nil, err
		}
		sources, err := dataapi.DataSources(entities, d.Spec.Env)
		return map[string]any{"dataSources": sources}, err
	}},
}

// derive responds with a listing that is derived from a pod's response to GET /v1/meta with the
// same token. Responses other than 200, such as compile errors, are forwarded.
func (h *handler) derive(w http.ResponseWriter, r *http.Request, e *exchange, d *derivation) {
	e.call.Query = true
	out := r.Clone(r.Context())
	out.Method, out.Body, out.ContentLength, out.RequestURI = http.MethodGet, nil, 0, ""
	out.URL.Scheme, out.URL.Host = "http", "pod"
	setPath(out, engine.BasePath+dataapi.PathMeta)
	out.URL.RawQuery = d.query
	out.Header = http.Header{"Accept": {"application/json"}, "X-Request-Id": {serving.RequestID(r.Context())}}
	value := e.exchanged
	if value == "" {
		value = r.Header.Get(e.header)
	}
	out.Header.Set("Authorization", value)
	response, err := h.transport.RoundTrip(out)
	if err != nil {
		h.handleError(w, r, err)
		return
	}
	defer response.Body.Close()
	meta, err := io.ReadAll(io.LimitReader(response.Body, maxMetadata))
	if err != nil {
		h.handleError(w, r, fmt.Errorf("read the metadata: %w", err))
		return
	}
	if response.StatusCode != http.StatusOK {
		e.outcome = outcomeServed
		w.Header().Set("Content-Type", response.Header.Get("Content-Type"))
		w.WriteHeader(response.StatusCode)
		_, _ = w.Write(meta)
		return
	}
	entities, err := dataapi.Entities(meta)
	if err != nil {
		h.handleError(w, r, err)
		return
	}
	listing, err := d.make(r.Context(), h, e, entities)
	e.outcome = outcomeDerived
	switch {
	case errors.Is(err, dataapi.ErrNoDataSources):
		writeError(w, http.StatusNotImplemented, err.Error())
	case err != nil:
		h.handleError(w, r, err)
	default:
		w.Header().Set("Access-Control-Allow-Origin", "*")
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(listing) // fails only if the client has disconnected
	}
}
