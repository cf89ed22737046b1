package write

import "context"

// The regression tests reach the package through this file alone.

// patchBucket makes one bucket of another one.
func patchBucket(ctx context.Context, client Patcher[*Bucket], held, want *Bucket) (*Bucket, error) {
	return Patch(ctx, client, held, want)
}
