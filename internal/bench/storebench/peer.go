package storebench

import (
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
)

// peer is the indexer as client-go's informers make it: MetaNamespaceKeyFunc, and the namespace index that generated listers need.
type peer struct{ indexer cache.Indexer }

const byNode = "node"

func newPlainPeer() (subject, error) {
	return &peer{indexer: cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})}, nil
}

func newPeer() (subject, error) {
	return &peer{indexer: cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{
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

func (p *peer) read(names []name) (found int) {
	for _, n := range names {
		object, exists, err := p.indexer.GetByKey(n.namespace + "/" + n.name)
		if err != nil || !exists {
			continue
		}
		if pod, ok := object.(*corev1.Pod); ok && pod != nil {
			found++
		}
	}
	return found
}

func (p *peer) len() int { return len(p.indexer.ListKeys()) }

func (p *peer) walk() (found int) {
	for _, object := range p.indexer.List() {
		if pod, ok := object.(*corev1.Pod); ok && pod != nil {
			found++
		}
	}
	return found
}

// walkKeys makes the key of each object with client-go's function that allocates nothing.
func (p *peer) walkKeys() (found int) {
	for _, object := range p.indexer.List() {
		if pod, ok := object.(*corev1.Pod); ok && cache.MetaObjectToName(pod).Name != "" {
			found++
		}
	}
	return found
}

func (p *peer) walkNodes(nodes []string) (found int) {
	for _, node := range nodes {
		objects, err := p.indexer.ByIndex(byNode, node)
		if err != nil {
			continue
		}
		for _, object := range objects {
			if pod, ok := object.(*corev1.Pod); ok && pod != nil {
				found++
			}
		}
	}
	return found
}

// walkSlowly rests where callers of List can: behind it. List copies all pods under the indexer's read lock and returns, so the writer waits for the
// copy and not for the rest of the walk. There is no way of reading the indexer that holds its lock while the caller looks at the pods.
func (p *peer) walkSlowly(rest func()) (found int) {
	for _, object := range p.indexer.List() {
		rest()
		if pod, ok := object.(*corev1.Pod); ok && pod != nil {
			found++
		}
	}
	return found
}

func (p *peer) update(pods []*corev1.Pod) error {
	for _, pod := range pods {
		if err := p.indexer.Update(pod); err != nil {
			return err
		}
	}
	return nil
}

// updateAndLook is update: readers of the indexer need no snapshot, and cannot have one.
func (p *peer) updateAndLook(pods []*corev1.Pod) error { return p.update(pods) }

// updateAtOnce goes the way of client-go's informers: they make one transaction of what their queue hands them at once.
func (p *peer) updateAtOnce(pods []*corev1.Pod) error {
	store, ok := p.indexer.(cache.TransactionStore)
	if !ok {
		return errors.New("the indexer has no transactions")
	}
	transactions := make([]cache.Transaction, 0, len(pods))
	for _, pod := range pods {
		transactions = append(transactions, cache.Transaction{Object: pod, Type: cache.TransactionTypeUpdate})
	}
	// Not returned as it is: a nil *TransactionError would be an error that is not nil.
	if err := store.Transaction(transactions...); err != nil {
		return err
	}
	return nil
}

func (p *peer) holds(pod *corev1.Pod) bool {
	held, exists, err := p.indexer.Get(pod)
	return err == nil && exists && held == any(pod)
}

func (p *peer) replace(pods []*corev1.Pod, resourceVersion string) error {
	objects := make([]any, 0, len(pods))
	for _, pod := range pods {
		objects = append(objects, pod)
	}
	return p.indexer.Replace(objects, resourceVersion)
}
