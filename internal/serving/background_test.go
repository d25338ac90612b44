package serving

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

func TestBackgroundOutlivesServing(t *testing.T) {
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

func TestBackgroundSaysWhatEndedTheServing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		serve, background := NewBackground(t.Context())
		broken := errors.New("broken")
		background.Run("cache", func(context.Context) error { return broken })
		background.Run("certificates", func(ctx context.Context) error { <-ctx.Done(); return errors.New("a consequence") })
		<-serve.Done()
		if err := background.End(context.Canceled); !errors.Is(err, broken) || err.Error() != "cache: broken" {
			t.Errorf("%v", err)
		}
	})
}

func TestBackgroundPassesOnWhatServingSays(t *testing.T) {
	_, background := NewBackground(t.Context())
	refused := errors.New("address in use")
	if err := background.End(refused); !errors.Is(err, refused) {
		t.Error(err)
	}
}

func TestBackgroundDoesNotWaitForever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, background := NewBackground(t.Context())
		release := make(chan struct{})
		background.Run("deaf", func(context.Context) error { <-release; return nil })
		if err := background.End(nil); err != nil {
			t.Error(err)
		}
		close(release)
	})
}
