package turns

import "context"

type accountKey struct{}

// WithAccount returns a context for work of an account, which takes turns with that of others.
func WithAccount(ctx context.Context, account string) context.Context {
	return context.WithValue(ctx, accountKey{}, account)
}

// Account returns the account of a context; empty if there is none.
func Account(ctx context.Context) string {
	account, _ := ctx.Value(accountKey{}).(string)
	return account
}
