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

// maxMetadata bounds the metadata of a pod that is read as a whole.
const maxMetadata = 64 << 20

// derivation is a listing that the server lacks, made of its metadata.
type derivation struct {
	// query of the request for the metadata.
	query string
	make  func(ctx context.Context, f *front, e *exchange, entities []dataapi.Entity) (any, error)
}

var derivations = map[string]*derivation{
	dataapi.PathEntities: {"", func(_ context.Context, _ *front, _ *exchange, entities []dataapi.Entity) (any, error) {
		return map[string]any{"entities": entities}, nil
	}},
	dataapi.PathDataSources: {"extended=true", func(ctx context.Context, f *front, e *exchange, entities []dataapi.Entity) (any, error) {
		d := &v1alpha1.Deployment{}
		key := client.ObjectKey{Namespace: e.target.Namespace, Name: e.target.Deployment}
		if err := f.objects.Get(ctx, key, d); client.IgnoreNotFound(err) != nil {
			return nil, err
		}
		sources, err := dataapi.DataSources(entities, d.Spec.Env)
		return map[string]any{"dataSources": sources}, err
	}},
}

// derive answers with a listing made of what a pod says under /v1/meta to the same token. What
// else the pod answers, such as that the model does not compile, is passed on.
func (f *front) derive(w http.ResponseWriter, r *http.Request, e *exchange, d *derivation) {
	e.call.Query = true
	out := r.Clone(r.Context())
	out.Method, out.Body, out.ContentLength, out.RequestURI = http.MethodGet, nil, 0, ""
	out.URL.Scheme, out.URL.Host = "http", "pod"
	setPath(out, engine.BasePath+dataapi.PathMeta)
	out.URL.RawQuery = d.query
	out.Header = http.Header{"Accept": {"application/json"}, "X-Request-Id": {serving.RequestID(r.Context())}}
	value := e.relay
	if value == "" {
		value = r.Header.Get(e.header)
	}
	out.Header.Set("Authorization", value)
	response, err := f.transport.RoundTrip(out)
	if err != nil {
		f.failed(w, r, err)
		return
	}
	defer response.Body.Close()
	meta, err := io.ReadAll(io.LimitReader(response.Body, maxMetadata))
	if err != nil {
		f.failed(w, r, fmt.Errorf("read the metadata: %w", err))
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
		f.failed(w, r, err)
		return
	}
	listing, err := d.make(r.Context(), f, e, entities)
	e.outcome = outcomeDerived
	switch {
	case errors.Is(err, dataapi.ErrNoDataSources):
		refuse(w, http.StatusNotImplemented, err.Error())
	case err != nil:
		f.failed(w, r, err)
	default:
		w.Header().Set("Access-Control-Allow-Origin", "*")
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(listing) // a caller that is gone cannot be told
	}
}
