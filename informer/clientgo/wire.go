package clientgo

import (
	"github.com/kubereflector/kubereflector/reflector"
	"k8s.io/client-go/tools/cache"
)

// FromClient is [NewSharedIndexInformerWithOptions] over a client of this module, such as one of
// client.ForType, which decodes the server's responses itself. It names the informer after
// ObjectDescription. A transform may edit its object: it gets a copy, because the objects of such a
// client share equal parts.
func FromClient[L any](client reflector.Client[Object, L], options cache.SharedIndexInformerOptions) cache.SharedIndexInformer {
	return newUntyped(client, &hooks[Object]{copies: true}, options.ObjectDescription, options)
}
