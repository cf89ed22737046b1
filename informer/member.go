package informer

import "context"

// Member is a part of a program: an [Informer] of any type, a reconciler, or your own type. Package
// manager runs members.
type Member interface {
	// Run works until ctx ends, and then returns nil if it did not fail.
	Run(ctx context.Context) error
	// WaitForSync waits until the member is synced. Otherwise its error says why.
	WaitForSync(ctx context.Context) error
	// Ready returns nil, or the reason why a program cannot rely on the member now.
	Ready() error
}

var _ Member = (*Informer[any])(nil)
