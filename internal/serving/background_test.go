package serving

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

func TestBackgroundOutlivesServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		serve, background := NewBackground(ctx)
		var steps []string
		background.Run("log", func(ctx context.Context) error {
			<-ctx.Done()
			steps = append(steps, "work ended")
			return ctx.Err()
		})
		stop()
		<-serve.Done()
		synctest.Wait()
		steps = append(steps, "answered")
		if err := background.End(nil); err != nil {
			t.Error(err)
		}
		if len(steps) != 2 || steps[0] != "answered" || steps[1] != "work ended" {
			t.Errorf("steps %q", steps)
		}
	})
}

func TestBackgroundReturnsErrorOfTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		serve, background := NewBackground(t.Context())
		broken := errors.New("broken")
		background.Run("cache", func(context.Context) error { return broken })
		background.Run("certificates", func(ctx context.Context) error { <-ctx.Done(); return errors.New("canceled") })
		<-serve.Done()
		if err := background.End(context.Canceled); !errors.Is(err, broken) || err.Error() != "cache: broken" {
			t.Errorf("%v", err)
		}
	})
}

func TestBackgroundReturnsErrorOfServer(t *testing.T) {
	_, background := NewBackground(t.Context())
	inUse := errors.New("address in use")
	if err := background.End(inUse); !errors.Is(err, inUse) {
		t.Error(err)
	}
}

func TestBackgroundEndTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, background := NewBackground(t.Context())
		release := make(chan struct{})
		background.Run("stuck", func(context.Context) error { <-release; return nil })
		if err := background.End(nil); err != nil {
			t.Error(err)
		}
		close(release)
	})
}
