package client

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"sync"

	"github.com/kubereflector/kubereflector/internal/wire/stream"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Reapply is [Resource.Apply], except that it sends no request if server-side apply would change
// nothing. held is the object of a cache, or nil if the cache has none. Reapply returns held if the last
// Reapply of this client to the same object, with the same field manager and subresource, was equal (the
// same bytes and options), and held is the state that the server answered.
//
// Reapply sends the request if anyone has written the object since, so that it also undoes what others
// changed; if the object was deleted and created again; if the last request failed or its answer was
// lost; and in the first call of a process. All views of a client share what they remember: hashes of
// the last answers for 8,192 to 16,384 objects, in at most 2 MiB.
//
// Do not change the object that Reapply returns: it may be held, which the cache and all its readers
// share.
func (r *Resource[T]) Reapply(ctx context.Context, held, object T, opts metav1.ApplyOptions, subresources ...string) (T, error) {
	if r == nil || stream.IsNil(object) || len(opts.DryRun) > 0 {
		return r.Apply(ctx, object, opts, subresources...)
	}
	data, err := r.encode(object)
	if err != nil {
		return *new(T), r.failed("apply", object.GetNamespace(), object.GetName(), err)
	}
	target := digest(cmp.Or(object.GetNamespace(), r.namespace), object.GetName(), opts.FieldManager, subresources)
	intent := digest(data, opts)
	if !stream.IsNil(held) && held.GetUID() != "" && held.GetResourceVersion() != "" && r.answers.has(target, answerOf(intent, held)) {
		return held, nil
	}
	// If no answer comes, the object may be in a state that neither held nor what is remembered shows.
	r.answers.remove(target)
	written, err := r.Apply(ctx, object, opts, subresources...)
	if err == nil {
		r.answers.add(target, answerOf(intent, written))
	}
	return written, err
}

// answers has, for each object, field manager and subresource, the last intent that was applied and the
// UID and version of the server's answer, as hashes. The maps have no pointers, so the garbage
// collector does not look into them.
type answers struct {
	mu sync.Mutex // protects the fields below
	// recent gets new answers, up to maxAnswers. It then replaces old.
	recent, old map[sum]sum
}

type sum = [sha256.Size]byte

const maxAnswers = 8 << 10

func (a *answers) has(target, answer sum) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	last, ok := a.recent[target]
	if !ok {
		last, ok = a.old[target]
	}
	if !ok || last != answer {
		return false
	}
	a.addLocked(target, answer) // it is in use
	return true
}

func (a *answers) remove(target sum) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.recent, target)
	delete(a.old, target)
}

func (a *answers) add(target, answer sum) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.addLocked(target, answer)
}

func (a *answers) addLocked(target, answer sum) {
	if a.recent == nil || len(a.recent) >= maxAnswers {
		a.old, a.recent = a.recent, map[sum]sum{}
	}
	a.recent[target] = answer
}

// answerOf identifies an intent and the one state of one object that it made.
func answerOf(intent sum, object metav1.Object) sum {
	return digest(intent[:], string(object.GetUID()), object.GetResourceVersion())
}

// digest is the hash of values that are distinct in JSON.
func digest(values ...any) sum {
	data, err := json.Marshal(values)
	if err != nil {
		panic(err) // strings, bytes and options have no errors
	}
	return sha256.Sum256(data)
}
