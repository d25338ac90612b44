package agents

import (
	"context"
	"crypto/sha256"
	"fmt"
	"iter"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/internal/agent/model"
	"github.com/quoin-dev/quoin/internal/agent/model/provider"
	"github.com/quoin-dev/quoin/internal/turns"
)

const (
	// secretsFor is how long the Secrets of an endpoint are not read again.
	secretsFor = 10 * time.Second
	// maxModels is the number of endpoints whose models are kept.
	maxModels = 1000
)

// models are the models of endpoints. Requests to an endpoint share one, because it counts the requests in progress.
type models struct {
	mu  sync.Mutex
	all map[types.UID]*endpointModel
}

// endpointModel is the model of an endpoint.
type endpointModel struct {
	model.Model
	// config is what the model was made of, as a hash.
	config [sha256.Size]byte
	// read is when the Secrets were read, and generation that of the endpoint then.
	read       time.Time
	generation int64
}

// ofAccount is a model for requests of an account, by its namespace.
type ofAccount struct {
	model.Model
	account string
}

// Stream implements model.Model.
func (m ofAccount) Stream(ctx context.Context, in *model.Request) iter.Seq2[model.Event, error] {
	return m.Model.Stream(turns.WithAccount(ctx, m.account), in)
}

// model returns the model of an endpoint.
func (s *Service) model(ctx context.Context, e *v1alpha1.ModelEndpoint) (model.Model, error) {
	s.models.mu.Lock()
	known := s.models.all[e.UID]
	s.models.mu.Unlock()
	if known != nil && known.generation == e.Generation && s.Clock.Since(known.read) < secretsFor {
		return known, nil
	}
	config, err := s.config(ctx, e)
	if err != nil {
		return nil, err
	}
	s.models.mu.Lock()
	defer s.models.mu.Unlock()
	next := &endpointModel{config: hashOf(&config), read: s.Clock.Now(), generation: e.Generation}
	if known = s.models.all[e.UID]; known != nil && known.config == next.config {
		next.Model = known.Model
	} else if next.Model, err = provider.New(config); err != nil {
		return nil, rest.Unavailable("the model endpoint %q cannot be used: %v", e.Name, err)
	}
	if len(s.models.all) >= maxModels || s.models.all == nil {
		s.models.all = map[types.UID]*endpointModel{} // those in use are made again
	}
	s.models.all[e.UID] = next
	return next, nil
}

// config returns the configuration of the model of an endpoint.
func (s *Service) config(ctx context.Context, e *v1alpha1.ModelEndpoint) (provider.Config, error) {
	limits := ptr.Deref(e.Spec.Limits, v1alpha1.ModelLimits{})
	c := provider.Config{
		Protocol: provider.Protocol(e.Spec.Protocol), BaseURL: string(e.Spec.BaseURL), Model: e.Spec.Model, ToolCalls: provider.ToolCalls(e.Spec.ToolCalls),
		MaxConcurrent: int(ptr.Deref(limits.MaxConcurrentRequests, v1alpha1.DefaultModelMaxConcurrentRequests)),
		Timeout:       time.Duration(ptr.Deref(limits.RequestTimeoutSeconds, v1alpha1.DefaultModelRequestTimeoutSeconds)) * time.Second,
	}
	key, err := s.secret(ctx, e, e.Spec.APIKeySecretRef)
	if err != nil {
		return c, err
	}
	c.APIKey = string(key)
	c.CA, err = s.secret(ctx, e, e.Spec.CASecretRef)
	return c, err
}

// secret returns a value of a Secret in Quoin's namespace; nil without a reference.
func (s *Service) secret(ctx context.Context, e *v1alpha1.ModelEndpoint, ref *v1alpha1.SecretKeyReference) ([]byte, error) {
	if ref == nil {
		return nil, nil
	}
	stored := &corev1.Secret{}
	if err := s.Live.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: ref.Name}, stored); err != nil {
		log.FromContext(ctx).Error(err, "A Secret of a model endpoint cannot be read", "modelEndpoint", e.Name)
		return nil, rest.Unavailable("the model endpoint %q has no credentials: its Secret cannot be read", e.Name)
	}
	value := stored.Data[ref.Key]
	if len(value) == 0 {
		return nil, rest.Unavailable("the model endpoint %q has no credentials: its Secret does not have the key", e.Name)
	}
	return value, nil
}

// hashOf returns a hash of a configuration.
func hashOf(c *provider.Config) (sum [sha256.Size]byte) {
	return sha256.Sum256(fmt.Appendf(nil, "%q", []string{
		string(c.Protocol), c.BaseURL, c.Model, c.APIKey, string(c.CA), string(c.ToolCalls), fmt.Sprint(c.MaxConcurrent), c.Timeout.String(),
	}))
}
