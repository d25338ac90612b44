package servers

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/quoin-dev/quoin/internal/agent/stream"
)

// Chat is the stream of an answer of an agent, which is read line by line.
type Chat struct {
	// Text is what was read, without the empty lines that keep the connection alive, and Lines are its lines.
	Text  string
	Lines []*stream.Line

	body io.ReadCloser
	from *bufio.Reader
}

// Chat sends a message to an agent, or reads a chat. A server whose database is not open yet is asked again.
func (f *REST) Chat(ctx context.Context, replica int, path string, body any) *Chat {
	GinkgoHelper()
	text, err := json.Marshal(body)
	Expect(err).NotTo(HaveOccurred())
	var response *http.Response
	Eventually(ctx, func(g Gomega) {
		response, err = f.open(ctx, replica, http.MethodPost, path, "application/json", bytes.NewReader(text)) //nolint:bodyclose // Chat has it
		g.Expect(err).NotTo(HaveOccurred())
		if response.StatusCode == http.StatusServiceUnavailable {
			_ = response.Body.Close()
		}
		g.Expect(response.StatusCode).NotTo(Equal(http.StatusServiceUnavailable))
	}).Should(Succeed())
	c := &Chat{body: response.Body, from: bufio.NewReader(response.Body)}
	DeferCleanup(c.body.Close)
	if response.StatusCode != http.StatusOK {
		problem, _ := io.ReadAll(response.Body)
		Fail(response.Status + " " + string(problem))
	}
	Expect(response.Header.Get("Content-Type")).To(Equal(stream.ContentType))
	return c
}

// next reads a line that is not empty. At the end the error is io.EOF.
func (c *Chat) next() (*stream.Line, error) {
	for {
		text, err := c.from.ReadString('\n')
		switch {
		case err != nil && text == "":
			return nil, err
		case err != nil:
			return nil, errors.Join(io.ErrUnexpectedEOF, err) // within a line
		case strings.TrimSpace(text) == "":
			continue
		}
		c.Text += text
		line, err := stream.Decode([]byte(text))
		if err == nil {
			c.Lines = append(c.Lines, line)
		}
		return line, err
	}
}

// Until reads lines through the first one that is wanted, and returns it.
func (c *Chat) Until(wanted func(*stream.Line) bool) *stream.Line {
	GinkgoHelper()
	for {
		line, err := c.next()
		Expect(err).NotTo(HaveOccurred(), "after %s", c.Text)
		if wanted(line) {
			return line
		}
	}
}

// Read reads the rest of the stream. It returns an error if the connection has ended before the stream.
func (c *Chat) Read() error {
	for {
		if _, err := c.next(); err != nil {
			if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
				return nil
			}
			return err
		}
	}
}
