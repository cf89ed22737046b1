package memorybench

import (
	"context"

	"github.com/kubereflector/kubereflector/store"
	"k8s.io/client-go/rest"
)

// contender is a store that is filled by a reflector.
type contender interface {
	// run fills the store until ctx ends.
	run(ctx context.Context) error
	// synced is closed when the store has been filled.
	synced() <-chan struct{}
	len() int
	// keys returns the keys of all objects. The strings of the keys share no memory with the
	// objects.
	keys() []store.Key
	// read reads objects by key, and returns how many of them are there.
	read(keys []store.Key) (found int)
	// walk reads all objects, and returns how many there are.
	walk() (found int)
}

// builder makes a contender for a server.
type builder func(config *rest.Config) (contender, error)

// contenders are all of them, by the names that the cases use.
var contenders = map[string]builder{
	"client-go": newPeer,

	"plain":     newPlain,     // each object as it was decoded
	"interned":  newInterned,  // equal parts are shared, as they are by default
	"stripped":  newStripped,  // and managed fields are left out
	"projected": newProjected, // a small struct for each object
	"compact":   newCompact,
	"persisted": newPersisted, // as interned, with all of it in a file as well
}
