package plugin

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/kube"
	"github.com/quoin-dev/quoin/plugin/view"
)

// userRow is the structured output of `users`.
type userRow struct {
	Namespace   string `json:"namespace"`
	Name        string `json:"name"`
	UserName    string `json:"userName"`
	DisplayName string `json:"displayName,omitempty"`
	Active      bool   `json:"active"`
	Ready       string `json:"ready"`
	Reason      string `json:"reason"`
	// ExternalID is the id that the identity provider has given the user.
	ExternalID string `json:"externalId,omitempty"`
}

func usersCommand(s *session) *cobra.Command {
	o, all, limit := &output{}, false, int64(0)
	c := &cobra.Command{
		Use:     "users",
		GroupID: groupRead,
		Short:   "List the users of an account",
		Long:    `Lists the ScimUsers of a namespace. It needs the ClusterRole quoin-admin: viewers may not read users.`,
		Example: `  kubectl quoin users -n demo
  kubectl quoin users -A -o json`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	o.register(c)
	c.Flags().BoolVarP(&all, "all-namespaces", "A", false, "List the users of all accounts.")
	c.Flags().Int64Var(&limit, "limit", 500, "Maximum number of users; 0 for all.")
	c.RunE = run(func(ctx context.Context, _ []string) error {
		rows, more, err := s.listUsers(ctx, all, limit)
		if err != nil {
			return err
		}
		if more {
			fmt.Fprintf(s.Stderr, "There are more than %d users: set --limit.\n", limit)
		}
		return o.print(s.Stdout, rows, func(w io.Writer) error {
			table := make([][]string, 0, len(rows))
			for _, r := range rows {
				table = append(table, []string{r.Namespace, r.Name, r.UserName, r.DisplayName, strconv.FormatBool(r.Active), r.Ready, r.Reason})
			}
			return o.table(w, []string{"Namespace", "Name", "User name", "Display name", "Active", "Ready", "Reason"}, table)
		})
	})
	return c
}

// listUsers returns at most limit users, and whether there are more.
func (s *session) listUsers(ctx context.Context, everywhere bool, limit int64) (rows []userRow, more bool, err error) {
	c, key, err := s.inNamespace("")
	if err != nil {
		return nil, false, err
	}
	if everywhere {
		key.Namespace = ""
	}
	rows = []userRow{}
	for list, err := range kube.Pages(ctx, c, &v1alpha1.ScimUserList{}, client.InNamespace(key.Namespace)) {
		if err != nil {
			return nil, false, err
		}
		for i := range list.Items {
			if limit > 0 && int64(len(rows)) == limit {
				return rows, true, nil
			}
			u := &list.Items[i]
			ready := view.Ready(u)
			rows = append(rows, userRow{
				Namespace: u.Namespace, Name: u.Name, UserName: u.Spec.UserName, DisplayName: cmp.Or(u.Spec.DisplayName, formatted(u)),
				Active: u.DeletionTimestamp.IsZero() && ptr.Deref(u.Status.Active, ptr.Deref(u.Spec.Active, true)), Ready: string(ready.Status), Reason: ready.Reason, ExternalID: u.Spec.ExternalID,
			})
		}
	}
	return rows, false, nil
}

func formatted(u *v1alpha1.ScimUser) string {
	if u.Spec.Name == nil {
		return ""
	}
	return u.Spec.Name.Formatted
}
