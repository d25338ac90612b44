package workspace_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/directory/number"
	"github.com/quoin-dev/quoin/test/internal/apiclient"
	"github.com/quoin-dev/quoin/test/internal/clustertest"
)

// person creates a user of acme with a key, and returns the token of the key when the server knows both.
func person(t *testing.T, name, key string) (token string) {
	t.Helper()
	u := &v1alpha1.ScimUser{
		ObjectMeta: metav1.ObjectMeta{Namespace: acme.name, Name: name},
		Spec:       v1alpha1.ScimUserSpec{UserName: name + "@example.com", AccountRoles: []v1alpha1.AccountRoleReference{"Explorer"}},
	}
	k, token, err := clustertest.Key(acme.name, key, v1alpha1.ApiKeySpec{Owner: &v1alpha1.ApiKeyOwner{ScimUser: name}})
	if err := errors.Join(err, kubernetes.Client.Create(t.Context(), u), kubernetes.Client.Create(t.Context(), k)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = kubernetes.Client.Delete(t.Context(), k) })
	apiclient.Soon(t, func() error {
		if a := acme.call(t, token, "GET", workbooksPath, nil); a.Status != 200 {
			return fmt.Errorf("%d %s", a.Status, a.Body)
		}
		return nil
	})
	return token
}

// TestDeletedUsers deletes a user with kubectl: the content belongs to the administrators then, also when another user has the name.
func TestDeletedUsers(t *testing.T) {
	first := person(t, "leaving", "leaving-1")
	wb := acme.call(t, first, "POST", workbooksPath, map[string]any{"name": "Of a user who leaves"}).Is(200)
	report := acme.call(t, first, "POST", reportsPath, map[string]any{"workbookId": number64(t, wb.ID()), "sqlQuery": "SELECT 1"}).Is(200)
	wb.Want(map[string]string{"user.email": `"leaving@example.com"`})
	if err := kubernetes.Client.Delete(t.Context(), &v1alpha1.ScimUser{ObjectMeta: metav1.ObjectMeta{Namespace: acme.name, Name: "leaving"}}); err != nil {
		t.Fatal(err)
	}
	path := workbooksPath + "/" + wb.ID()
	apiclient.Soon(t, func() error {
		if a := acme.call(t, acme.admin, "GET", path, nil).Is(200); a.At("user.email") != "administrators@acme.example.com" {
			return fmt.Errorf("%s", a.Body)
		}
		return nil
	})
	want := map[string]string{"user.id": fmt.Sprint(number.Of("Account", "acme")), "user.email": `"administrators@acme.example.com"`, "user.firstName": `"Administrators"`}
	second := person(t, "leaving", "leaving-2")
	acme.call(t, second, "POST", workbooksPath, map[string]any{"name": "Of the next user"}).Is(200).Want(map[string]string{"user.email": `"leaving@example.com"`})
	acme.call(t, acme.admin, "GET", path, nil).Is(200).Want(want)
	acme.call(t, acme.admin, "GET", reportsPath+"/"+report.ID(), nil).Is(200).Want(want)
	csv := string(acme.call(t, acme.admin, "GET", "/api/v1/audit-logs/export?eventName=Transferred+content+of+deleted+user", nil).Is(200).Body)
	if strings.Count(csv, "\n") != 2 || !strings.Contains(csv, "system:quoin-apiserver") || !strings.Contains(csv, "ScimUser:leaving") {
		t.Errorf("the audit log has\n%s", csv)
	}
}
