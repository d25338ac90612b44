package plugin

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/apikey"
)

// createdKey is the structured output of `keys create`.
type createdKey struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Token is the credential, which only this output has.
	Token string `json:"token"`
	// Manifest is the object that was created, or with --dry-run is to be created.
	Manifest keyManifest `json:"manifest"`
}

// keyManifest is an ApiKey without its status.
type keyManifest struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        metav1.ObjectMeta   `json:"metadata"`
	Spec            v1alpha1.ApiKeySpec `json:"spec"`
}

// keyOptions are the flags of `keys create`.
type keyOptions struct {
	output
	permissions, deployments []string
	displayName, owner       string
	expires                  time.Duration
	dryRun                   bool
}

func keysCommand(s *session) *cobra.Command {
	keys := &cobra.Command{
		Use:     "keys",
		GroupID: groupAPI,
		Short:   "Create API keys",
		Long:    `Creates API keys. kubectl get qkey lists them, and kubectl delete qkey deletes one.`,
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	o := &keyOptions{}
	create := &cobra.Command{
		Use:   "create NAME",
		Short: "Create an API key, and print its token once",
		Long: `Generates a token on this machine, and creates an ApiKey with its hash: the token is printed once and
stored nowhere. It needs the ClusterRole quoin-admin. With --dry-run and -o yaml it prints the
manifest, for Git, and the token on the standard error.`,
		Example: `  kubectl quoin keys create ci -n demo --permission DeploymentsManage --deployment analytics --expires 720h
  kubectl quoin keys create okta -n demo --permission ScimManage`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	o.register(create)
	create.Flags().StringArrayVar(&o.permissions, "permission", nil, "Permission of the key; may be repeated. Admin when absent.")
	create.Flags().StringArrayVar(&o.deployments, "deployment", nil, "Deployment that the key is limited to; may be repeated. All when absent.")
	create.Flags().StringVar(&o.displayName, "display-name", "", "Name in user interfaces; the name of the object when empty.")
	create.Flags().StringVar(&o.owner, "owner", "", "ScimUser that the key acts on behalf of.")
	create.Flags().DurationVar(&o.expires, "expires", 0, "Time until the key expires; never when 0.")
	create.Flags().BoolVar(&o.dryRun, "dry-run", false, "Validate the object without creating it.")
	o.validate = func([]string) error {
		if o.expires < 0 {
			return fmt.Errorf("--expires is %s, must not be negative", o.expires)
		}
		return nil
	}
	_ = create.RegisterFlagCompletionFunc("deployment", func(c *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
		return s.completeDeployment(c, nil, prefix)
	})
	create.RunE = run(func(ctx context.Context, args []string) error { return s.createKey(ctx, o, args[0]) })
	keys.AddCommand(create)
	return keys
}

func (s *session) createKey(ctx context.Context, o *keyOptions, name string) error {
	c, key, err := s.inNamespace(name)
	if err != nil {
		return err
	}
	token, err := apikey.New(rand.Reader)
	if err != nil {
		return err
	}
	k := &v1alpha1.ApiKey{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "ApiKey"},
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: name},
	}
	k.Spec.DisplayName, k.Spec.Deployments, k.Spec.Token = o.displayName, o.deployments, ptr.To(token.Hash())
	for _, p := range o.permissions {
		k.Spec.Permissions = append(k.Spec.Permissions, v1alpha1.Permission(p))
	}
	if o.owner != "" {
		k.Spec.Owner = &v1alpha1.ApiKeyOwner{ScimUser: o.owner}
	}
	if o.expires > 0 {
		k.Spec.ExpirationTime = ptr.To(metav1.NewTime(s.Now().Add(o.expires).UTC().Truncate(time.Second)))
	}
	manifest := keyManifest{k.TypeMeta, k.ObjectMeta, k.Spec}
	options := []client.CreateOption{manager}
	if o.dryRun {
		options = append(options, client.DryRunAll)
	}
	if err := c.Create(ctx, k, options...); err != nil {
		return err
	}
	created := createdKey{Namespace: k.Namespace, Name: k.Name, Token: token.Reveal(), Manifest: manifest}
	if o.dryRun && o.format != "table" { // a manifest for Git, which must not contain the token
		fmt.Fprintln(s.Stderr, "The token, which is shown only here:", created.Token)
		return o.print(s.Stdout, manifest, nil)
	}
	return o.print(s.Stdout, created, func(w io.Writer) error {
		action := "created; its token is shown only here:"
		if o.dryRun {
			action = "would be created (dry run) with this token:"
		}
		fmt.Fprintf(s.Stderr, "API key %s/%s %s\n", k.Namespace, k.Name, action)
		_, err := fmt.Fprintln(w, created.Token)
		return err
	})
}
