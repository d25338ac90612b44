package auth

import "context"

// again authenticates the caller of a request once more.
type again func(context.Context) (*Principal, error)

type againKey struct{}

// WithAgain returns a context in which Again calls a function.
func WithAgain(ctx context.Context, authenticate func(context.Context) (*Principal, error)) context.Context {
	return context.WithValue(ctx, againKey{}, again(authenticate))
}

// Again returns the caller of a request as it is now, for requests that take minutes: the error is that of
// Authenticator.Authenticate if the credential is no longer valid. It is the same principal if the request was not authenticated
// here, but by the Kubernetes API server.
func Again(ctx context.Context) (*Principal, error) {
	if authenticate, ok := ctx.Value(againKey{}).(again); ok {
		return authenticate(ctx)
	}
	return From(ctx), nil
}
