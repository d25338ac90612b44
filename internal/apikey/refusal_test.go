package apikey

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

func TestRefusal(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	at := func(d time.Duration) *metav1.Time { return ptr.To(metav1.NewTime(now.Add(d))) }
	ann := &v1alpha1.ApiKeyOwner{ScimUser: "ann"}
	user := func(active *bool) *v1alpha1.ScimUser {
		return &v1alpha1.ScimUser{ObjectMeta: metav1.ObjectMeta{Name: "ann", UID: "1"}, Spec: v1alpha1.ScimUserSpec{Active: active}}
	}
	deleted := user(ptr.To(true))
	deleted.DeletionTimestamp = at(0)
	cases := map[string]struct {
		spec  v1alpha1.ApiKeySpec
		owner *v1alpha1.ScimUser
		want  string
		// reference is the UID in the owner reference of the key; it has none if empty.
		reference types.UID
	}{
		"works":                   {v1alpha1.ApiKeySpec{}, nil, "", ""},
		"revoked":                 {v1alpha1.ApiKeySpec{Revoked: ptr.To(true)}, nil, "Revoked", ""},
		"not revoked":             {v1alpha1.ApiKeySpec{Revoked: ptr.To(false)}, nil, "", ""},
		"expires later":           {v1alpha1.ApiKeySpec{ExpirationTime: at(time.Second)}, nil, "", ""},
		"expires now":             {v1alpha1.ApiKeySpec{ExpirationTime: at(0)}, nil, "Expired", ""},
		"expired":                 {v1alpha1.ApiKeySpec{ExpirationTime: at(-time.Hour)}, nil, "Expired", ""},
		"owner":                   {v1alpha1.ApiKeySpec{Owner: ann}, user(nil), "", ""},
		"owner active":            {v1alpha1.ApiKeySpec{Owner: ann}, user(ptr.To(true)), "", ""},
		"owner inactive":          {v1alpha1.ApiKeySpec{Owner: ann}, user(ptr.To(false)), "OwnerInactive", ""},
		"owner being deleted":     {v1alpha1.ApiKeySpec{Owner: ann}, deleted, "OwnerInactive", ""},
		"no owner":                {v1alpha1.ApiKeySpec{Owner: ann}, nil, "OwnerNotFound", ""},
		"owner of its reference":  {v1alpha1.ApiKeySpec{Owner: ann}, user(nil), "", "1"},
		"later user of the name":  {v1alpha1.ApiKeySpec{Owner: ann}, user(nil), "OwnerNotFound", "0"},
		"revoked before the rest": {v1alpha1.ApiKeySpec{Revoked: ptr.To(true), ExpirationTime: at(-1), Owner: ann}, nil, "Revoked", ""},
		"expired before owner":    {v1alpha1.ApiKeySpec{ExpirationTime: at(-time.Second), Owner: ann}, nil, "Expired", ""},
	}
	for name, tc := range cases {
		k := &v1alpha1.ApiKey{Spec: tc.spec}
		if tc.reference != "" {
			k.OwnerReferences = []metav1.OwnerReference{OwnedBy("ann", tc.reference)}
		}
		reason, message := Refusal(k, tc.owner, now)
		if reason != tc.want || (reason == "") != (message == "") {
			t.Errorf("%s: got %q: %q, want %q", name, reason, message, tc.want)
		}
	}
}
