package maintenance_test

import (
	"testing"
	"time"

	"k8s.io/utils/ptr"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/maintenance"
)

func account(w *v1alpha1.MaintenanceWindow) *v1alpha1.Account {
	a := &v1alpha1.Account{}
	a.Spec.Settings = &v1alpha1.AccountSettings{MaintenanceWindow: w}
	return a
}

func TestOpens(t *testing.T) {
	for name, c := range map[string]struct {
		day  v1alpha1.Weekday
		time string
		now  string
		want string // empty: it is open
	}{
		"before":                   {"Sunday", "02:00", "2026-11-22T01:59:59Z", "2026-11-22T02:00:00Z"},
		"at the beginning":         {"Sunday", "02:00", "2026-11-22T02:00:00Z", ""},
		"at the end":               {"Sunday", "02:00", "2026-11-22T02:59:59.9Z", ""},
		"after":                    {"Sunday", "02:00", "2026-11-22T03:00:00Z", "2026-11-29T02:00:00Z"},
		"days before":              {"Friday", "23:30", "2026-11-23T09:00:00Z", "2026-11-27T23:30:00Z"},
		"over midnight":            {"Friday", "23:30", "2026-11-28T00:29:00Z", ""},
		"over the end of the week": {"Saturday", "23:30", "2026-11-29T00:29:59Z", ""},
		"after that":               {"Saturday", "23:30", "2026-11-29T00:30:00Z", "2026-12-05T23:30:00Z"},
		"defaults":                 {"", "", "2026-11-23T09:00:00Z", "2026-11-29T02:00:00Z"},
		"another time zone":        {"Sunday", "02:00", "2026-11-22T03:30:00+01:00", ""},
		"before the reference":     {"Sunday", "02:00", "1999-12-31T12:00:00Z", "2000-01-02T02:00:00Z"},
	} {
		t.Run(name, func(t *testing.T) {
			w, err := maintenance.Of(account(&v1alpha1.MaintenanceWindow{Enabled: ptr.To(true), Day: c.day, Time: c.time}))
			if err != nil {
				t.Fatal(err)
			}
			now, err := time.Parse(time.RFC3339, c.now)
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if opens := w.Opens(now); !opens.IsZero() {
				got = opens.Format(time.RFC3339)
			}
			if got != c.want {
				t.Errorf("opens %q, want %q", got, c.want)
			}
		})
	}
}

func TestOf(t *testing.T) {
	for name, w := range map[string]*v1alpha1.MaintenanceWindow{
		"none": nil, "disabled": {Enabled: ptr.To(false), Day: "Monday"}, "not enabled": {Day: "Monday"},
	} {
		if got, err := maintenance.Of(account(w)); got != nil || err != nil {
			t.Errorf("%s: %v, error %v", name, got, err)
		}
	}
	if got, err := maintenance.Of(&v1alpha1.Account{}); got != nil || err != nil {
		t.Errorf("no settings: %v, error %v", got, err)
	}
	for field, w := range map[string]*v1alpha1.MaintenanceWindow{
		`spec.settings.maintenanceWindow.day: "Caturday"; allowed: Monday to Sunday`: {Enabled: ptr.To(true), Day: "Caturday"},
		`spec.settings.maintenanceWindow.time: "24:00"; allowed: HH:MM`:              {Enabled: ptr.To(true), Time: "24:00"},
	} {
		if _, err := maintenance.Of(account(w)); err == nil || err.Error() != field {
			t.Errorf("error %v, want %s", err, field)
		}
	}
}
