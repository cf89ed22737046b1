package storebench

import (
	"errors"
	"fmt"
	"iter"

	"github.com/kubereflector/kubereflector/store"
	"github.com/kubereflector/kubereflector/store/decorate"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
)

// subject is a cache that is measured. Calls of short work do it many times, so that the call through
// the interface costs nothing that counts. Reads return how many pods they saw, which the caller
// checks: a cache that finds nothing is fast.
type subject interface {
	// read looks up pods one by one.
	read(names []name) int
	len() int
	// walk reads all pods.
	walk() int
	// walkKeys reads all pods with their keys.
	walkKeys() int
	// walkNodes reads the pods of one node after the other.
	walkNodes(nodes []string) int

	update(pod *corev1.Pod) error
	// look is a reader that wants one state for many reads.
	look()
	// updateAtOnce stores pods in one commit.
	updateAtOnce(pods []*corev1.Pod) error
	// holds reports whether an update arrived.
	holds(pod *corev1.Pod) bool
	// replace makes pods the content.
	replace(pods []*corev1.Pod, resourceVersion string) error
}

// name is what a caller knows of the pod that it wants.
type name struct{ namespace, name string }

func updateAll(s subject, pods []*corev1.Pod) error {
	for _, pod := range pods {
		if err := s.update(pod); err != nil {
			return err
		}
	}
	return nil
}

type ours struct {
	*store.Cache[*corev1.Pod]
	byNode *store.Index[string, *corev1.Pod]
}

func newPlainOurs() (subject, error) {
	return &ours{Cache: store.New(store.ObjectKey[*corev1.Pod])}, nil
}

func newOurs() (subject, error) {
	c := store.New(store.ObjectKey[*corev1.Pod])
	// Cache.Namespace needs no index. The peer needs this one, and both do the same work.
	_, err := store.AddIndex(c, "namespace", func(pod *corev1.Pod) []string { return []string{pod.Namespace} })
	if err != nil {
		return nil, err
	}
	byNode, err := store.AddIndex(c, "node", func(pod *corev1.Pod) []string { return []string{pod.Spec.NodeName} })
	return &ours{c, byNode}, err
}

func (o *ours) read(names []name) (found int) {
	for _, n := range names {
		if pod, ok := o.Get(store.Key{Namespace: n.namespace, Name: n.name}); ok && pod != nil {
			found++
		}
	}
	return found
}

func count(pods iter.Seq2[store.Key, *corev1.Pod]) (found int) {
	for _, pod := range pods {
		if pod != nil {
			found++
		}
	}
	return found
}

func (o *ours) len() int  { return o.Len() }
func (o *ours) walk() int { return count(o.All()) }

func (o *ours) walkKeys() (found int) {
	for key, pod := range o.All() {
		if pod != nil && key.Name != "" {
			found++
		}
	}
	return found
}

func (o *ours) walkNodes(nodes []string) (found int) {
	for _, node := range nodes {
		found += count(o.byNode.Get(node))
	}
	return found
}

func (o *ours) update(pod *corev1.Pod) error { return o.Update(pod) }
func (o *ours) look()                        { o.Snapshot() }

// updateAtOnce makes the batch in the measured time.
func (o *ours) updateAtOnce(pods []*corev1.Pod) error {
	batch, _ := decorate.BeginWatch[*corev1.Pod](o.Cache)
	for _, pod := range pods {
		if err := batch.Write(store.Write[*corev1.Pod]{Type: store.Modification, Object: pod}); err != nil {
			return err
		}
	}
	return batch.Commit("")
}

func (o *ours) holds(pod *corev1.Pod) bool {
	held, _ := o.Get(store.Key{Namespace: pod.Namespace, Name: pod.Name})
	return held == pod
}

func (o *ours) replace(pods []*corev1.Pod, resourceVersion string) error {
	return o.Replace(pods, resourceVersion)
}

// peer is the indexer as client-go's informers make it: MetaNamespaceKeyFunc, and the namespace index
// that generated listers need.
type peer struct{ cache.Indexer }

const byNode = "node"

func newPlainPeer() (subject, error) {
	return peer{cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})}, nil
}

func newPeer() (subject, error) {
	return peer{cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{
		cache.NamespaceIndex: cache.MetaNamespaceIndexFunc,
		byNode: func(object any) ([]string, error) {
			pod, ok := object.(*corev1.Pod)
			if !ok {
				return nil, errors.New("not a pod")
			}
			return []string{pod.Spec.NodeName}, nil
		},
	})}, nil
}

func (p peer) read(names []name) (found int) {
	for _, n := range names {
		object, exists, err := p.GetByKey(n.namespace + "/" + n.name)
		if err != nil || !exists {
			continue
		}
		if pod, ok := object.(*corev1.Pod); ok && pod != nil {
			found++
		}
	}
	return found
}

func countAny(objects []any) (found int) {
	for _, object := range objects {
		if pod, ok := object.(*corev1.Pod); ok && pod != nil {
			found++
		}
	}
	return found
}

func (p peer) len() int  { return len(p.ListKeys()) }
func (p peer) walk() int { return countAny(p.List()) }

// walkKeys makes the key of each object with client-go's function that allocates nothing.
func (p peer) walkKeys() (found int) {
	for _, object := range p.List() {
		if pod, ok := object.(*corev1.Pod); ok && cache.MetaObjectToName(pod).Name != "" {
			found++
		}
	}
	return found
}

func (p peer) walkNodes(nodes []string) (found int) {
	for _, node := range nodes {
		objects, err := p.ByIndex(byNode, node)
		if err != nil {
			return 0
		}
		found += countAny(objects)
	}
	return found
}

func (p peer) update(pod *corev1.Pod) error { return p.Update(pod) }

// look does nothing: readers of the indexer need no snapshot, and cannot have one.
func (peer) look() {}

// updateAtOnce makes one transaction, as client-go's informers do with the events that their queue
// returns at once.
func (p peer) updateAtOnce(pods []*corev1.Pod) error {
	store, ok := p.Indexer.(cache.TransactionStore)
	if !ok {
		return errors.New("the indexer has no transactions")
	}
	transactions := make([]cache.Transaction, 0, len(pods))
	for _, pod := range pods {
		transactions = append(transactions, cache.Transaction{Object: pod, Type: cache.TransactionTypeUpdate})
	}
	if err := store.Transaction(transactions...); err != nil { // a nil *TransactionError is no nil error
		return err
	}
	return nil
}

func (p peer) holds(pod *corev1.Pod) bool {
	held, exists, err := p.Get(pod)
	return err == nil && exists && held == any(pod)
}

func (p peer) replace(pods []*corev1.Pod, resourceVersion string) error {
	objects := make([]any, 0, len(pods))
	for _, pod := range pods {
		objects = append(objects, pod)
	}
	return p.Replace(objects, resourceVersion)
}

// enough returns an error if a case saw fewer pods than it should have. The measurement is then not
// valid.
func enough(seen, want int) error {
	if seen < want {
		return fmt.Errorf("saw %d pods where there are %d", seen, want)
	}
	return nil
}
