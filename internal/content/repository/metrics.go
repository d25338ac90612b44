package repository

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quoin-dev/quoin/internal/store"
)

var (
	repositoriesGauge = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "quoin_repositories",
		Help: "Git repositories in the content store.",
	})
	bytesGauge = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "quoin_repository_size_bytes",
		Help: "Size of the objects of all Git repositories in the content store.",
	})
	largestGauge = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "quoin_repository_largest_size_bytes",
		Help: "Size of the objects of the largest Git repository in the content store.",
	})
)

// Collectors returns the metrics of the repositories, which RunStatistics updates.
func Collectors() []prometheus.Collector {
	return []prometheus.Collector{repositoriesGauge, bytesGauge, largestGauge}
}

// RunStatistics updates the metrics at an interval until the context ends.
func RunStatistics(ctx context.Context, st *store.Store, interval time.Duration, log *slog.Logger) error {
	return store.Repeat(ctx, interval, log, "The sizes of Git repositories could not be read", func(ctx context.Context) error {
		var count, bytes, largest int64
		const query = "SELECT COUNT(*), COALESCE(CAST(SUM(bytes) AS BIGINT), 0), COALESCE(MAX(bytes), 0) FROM git_repository"
		if err := st.Reader().QueryRowContext(ctx, query).Scan(&count, &bytes, &largest); err != nil {
			return fmt.Errorf("read the sizes of repositories: %w", err)
		}
		repositoriesGauge.Set(float64(count))
		bytesGauge.Set(float64(bytes))
		largestGauge.Set(float64(largest))
		return nil
	})
}
