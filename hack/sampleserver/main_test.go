package main

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
)

func TestReadConfiguration(t *testing.T) {
	tests := map[string]struct {
		environment map[string]string
		http, tcp   []string
	}{
		"API server":                 {nil, []string{"4000"}, nil},
		"API server on another port": {map[string]string{"PORT": "8080"}, []string{"8080"}, nil},
		"store router":               {map[string]string{"SAMPLESERVER_ROLE": "store"}, []string{"3031", "3030"}, []string{"9999"}},
		"store worker": {
			map[string]string{"SAMPLESERVER_ROLE": "store", "CUBESTORE_WORKER_PORT": "10001", "CUBESTORE_STATUS_PORT": "3331"},
			[]string{"3331", "3030"}, []string{"10001"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := readConfiguration(func(key string) string { return test.environment[key] })
			if !slices.Equal(c.httpPorts, test.http) || !slices.Equal(c.tcpPorts, test.tcp) {
				t.Errorf("HTTP ports %v, TCP ports %v; want %v, %v", c.httpPorts, c.tcpPorts, test.http, test.tcp)
			}
		})
	}
}

func TestHandler(t *testing.T) {
	served := handler(configuration{version: "v1.2.3"})
	tests := map[string]struct {
		path string
		code int
		body string
	}{
		"ready":          {"/readyz", http.StatusOK, `{"health":"HEALTH"}` + "\n"},
		"alive":          {"/livez", http.StatusOK, `{"health":"HEALTH"}` + "\n"},
		"meta":           {"/cubejs-api/v1/meta", http.StatusOK, `{"cubes":[]}` + "\n"},
		"meta elsewhere": {"/analytics/v1/meta", http.StatusOK, `{"cubes":[]}` + "\n"},
		"version":        {"/version", http.StatusOK, `{"version":"v1.2.3"}` + "\n"},
		"other":          {"/cubejs-api/v1/load", http.StatusNotFound, "404 page not found\n"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			recorder := httptest.NewRecorder()
			served.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, test.path, nil))
			if recorder.Code != test.code || recorder.Body.String() != test.body {
				t.Errorf("%s answered %d %q, want %d %q", test.path, recorder.Code, recorder.Body, test.code, test.body)
			}
			if got := recorder.Header().Get("X-Data-Plane-Version"); got != "v1.2.3" {
				t.Errorf("X-Data-Plane-Version is %q", got)
			}
		})
	}
}
