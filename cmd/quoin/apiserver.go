package main

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"

	"github.com/quoin-dev/quoin/apiserver"
	"github.com/quoin-dev/quoin/apiserver/chat"
	"github.com/quoin-dev/quoin/internal/github"
	"github.com/quoin-dev/quoin/internal/heap"
	"github.com/quoin-dev/quoin/internal/serving/certificates"
	"github.com/quoin-dev/quoin/internal/tracing"
)

type apiserverFlags struct {
	listenerFlags
	config apiserver.Config
}

// serveAPI runs `quoin apiserver`.
func serveAPI(ctx context.Context, args []string, _, stderr io.Writer) int {
	f, err := parseAPIServerFlags(args, stderr)
	return start("quoin apiserver", stderr, err, &f.log, func(logger logr.Logger) error {
		go heap.Trim(ctx)
		f.config.Log, f.config.Version = slog.New(logr.ToSlogHandler(logger)), readBuild().Version
		return f.trace(ctx, "quoin-apiserver", f.config.Log, func(config *rest.Config, tracer *tracing.Tracer) error {
			f.config.Tracer = tracer
			return apiserver.Run(ctx, config, f.config)
		})
	})
}

func parseAPIServerFlags(args []string, stderr io.Writer) (*apiserverFlags, error) {
	f := &apiserverFlags{}
	c := &f.config
	fs := newFlagSet("quoin apiserver", stderr)
	f.register(fs, listenerUsage{service: "quoin-apiserver", serves: "the APIs", limits: "for each caller"})
	fs.StringVar(&c.Region.Name, "region", "local", "`name` of the region of this cluster")
	fs.StringVar(&c.Region.Title, "region-title", "", "display `name` of the region; --region when empty")
	fs.StringVar(&c.DatabaseURL, "database-url", os.Getenv("DATABASE_URL"), "`URL` of the database of the audit log and workspace content: sqlite:///path/file.db for one replica, or postgres://…; none when empty")
	fs.StringVar(&c.DbtImage, "dbt-image", "", "`image` with dbt, as that of quoin controller; dbt syncs of Git repositories are rejected when empty")
	fs.Int64Var(&c.GitHub.AppID, "github-app-id", 0, "`id` of the GitHub App with which repositories on GitHub are read; none when 0")
	fs.BoolVar(&c.AllowInsecureGit, "allow-insecure-git", false, "allow http:// for Git repositories: for tests and isolated networks")
	fs.StringVar(&c.Gateway.Address, "gateway-address", "", "`host:port` of quoin gateway, through which queries of reports are run; they are not run when empty")
	fs.StringVar(&c.Gateway.CAFile, "gateway-ca-file", "", "`file` with the certificate authorities of quoin gateway, in PEM, read for each connection; those of the system when empty")
	fs.DurationVar(&c.ChatRetention, "chat-retention", chat.DefaultRetention, "`time` after its last change for which a chat with an agent is kept")
	fs.Int64Var(&c.ChatTokens.Account, "chat-tokens-per-account", 0, "`number` of tokens that the agents of an account may use a day (UTC); no limit when 0")
	fs.Int64Var(&c.ChatTokens.Caller, "chat-tokens-per-key", 0, "`number` of tokens that chats with an API key may use a day; no limit when 0")
	fs.Int64Var(&c.ChatTokens.User, "chat-tokens-per-user", 0, "`number` of tokens that the chats of a person may use a day; no limit when 0")
	fs.StringVar(&c.GitHub.Slug, "github-app-slug", "", "`name` of the GitHub App in URLs")
	fs.StringVar(&c.GitHub.KeyFile, "github-app-key-file", "", "`file` with the private key of the GitHub App, in PEM")
	fs.StringVar(&c.GitHub.CAFile, "github-ca-file", "", "`file` with certificate authorities of a GitHub Enterprise Server, in PEM, for Quoin and for pods that fetch from it; those of the system when empty")
	fs.StringVar(&c.GitHub.BaseURL, "github-base-url", github.DefaultURL, "`URL` of GitHub or of a GitHub Enterprise Server")
	fs.Func("certificate-names", "further DNS names and addresses of the generated certificate, separated by commas", func(text string) error {
		c.CertificateNames = strings.Split(text, ",")
		return certificates.CheckNames(c.CertificateNames)
	})
	fs.BoolVar(&c.Aggregation, "aggregation", false, "also serve as an aggregated API server (APIService v1.api.platform.quoin.dev)")
	if err := parse(fs, args, f.validate); err != nil {
		return f, err
	}
	c.Region.Title = cmp.Or(c.Region.Title, c.Region.Name)
	c.Namespace, c.Service, c.WatchNamespaces = f.namespace, f.service, f.watchNamespaces
	c.HTTPS, c.Probes, c.Metrics = f.endpoints()
	c.CertFile, c.KeyFile, c.TrustedProxies = f.certFile, f.keyFile, f.networks
	c.RequestsPerSecond, c.Burst, c.ShutdownDelay = f.requestsPerSecond, f.burst, f.shutdownDelay
	return f, nil
}

// validate returns the problem with the flags, or "".
func (f *apiserverFlags) validate() string {
	own := ""
	app := f.config.GitHub
	switch {
	case f.config.Region.Name == "":
		own = "--region must not be empty"
	case !isDatabase(f.config.DatabaseURL):
		own = "--database-url must begin with sqlite:/// or postgres://" // without the URL, which may contain a password
	case !isHostPort(f.config.Gateway.Address):
		own = "--gateway-address must be a host and a port, such as quoin-gateway.quoin-system.svc:443"
	case f.config.Gateway.Address == "" && f.config.Gateway.CAFile != "":
		own = "--gateway-ca-file requires --gateway-address"
	case f.config.ChatRetention < time.Hour:
		own = "--chat-retention must be at least 1h"
	case min(f.config.ChatTokens.Account, f.config.ChatTokens.Caller, f.config.ChatTokens.User) < 0:
		own = "--chat-tokens-per-account, --chat-tokens-per-key and --chat-tokens-per-user must not be negative"
	case app.AppID < 0:
		own = "--github-app-id must be positive"
	case (app.AppID != 0) != (app.Slug != "") || (app.AppID != 0) != (app.KeyFile != ""):
		own = "--github-app-id, --github-app-slug and --github-app-key-file must be given together"
	case app.AppID == 0 && app.CAFile != "":
		own = "--github-ca-file requires --github-app-id"
	case app.AppID != 0 && !isHTTPS(app.BaseURL):
		own = "--github-base-url must be an https:// URL without user, query and fragment"
	}
	return f.listenerFlags.validate(own)
}

// isHostPort reports whether a text is empty, or a host and a port.
func isHostPort(text string) bool {
	host, port, err := net.SplitHostPort(text)
	number, portErr := strconv.ParseUint(port, 10, 16)
	return text == "" || err == nil && host != "" && portErr == nil && number > 0
}

// isHTTPS reports whether a text is an https:// URL with nothing but a host and a path.
func isHTTPS(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Scheme == "https" && u.Host != "" && u.User == nil && u.RawQuery == "" && u.Fragment == ""
}

// isDatabase reports whether a URL is empty or that of a supported database.
func isDatabase(url string) bool {
	return url == "" || strings.HasPrefix(url, "sqlite:///") || strings.HasPrefix(url, "postgres://") || strings.HasPrefix(url, "postgresql://")
}
