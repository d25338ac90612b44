// Package maintenance computes the weekly maintenance windows of accounts.
package maintenance

import (
	"cmp"
	"fmt"
	"time"

	"k8s.io/utils/ptr"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

const (
	// Length of a window.
	Length = time.Hour
	// DefaultDay and DefaultTime are when a window begins for which the account has no day or time.
	DefaultDay  = v1alpha1.Weekday("Sunday")
	DefaultTime = "02:00"
)

const week = 7 * 24 * time.Hour

// reference is the beginning of a week that starts with Sunday, like time.Weekday.
var reference = time.Date(2023, 1, 1, 0, 0, 0, 0, time.UTC)

// Window is a weekly maintenance window.
type Window struct {
	// offset from the beginning of the week.
	offset time.Duration
}

// Of returns the window of an account; nil if it has none. The error names a field that the schema of the
// Account would have rejected.
func Of(account *v1alpha1.Account) (*Window, error) {
	settings := ptr.Deref(account.Spec.Settings, v1alpha1.AccountSettings{})
	w := settings.MaintenanceWindow
	if w == nil || !ptr.Deref(w.Enabled, false) {
		return nil, nil
	}
	at, err := time.Parse("15:04", cmp.Or(w.Time, DefaultTime))
	if err != nil {
		return nil, fmt.Errorf("spec.settings.maintenanceWindow.time: %q; allowed: HH:MM", w.Time)
	}
	offset := time.Duration(at.Hour())*time.Hour + time.Duration(at.Minute())*time.Minute
	for day := time.Sunday; day <= time.Saturday; day++ {
		if day.String() == string(cmp.Or(w.Day, DefaultDay)) {
			return &Window{offset: offset + time.Duration(day)*24*time.Hour}, nil
		}
	}
	return nil, fmt.Errorf("spec.settings.maintenanceWindow.day: %q; allowed: Monday to Sunday", w.Day)
}

// Opens returns the zero time if the window is open, and else when it begins next, in UTC.
func (w *Window) Opens(now time.Time) time.Time {
	since := (now.Sub(reference) - w.offset) % week
	if since < 0 {
		since += week
	}
	if since < Length {
		return time.Time{}
	}
	return now.Add(week - since).UTC()
}
