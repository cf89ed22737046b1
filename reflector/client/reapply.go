package client

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"sync"

	"github.com/kubereflector/kubereflector/reflector/internal/source"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Reapply is [Resource.Apply], except that it sends no request if server-side apply would change
// nothing. held is the object of a cache, or nil if the cache has none. If held is the state that the
// server answered to the last equal Reapply of this client, Reapply returns held. Equal means the same
// bytes, field manager, options and subresource.
//
// Reapply sends the request if anyone has written the object since, so that it also undoes what others
// changed; if the object was deleted and created again; and in the first call of a process. All views
// of a client share what they remember: the hashes of the last 8,192 to 16,384 answers, in at most
// 2 MiB.
//
// Do not change the object that Reapply returns: it may be held, which the cache and all its readers
// share.
func (r *Resource[T]) Reapply(ctx context.Context, held, object T, opts metav1.ApplyOptions, subresources ...string) (T, error) {
	if r == nil || source.IsNil(object) || len(opts.DryRun) > 0 {
		return r.Apply(ctx, object, opts, subresources...)
	}
	wanted, err := r.intent(object, opts, subresources)
	if err != nil {
		return *new(T), r.failed("apply", object.GetNamespace(), object.GetName(), err)
	}
	if !source.IsNil(held) && held.GetUID() != "" && held.GetResourceVersion() != "" && r.answers.has(wanted, held) {
		return held, nil
	}
	written, err := r.Apply(ctx, object, opts, subresources...)
	if err == nil {
		r.answers.add(wanted, written)
	}
	return written, err
}

// intent returns the hash of everything that an Apply sends.
func (r *Resource[T]) intent(object T, opts metav1.ApplyOptions, subresources []string) (sum [sha256.Size]byte, err error) {
	data, err := r.encode(object)
	if err != nil {
		return sum, err
	}
	all, err := json.Marshal([]any{r.namespace, object.GetNamespace(), object.GetName(), data, opts, subresources})
	return sha256.Sum256(all), err
}

// answers has, for each applied intent, the UID and version of the server's answer, as hashes. The maps
// have no pointers, so the garbage collector does not look into them.
type answers struct {
	mu sync.Mutex // protects the fields below
	// recent gets new answers, up to maxAnswers. It then replaces old.
	recent, old map[[sha256.Size]byte][sha256.Size]byte
}

const maxAnswers = 8 << 10

func (a *answers) has(intent [sha256.Size]byte, held metav1.Object) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	version, ok := a.recent[intent]
	if !ok {
		version, ok = a.old[intent]
	}
	if !ok || version != versionOf(held) {
		return false
	}
	a.addLocked(intent, version) // it is in use
	return true
}

func (a *answers) add(intent [sha256.Size]byte, written metav1.Object) {
	version := versionOf(written)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.addLocked(intent, version)
}

func (a *answers) addLocked(intent, version [sha256.Size]byte) {
	if a.recent == nil || len(a.recent) >= maxAnswers {
		a.old, a.recent = a.recent, map[[sha256.Size]byte][sha256.Size]byte{}
	}
	a.recent[intent] = version
}

// versionOf identifies one state of one object.
func versionOf(object metav1.Object) [sha256.Size]byte {
	return sha256.Sum256([]byte(string(object.GetUID()) + "/" + object.GetResourceVersion()))
}
