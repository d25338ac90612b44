package dbtsandbox

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/quoin-dev/quoin/internal/dbt"
	"github.com/quoin-dev/quoin/internal/git"
)

// maxUnknown is how often a manifest is sent although the password is rejected: a replica of quoin apiserver
// may not know the sync yet.
const maxUnknown = 4

// maxAnswer bounds what is read of the answer of quoin apiserver, bytes.
const maxAnswer = 2 << 10

// deliverOptions are the flags of dbt-deliver.
type deliverOptions struct {
	manifest, catalog, selected, url, credentialsDir string
	timeout                                          time.Duration
}

func parseDeliver(args []string, output io.Writer) (deliverOptions, error) {
	o := deliverOptions{}
	flags := flag.NewFlagSet("quoin dbt-deliver", flag.ContinueOnError)
	flags.SetOutput(output)
	flags.StringVar(&o.manifest, "manifest", "", "path of manifest.json (required)")
	flags.StringVar(&o.catalog, "catalog", "", "path of catalog.json; none when empty")
	flags.StringVar(&o.selected, "selected", "", "path of the selected models, as dbt ls --output json writes them; all models when empty")
	flags.StringVar(&o.url, "url", "", "https:// URL of the sync on quoin apiserver (required)")
	flags.StringVar(&o.credentialsDir, "credentials-dir", "", "mounted Secret with password and ca.crt (required)")
	flags.DurationVar(&o.timeout, "timeout", 10*time.Minute, "timeout of all attempts together")
	err := parse(flags, args, "manifest", "url", "credentials-dir")
	if err == nil && (o.timeout <= 0 || !strings.HasPrefix(o.url, "https://")) {
		err = errors.New("--timeout must be positive, and --url must begin with https://")
	}
	return o, err
}

// Deliver is the command dbt-deliver. It sends a manifest to quoin apiserver as a stream, and again if
// there is no answer. It returns the exit code: 0 success, 1 failure, 2 invalid flags.
func Deliver(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return newCommand(stdout, stderr).deliver(ctx, args)
}

func (c command) deliver(ctx context.Context, args []string) int {
	o, err := parseDeliver(args, c.stderr)
	return c.run(ctx, err, o.timeout, func(ctx context.Context) error {
		client, password, err := o.client()
		if err != nil {
			return err
		}
		unknown := 0
		return c.retry(ctx, func(err error) bool { return isUnavailable(err) || isUnknown(err) && unknown < maxUnknown }, func() error {
			err := o.send(ctx, client, password)
			if isUnknown(err) {
				unknown++
			}
			return err
		})
	})
}

// client returns a client that trusts quoin apiserver, and the password.
func (o deliverOptions) client() (*http.Client, string, error) {
	password, err := readFile(filepath.Join(o.credentialsDir, corev1.BasicAuthPasswordKey), maxAnswer)
	if err != nil {
		return nil, "", fmt.Errorf("read the password: %w", err)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	// Without the file, quoin apiserver has a certificate that the system trusts.
	if trusted, err := readFile(filepath.Join(o.credentialsDir, git.KeyCACert), 1<<20); err == nil && len(trusted) > 0 {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(trusted) {
			return nil, "", fmt.Errorf("%s: not certificates in PEM", git.KeyCACert)
		}
	}
	client := &http.Client{
		Transport:     &http.Transport{TLSClientConfig: config, TLSHandshakeTimeout: 10 * time.Second, ResponseHeaderTimeout: 2 * time.Minute},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return client, string(password), nil
}

// unavailable is an error after which the manifest is sent again.
type unavailable struct{ reason string }

// Error implements error.
func (u unavailable) Error() string {
	return "quoin apiserver does not accept the manifest: " + u.reason
}

func isUnavailable(err error) bool { return errors.As(err, &unavailable{}) }

// rejected is an error of quoin apiserver for the manifest or the password.
type rejected struct {
	status int
	answer string
}

// Error implements error.
func (r rejected) Error() string { return "quoin apiserver rejects the manifest: " + r.answer }

func isUnknown(err error) bool {
	var r rejected
	return errors.As(err, &r) && r.status == http.StatusUnauthorized
}

// send sends the manifest once.
func (o deliverOptions) send(ctx context.Context, client *http.Client, password string) error {
	b, err := o.open()
	if err != nil {
		return err
	}
	defer b.close()
	request, err := http.NewRequestWithContext(ctx, http.MethodPut, o.url, io.MultiReader(b.parts...))
	if err != nil {
		return err
	}
	request.ContentLength = b.length
	request.Header.Set("Content-Type", "application/json")
	request.SetBasicAuth("dbt", password)
	response, err := client.Do(request)
	if err != nil {
		return unavailable{reason: cmp.Or(errors.Unwrap(err), err).Error()}
	}
	defer response.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(response.Body, maxAnswer)) // as far as it is readable
	answer := strings.TrimSpace(fmt.Sprintf("%d %s", response.StatusCode, text))
	switch status := response.StatusCode; {
	case status < http.StatusMultipleChoices:
		return nil
	case status >= http.StatusInternalServerError, status == http.StatusTooManyRequests, status == http.StatusRequestTimeout:
		return unavailable{reason: answer}
	}
	return rejected{response.StatusCode, answer}
}

// maxSelected bounds the file of the selected models, bytes.
const maxSelected = 8 << 20

// body is the body of a delivery.
type body struct {
	parts  []io.Reader
	length int64
	files  []*os.File
}

// open returns the body: a JSON object with what dbt has written.
func (o deliverOptions) open() (*body, error) {
	b := &body{}
	b.text("{")
	err := o.addSelected(b)
	if err == nil && o.catalog != "" {
		b.text(`"catalog":`)
		err = b.file(o.catalog, "catalog", dbt.MaxCatalogBytes)
		b.text(",")
	}
	if err == nil {
		b.text(`"manifest":`)
		err = b.file(o.manifest, "manifest", dbt.MaxManifestBytes)
		b.text("}")
	}
	if err != nil {
		b.close()
		return nil, err
	}
	return b, nil
}

func (b *body) text(s string) {
	b.parts, b.length = append(b.parts, strings.NewReader(s)), b.length+int64(len(s))
}

// file adds a file that dbt has written.
func (b *body) file(path, name string, limit int64) error {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("dbt has written no %s", filepath.Base(path))
	}
	if err != nil {
		return err
	}
	b.files = append(b.files, file)
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if info.Size() > limit {
		return fmt.Errorf("the %s has %d bytes; allowed: %d", name, info.Size(), limit)
	}
	b.parts, b.length = append(b.parts, file), b.length+info.Size()
	return nil
}

func (b *body) close() {
	for _, file := range b.files {
		_ = file.Close()
	}
}

// addSelected adds the selected models.
func (o deliverOptions) addSelected(b *body) error {
	if o.selected == "" {
		return nil
	}
	text, err := readFile(o.selected, maxSelected)
	if err != nil {
		return fmt.Errorf("read the selected models: %w", err)
	}
	ids := []string{}
	for line := range strings.Lines(string(text)) {
		var node struct {
			UniqueID string `json:"unique_id"`
		}
		// Other lines are messages of dbt.
		if json.Unmarshal([]byte(line), &node) == nil && node.UniqueID != "" {
			ids = append(ids, node.UniqueID)
		}
	}
	selected, err := json.Marshal(ids)
	b.text(`"selected":` + string(selected) + ",")
	return err
}
