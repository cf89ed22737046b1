package memorybench

import (
	"context"
	"strings"

	"github.com/kubereflector/kubereflector/store"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// peer is the indexer of an informer of client-go's, with the index that generated listers need.
type peer struct {
	informer cache.SharedIndexInformer
	filled   chan struct{}
}

func newPeer(config *rest.Config) (contender, error) {
	config.ContentType = "application/vnd.kubernetes.protobuf"
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return &peer{v1.NewPodInformer(clientset, "", 0, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}), make(chan struct{})}, nil
}

func (p *peer) run(ctx context.Context) error {
	synced := make(chan struct{})
	go func() {
		defer close(synced)
		if cache.WaitForCacheSync(ctx.Done(), p.informer.HasSynced) {
			close(p.filled)
		}
	}()
	p.informer.RunWithContext(ctx)
	<-synced
	return nil
}

func (p *peer) synced() <-chan struct{} { return p.filled }

func (p *peer) len() int { return len(p.informer.GetIndexer().ListKeys()) }

func (p *peer) keys() (keys []store.Key) {
	for _, key := range p.informer.GetIndexer().ListKeys() {
		namespace, name, _ := strings.Cut(strings.Clone(key), "/")
		keys = append(keys, store.Key{Namespace: namespace, Name: name})
	}
	return keys
}

func (p *peer) read(keys []store.Key) (found int) {
	for _, key := range keys {
		object, ok, err := p.informer.GetIndexer().GetByKey(key.Namespace + "/" + key.Name)
		if err != nil || !ok {
			continue
		}
		if pod, ok := object.(*corev1.Pod); ok && pod.Name == key.Name {
			found++
		}
	}
	return found
}

func (p *peer) walk() (found int) {
	for _, object := range p.informer.GetIndexer().List() {
		if pod, ok := object.(*corev1.Pod); ok && pod.Name != "" {
			found++
		}
	}
	return found
}
