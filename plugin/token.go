package plugin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

// issuedToken is the structured output of `token`.
type issuedToken struct {
	Deployment  string    `json:"deployment"`
	Environment string    `json:"environment"`
	Token       string    `json:"token"`
	ExpiresAt   time.Time `json:"expiresAt"`
	URL         string    `json:"url,omitempty"`
}

// tokenOptions are the flags of `token`.
type tokenOptions struct {
	output
	apiFlags
	environment, securityContext string
	duration                     time.Duration
	metadata                     bool
}

func tokenCommand(s *session) *cobra.Command {
	o := &tokenOptions{}
	c := &cobra.Command{
		Use:     "token NAME",
		GroupID: groupAPI,
		Short:   "Create a token for the data API of a deployment",
		Long: `Creates a token that queries the data of an environment, production by default, and prints it. The
token is not stored and cannot be shown again. It needs the permission DeploymentUpdate: the verb update
on accounts/proxy; a token of --metadata needs SchemaRead.`,
		Example: `  curl -H "Authorization: $(kubectl quoin token analytics -n demo)" https://analytics.data.demo.example.com/cubejs-api/v1/meta
  kubectl quoin token analytics -n demo --duration 1h --security-context '{"tenant": 7}'`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: s.completeDeployment,
	}
	o.output.register(c)
	o.apiFlags.register(c)
	c.Flags().StringVar(&o.environment, "environment", "", "Name of the environment; production when empty.")
	c.Flags().StringVar(&o.securityContext, "security-context", "{}", "Security context in JSON, which the data model reads.")
	c.Flags().DurationVar(&o.duration, "duration", time.Hour, "Lifetime of the token, at most 24h.")
	c.Flags().BoolVar(&o.metadata, "metadata", false, "Create a token that reads metadata and queries no data.")
	c.RunE = run(func(ctx context.Context, args []string) error {
		t, err := s.issueToken(ctx, o, args[0])
		if err != nil {
			return err
		}
		return o.print(s.Stdout, t, func(w io.Writer) error {
			_, err := fmt.Fprintln(w, t.Token)
			return err
		})
	})
	return c
}

func (s *session) issueToken(ctx context.Context, o *tokenOptions, name string) (*issuedToken, error) {
	var securityContext map[string]any
	if err := json.Unmarshal([]byte(o.securityContext), &securityContext); err != nil {
		return nil, errors.New("--security-context must be a JSON object")
	}
	c, key, err := s.inNamespace(name)
	if err != nil {
		return nil, err
	}
	d := &v1alpha1.Deployment{}
	if err := c.Get(ctx, key, d); err != nil {
		return nil, err
	}
	e, err := environmentOf(ctx, c, d, o.environment)
	if err != nil {
		return nil, err
	}
	fields := map[string]any{"security_context": securityContext, "expires_in": int64(o.duration.Seconds())}
	path := fmt.Sprintf("/api/v1/deployments/%s/environments/%s/tokens", d.Labels[v1alpha1.LabelID], e.Labels[v1alpha1.LabelID])
	if o.metadata {
		path += "-for-meta-sync"
	}
	body, err := json.Marshal(fields)
	if err != nil {
		return nil, err
	}
	a, err := s.api(ctx, &o.apiFlags, request{method: http.MethodPost, path: path, body: body})
	if err != nil {
		return nil, err
	}
	var issued struct {
		Data struct {
			Token     string    `json:"token"`
			ExpiresAt time.Time `json:"expires_at"`
		} `json:"data"`
	}
	if err := json.Unmarshal(a.body, &issued); err != nil || issued.Data.Token == "" {
		return nil, errors.New("the REST API returned no token")
	}
	t := &issuedToken{Deployment: d.Name, Environment: e.Name, Token: issued.Data.Token, ExpiresAt: issued.Data.ExpiresAt}
	if e.Status.APICredentials != nil {
		t.URL = e.Status.APICredentials.REST.URL
	}
	return t, nil
}

// environmentOf returns the environment of a deployment with a name, production without one.
func environmentOf(ctx context.Context, c client.Reader, d *v1alpha1.Deployment, name string) (*v1alpha1.Environment, error) {
	if name == "" {
		name = v1alpha1.ProductionName(d.Name)
	}
	e := &v1alpha1.Environment{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: d.Namespace, Name: name}, e); err != nil {
		return nil, err
	}
	if e.Spec.DeploymentRef.Name != d.Name {
		return nil, apierrors.NewNotFound(schema.GroupResource{Group: v1alpha1.Group, Resource: "environments of " + d.Name}, name)
	}
	return e, nil
}
