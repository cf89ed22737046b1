package uncalled

// Keeper is code that keeps something for each key of a reconciler.
type Keeper struct{}
