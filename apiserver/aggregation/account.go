package aggregation

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metatable "k8s.io/apimachinery/pkg/api/meta/table"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/tenant"
)

// GroupVersion is the API group and its only version.
var GroupVersion = schema.GroupVersion{Group: "api.platform.quoin.dev", Version: "v1"}

// The resource, its subresource and their path.
const (
	accounts     = "accounts"
	proxy        = "proxy"
	accountsPath = "/apis/api.platform.quoin.dev/v1/accounts"
)

// accountResource returns the resource accounts or a subresource of it.
func accountResource(subresource string) schema.GroupVersionResource {
	if subresource == "" {
		return GroupVersion.WithResource(accounts)
	}
	return GroupVersion.WithResource(accounts + "/" + subresource)
}

// Account is the read-only representation of an Account of platform.quoin.dev. Its subresource proxy
// serves the account's documented paths.
type Account struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec AccountSpec `json:"spec"`
}

// AccountSpec describes an account.
type AccountSpec struct {
	// URL is the base URL of the account's APIs outside of the Kubernetes API.
	URL string `json:"url"`
}

// AccountList is a list of Accounts.
type AccountList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []Account `json:"items"`
}

func newAccount(a *v1alpha1.Account) Account {
	return Account{
		TypeMeta:   metav1.TypeMeta{APIVersion: GroupVersion.String(), Kind: "Account"},
		ObjectMeta: metav1.ObjectMeta{Name: a.Name, CreationTimestamp: a.CreationTimestamp},
		Spec:       AccountSpec{URL: tenant.URL(a)},
	}
}

// listAccounts serves the list of all accounts, sorted by name.
func (s *Server) listAccounts(w http.ResponseWriter, r *http.Request, who user.Info) error {
	if err := mayRead(r, verbs[r.Method]); err != nil {
		return err
	}
	if err := s.authorize(r.Context(), toAccounts(who, "list", "", "")); err != nil {
		return err
	}
	if query := r.URL.Query(); query.Get("labelSelector") != "" || query.Get("fieldSelector") != "" {
		return apierrors.NewBadRequest("selectors are not supported: use accounts.platform.quoin.dev")
	}
	found, err := s.options.Accounts(r.Context())
	if err != nil {
		return err
	}
	list := AccountList{
		TypeMeta: metav1.TypeMeta{APIVersion: GroupVersion.String(), Kind: "AccountList"},
		Items:    make([]Account, 0, len(found)),
	}
	for i := range found {
		list.Items = append(list.Items, newAccount(&found[i]))
	}
	slices.SortFunc(list.Items, func(a, b Account) int { return strings.Compare(a.Name, b.Name) })
	return writeAccounts(w, r, list, list.Items)
}

// getAccount serves an account.
func (s *Server) getAccount(w http.ResponseWriter, r *http.Request, who user.Info, name string) error {
	if err := mayRead(r, verbs[r.Method]); err != nil {
		return err
	}
	if err := s.authorize(r.Context(), toAccounts(who, "get", name, "")); err != nil {
		return err
	}
	found, err := s.account(name)
	if err != nil {
		return err
	}
	account := newAccount(found)
	return writeAccounts(w, r, account, []Account{account})
}

// writeAccounts writes the object, or a table of its accounts if the client accepts one, as kubectl
// does.
func writeAccounts(w http.ResponseWriter, r *http.Request, object any, accounts []Account) error {
	if !accepted(r, metav1.GroupVersionKind{Group: metav1.GroupName, Version: "v1", Kind: "Table"}) {
		write(w, http.StatusOK, "application/json", object)
		return nil
	}
	table, err := newTable(accounts)
	if err != nil {
		return err
	}
	write(w, http.StatusOK, "application/json", table)
	return nil
}

func newTable(accounts []Account) (*metav1.Table, error) {
	table := &metav1.Table{
		TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "Table"},
		ColumnDefinitions: []metav1.TableColumnDefinition{
			{Name: "Name", Type: "string", Format: "name", Description: "Name of the account"},
			{Name: "URL", Type: "string", Description: "Base address of the account's APIs"},
			{Name: "Age", Type: "string", Description: "Time since the creation of the account"},
		},
		Rows: make([]metav1.TableRow, 0, len(accounts)),
	}
	for _, account := range accounts {
		object, err := json.Marshal(metav1.PartialObjectMetadata{
			TypeMeta:   metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata"},
			ObjectMeta: account.ObjectMeta,
		})
		if err != nil {
			return nil, err
		}
		table.Rows = append(table.Rows, metav1.TableRow{
			Cells:  []any{account.Name, account.Spec.URL, metatable.ConvertToHumanReadableDateType(account.CreationTimestamp)},
			Object: runtime.RawExtension{Raw: object},
		})
	}
	return table, nil
}
