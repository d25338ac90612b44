package apiserver

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/store"
)

func TestContentIsPurgedOnlyIfTheAPIServerConfirmsAbsence(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	account := func(uid types.UID) client.Object {
		return &v1alpha1.Account{ObjectMeta: metav1.ObjectMeta{Name: "demo", UID: uid}}
	}
	reader := func(objects ...client.Object) client.Reader {
		return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
	}
	failing := func(err error) client.Reader {
		return interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme).Build(), interceptor.Funcs{
			Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
				return err
			},
		})
	}
	// The kind is not served, such as while its CRD is installed again.
	notServed := apierrors.NewGenericServerResponse(http.StatusNotFound, "get", schema.GroupResource{Resource: "accounts"}, "demo", "404 page not found", 0, true)
	for name, test := range map[string]struct {
		cache, live client.Reader
		exists      bool
		fails       bool
	}{
		"in the cache":                        {reader(account("u1")), failing(errors.New("not asked")), true, false},
		"the cache is empty":                  {reader(), reader(account("u1")), true, false},
		"the cache is stale":                  {reader(account("u2")), reader(account("u1")), true, false},
		"deleted":                             {reader(), reader(), false, false},
		"created again with the name":         {reader(account("u2")), reader(account("u2")), false, false},
		"the API server does not answer":      {reader(), failing(apierrors.NewServiceUnavailable("away")), true, true},
		"the API server forbids to ask":       {reader(), failing(apierrors.NewForbidden(schema.GroupResource{}, "demo", nil)), true, true},
		"the kind is not served":              {reader(), failing(notServed), true, true},
		"the API server says that it is gone": {reader(), failing(&apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonNotFound, Code: 404}}), false, false},
	} {
		exists, err := existence{test.cache, test.live}.AccountExists(t.Context(), store.Account{UID: "u1", Name: "demo"})
		if exists != test.exists || (err != nil) != test.fails {
			t.Errorf("%s: %v, %v", name, exists, err)
		}
	}
}

// A table that no owner lists would be missing in backups.
func TestBackupsHaveAllTables(t *testing.T) {
	s, err := store.Open(t.Context(), "sqlite://"+filepath.Join(t.TempDir(), "quoin.db"), nil, ContentOwners()...)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	listed := []string{"account", "deployment", "account_sequence"}
	for _, owner := range ContentOwners() {
		listed = append(listed, owner.Tables...)
	}
	rows, err := s.Reader().QueryContext(t.Context(), "SELECT name FROM sqlite_master WHERE type = 'table'")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		name := ""
		if err := rows.Scan(&name); err != nil {
			t.Fatal(err)
		}
		// Migrations and the search index, which triggers fill, are no content.
		derived := strings.HasPrefix(name, "migration_") || strings.HasPrefix(name, "audit_event_words") || strings.HasPrefix(name, "sqlite_")
		if i := slices.Index(listed, name); i >= 0 {
			listed = slices.Delete(listed, i, i+1)
		} else if !derived {
			t.Errorf("no owner lists table %s", name)
		}
	}
	if err := rows.Err(); err != nil || len(listed) > 0 {
		t.Errorf("tables that do not exist: %v; %v", listed, err)
	}
}
