package gateway_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/engine/dataapi"
)

// TestThePodGetsTheTokenThatWasChecked: a person has a data token without the permission to run SQL, which pods accept and only the
// gateway limits, and has seen another token of the deployment, which may. It sends both, and names the header of the second one in
// Connection, so that a proxy removes it: the gateway would check the one, and the pod would run SQL as the person of the other.
func TestThePodGetsTheTokenThatWasChecked(t *testing.T) {
	w := newWorld(t, nil)
	got := make(chan http.Header, 1)
	w.deploy(victim, w.pod(func(_ http.ResponseWriter, r *http.Request) { got <- r.Header }), w.listenAsPod().Addr())
	checked := w.token(victim)
	limited, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{
		"exp": time.Now().Add(time.Hour).Unix(), dataapi.ClaimPermissions: []string{"DeploymentRead", "SchemaRead"},
	}).SignedString([]byte(v1alpha1.ProductionName(victim)))
	if err != nil {
		t.Fatal(err)
	}
	for name, headers := range map[string]http.Header{
		"both, one in Connection":      {dataapi.HeaderToken: {checked}, "Authorization": {limited}, "Connection": {dataapi.HeaderToken}},
		"in another case, with others": {dataapi.HeaderToken: {checked}, "Authorization": {limited}, "Connection": {"close, x-CUBE-authorization"}},
		"one":                          {"Authorization": {checked}, "Connection": {"Authorization"}},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+w.host(victim)+"/cubejs-api/v1/cubesql", nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header = headers
			response, err := w.client("127.0.0.1").Do(r)
			if err != nil {
				t.Fatal(err)
			}
			_ = response.Body.Close()
			if response.StatusCode != http.StatusOK {
				t.Fatal(response.Status)
			}
			// The server takes the first of the two that is set.
			seen := <-got
			used := seen.Get(dataapi.HeaderToken)
			if used == "" {
				used = seen.Get("Authorization")
			}
			if used != checked {
				t.Errorf("the pod uses another token than the one that was checked: %v", seen)
			}
		})
	}
}
