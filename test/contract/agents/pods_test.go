package agents_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/golang-jwt/jwt/v5"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/apitest"
	"github.com/quoin-dev/quoin/internal/engine"
	"github.com/quoin-dev/quoin/test/internal/clustertest"
)

// pod is a data-plane server of the production environment of an account. It answers with the country of the person in the token.
type pod struct {
	*httptest.Server

	mu sync.Mutex
	// queries are what has reached it: the path, the country of the person, and the query.
	queries []string
	// claims are those of the last query.
	claims jwt.MapClaims
}

// startPod starts a pod for a test.
func (a *account) startPod(t *testing.T) *pod {
	t.Helper()
	p := &pod{}
	listener, err := net.Listen("tcp", net.JoinHostPort(apitest.PodIP(t), "0"))
	if err != nil {
		t.Fatal(err)
	}
	p.Server = &httptest.Server{Listener: listener, Config: &http.Server{Handler: http.HandlerFunc(p.serve)}}
	p.Start()
	t.Cleanup(p.Close)
	host, port, _ := net.SplitHostPort(listener.Addr().String())
	number, _ := strconv.Atoi(port)
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: a.name, GenerateName: "pods-", Labels: map[string]string{
			discoveryv1.LabelServiceName: engine.APIName(v1alpha1.ProductionName(deployment)), engine.LabelManagedBy: engine.ManagedBy,
		}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{host}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)}}},
		Ports:       []discoveryv1.EndpointPort{{Name: ptr.To("http"), Port: ptr.To(int32(number))}},
	}
	if err := k8s.Create(t.Context(), slice); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := k8s.Delete(context.WithoutCancel(t.Context()), slice); err != nil {
			t.Error(err)
		}
	})
	return p
}

// received returns what has reached the pod with a text.
func (p *pod) received(with string) (found []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, q := range p.queries {
		if strings.Contains(q, with) {
			found = append(found, q)
		}
	}
	return found
}

const meta = `{"cubes":[{"name":"orders_view","type":"view","title":"Orders","public":true,"isVisible":true,
"measures":[{"name":"orders_view.count","title":"Orders Count","shortTitle":"Count","type":"number","aggType":"count","public":true,"isVisible":true}],
"dimensions":[{"name":"orders_view.country","title":"Orders Country","shortTitle":"Country","type":"string","public":true,"isVisible":true}],"segments":[]}]}`

func (p *pod) serve(w http.ResponseWriter, r *http.Request) {
	claims := jwt.MapClaims{}
	keyOf := func(*jwt.Token) (any, error) { return []byte(clustertest.APISecret), nil }
	if _, err := jwt.ParseWithClaims(r.Header.Get("Authorization"), claims, keyOf, jwt.WithValidMethods([]string{"HS256"})); err != nil {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	path := strings.TrimPrefix(r.URL.Path, "/cubejs-api")
	body, _ := io.ReadAll(r.Body)
	country := countryOf(claims)
	p.mu.Lock()
	p.queries, p.claims = append(p.queries, path+" "+country+" "+string(body)+r.URL.RawQuery), claims
	p.mu.Unlock()
	switch {
	case path == "/v1/meta":
		_, _ = io.WriteString(w, meta)
	case path == "/v1/cubesql" && strings.Contains(string(body), "secret"):
		// As the real server, which plans SQL with the members that the person sees.
		_, _ = io.WriteString(w, `{"error":"Error during planning: Invalid identifier '#secret' for fields [orders_view.count]"}`+"\n")
	case path == "/v1/load" && strings.Contains(string(body), "orders_view.secret"):
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = io.WriteString(w, `{"error":"Error: You requested hidden member: 'orders_view.secret'. Please make it visible using `+"`shown: true`"+`"}`)
	case path == "/v1/cubesql" && strings.Contains(string(body), "FROM many"):
		_, _ = io.WriteString(w, `{"schema":[{"name":"n","column_type":"Int64"}]}`+"\n"+`{"data":[`+strings.Repeat("[1],", 10_000)+`[1]]}`+"\n")
	case path == "/v1/cubesql" && strings.Contains(string(body), "FROM two"):
		_, _ = io.WriteString(w, `{"schema":[{"name":"n","column_type":"Int64"}]}`+"\n"+`{"data":[["1"],["2"]]}`+"\n")
	case path == "/v1/cubesql":
		schema := `{"schema":[{"name":"country","column_type":"String"},{"name":"n","column_type":"Int64"}],"lastRefreshTime":"2026-11-23T12:00:00.000Z"}` + "\n"
		row, _ := json.Marshal(map[string]any{"data": [][]string{{country, "1"}}})
		_, _ = io.WriteString(w, schema+string(row)+"\n")
	case path == "/v1/load":
		_, _ = fmt.Fprintf(w, `{"results":[{"query":{},"data":{"members":["orders_view.country"],"dataset":[[%q]]},"annotation":{}}]}`, country)
	}
}

// countryOf returns the attribute of the person in a token; that of a program is "program".
func countryOf(claims jwt.MapClaims) string {
	person, _ := claims["cubeCloud"].(map[string]any)
	attributes, _ := person["userAttributes"].(map[string]any)
	if country, ok := attributes["country"].(string); ok {
		return country
	}
	return "program"
}
