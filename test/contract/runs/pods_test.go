package runs_test

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

// pod is a data-plane server of the production environment of an account. It answers statements by their texts.
type pod struct {
	*httptest.Server
	// queries has the statements and JSON queries, begun those that wait for more or for the end, ended the DELETEs of queries.
	queries, begun, ended chan string
	// more lets one of the waiting statements send another row.
	more chan struct{}
}

const columns = `{"schema":[{"name":"country","column_type":"String"},{"name":"n","column_type":"Int64"}],"lastRefreshTime":"2026-11-23T12:00:00.000Z"}` + "\n"

// startPod starts a pod for a test.
func (a *account) startPod(t *testing.T) *pod {
	t.Helper()
	p := &pod{queries: make(chan string, 100), begun: make(chan string, 100), ended: make(chan string, 100), more: make(chan struct{})}
	listener, err := net.Listen("tcp", net.JoinHostPort(apitest.PodIP(t), "0"))
	if err != nil {
		t.Fatal(err)
	}
	p.Server = &httptest.Server{Listener: listener, Config: &http.Server{Handler: http.HandlerFunc(p.serve)}}
	p.Start()
	t.Cleanup(p.Close)
	host, port, _ := net.SplitHostPort(listener.Addr().String())
	number, _ := strconv.Atoi(port)
	environment := v1alpha1.ProductionName(deployment)
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: a.name, GenerateName: "pods-", Labels: map[string]string{
			discoveryv1.LabelServiceName: engine.APIName(environment), engine.LabelManagedBy: engine.ManagedBy,
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

func (p *pod) serve(w http.ResponseWriter, r *http.Request) {
	claims := jwt.MapClaims{}
	keyOf := func(*jwt.Token) (any, error) { return []byte(clustertest.APISecret), nil }
	if _, err := jwt.ParseWithClaims(r.Header.Get("Authorization"), claims, keyOf, jwt.WithValidMethods([]string{"HS256"})); err != nil {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	path := strings.TrimPrefix(r.URL.Path, "/cubejs-api")
	var body struct {
		Query json.RawMessage `json:"query"`
	}
	_ = json.NewDecoder(r.Body).Decode(&body)
	switch path {
	case "/v1/cubesql":
		var statement string
		_ = json.Unmarshal(body.Query, &statement)
		p.queries <- statement
		p.sql(w, r, statement, countryOf(claims))
	case "/v1/load":
		p.queries <- string(body.Query)
		_, _ = fmt.Fprintf(w, `{"results":[{"query":{},"data":{"members":["orders.country"],"dataset":[[%q]]},"annotation":{}}]}`, countryOf(claims))
	case "/v1/convert-query":
		_, _ = io.WriteString(w, `{"status":"error","error":"window functions have no equivalent"}`)
	case "/v1/meta":
		_, _ = io.WriteString(w, `{"cubes":[{"measures":[],"dimensions":[{"name":"orders.country","type":"string"}]}]}`)
	default:
		p.ended <- r.Method + " " + path
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

func (p *pod) sql(w http.ResponseWriter, r *http.Request, statement, country string) {
	send := func(text string) {
		_, _ = io.WriteString(w, text)
		_ = http.NewResponseController(w).Flush()
	}
	row := `{"data":[["` + country + `","1"]]}` + "\n"
	switch statement {
	case "SELECT rows":
		send(columns + row)
	case "SELECT many":
		send(columns + row + row + row)
	case "SELECT nothing":
		send(columns)
	case "SELECT late":
		send(columns + row + `{"error":"connection to the database lost"}` + "\n")
	case "SELECT wrong":
		send(`{"error":"Table or CTE with name 'wrong' not found"}` + "\n")
	case "SELECT hidden":
		send(`{"error":"You requested hidden member: 'orders.name'."}` + "\n")
	case "SELECT compile":
		w.WriteHeader(http.StatusInternalServerError)
		send(`{"error":"Compile errors: orders.yml is not valid"}`)
	case "SELECT refused":
		w.WriteHeader(http.StatusForbidden)
		send(`{"error":"access denied"}`)
	case "SELECT rest":
		send(columns + row)
		p.begun <- statement
		for {
			select {
			case <-p.more:
				send(row)
			case <-r.Context().Done():
				return
			}
		}
	case "SELECT wait":
		p.begun <- statement
		select {
		case <-p.more:
			send(columns + row)
		case <-r.Context().Done():
		}
	}
}
