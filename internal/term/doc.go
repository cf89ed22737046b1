// Package term has what the packages leader and shard share, and what reconcilers learn from them: when a term
// began, and how much time has passed in it. The reconcilers know only the context.
package term
