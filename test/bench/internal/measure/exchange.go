package measure

import (
	"fmt"
	"io"
	"net/http"
	"time"
)

// Exchange sends a request, reads the whole response and returns how long that took. A status other than 200 is an error.
func Exchange(c *http.Client, request *http.Request) (time.Duration, error) {
	start := time.Now()
	_, err := Text(c, request)
	return time.Since(start), err
}

// Text sends a request and returns the response. A status other than 200 is an error.
func Text(c *http.Client, request *http.Request) (string, error) {
	response, err := c.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s %s: %s: %.200s", request.Method, request.URL.Path, response.Status, text)
	}
	return string(text), err
}
