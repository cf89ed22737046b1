package memorybench

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/kubereflector/kubereflector/contrib/compact"
	"github.com/kubereflector/kubereflector/contrib/persist"
	"github.com/kubereflector/kubereflector/informer/clientgo/factory"
	"github.com/kubereflector/kubereflector/internal/bench/measure"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/store"
	"github.com/kubereflector/kubereflector/store/decorate"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// contender is a store that a reflector fills.
type contender struct {
	run    func(ctx context.Context) error // fills the store until ctx ends
	synced func() <-chan struct{}          // closed when the store is filled
	flush  func() error                    // ends the filling of a store with a file
	// keys returns the keys of all objects. Their strings share no memory with the objects.
	keys func() []store.Key
	read func(store.Key) (found bool)
	walk func() (found int) // reads all objects
}

var contenders = map[string]func(*rest.Config) (*contender, error){
	"client-go": newPeer,
	"client-go-transformed": func(config *rest.Config) (*contender, error) {
		return indexed(config, informers.NewSharedInformerFactoryWithOptions, informers.WithTransform(withoutManagedFields))
	},
	"transformed": func(config *rest.Config) (*contender, error) {
		return indexed(config, factory.NewSharedInformerFactoryWithOptions, factory.WithTransform(withoutManagedFields))
	},

	"plain":    inCache(client.WithoutInterning()),     // each object as it was decoded
	"interned": inCache(),                              // objects share equal parts, as by default
	"stripped": inCache(client.WithoutManagedFields()), // interned, without managed fields
	"projected": func(config *rest.Config) (*contender, error) {
		c := store.New(store.ObjectKey[*row])
		rows := decorate.Transform(c, store.ObjectKey[*slim], func(s *slim) (*row, error) {
			return &row{s.Namespace, s.Name, s.Spec.NodeName, s.Status.PodIP, s.Status.Phase}, nil
		})
		return ours(config, rows, c, client.WithoutManagedFields())
	},
	"compact": func(config *rest.Config) (*contender, error) {
		s := compact.New(store.ObjectKey[*corev1.Pod])
		return ours(config, s, s)
	},
	"persisted": newPersisted, // interned, and in a file
}

// ours is a store behind a reflector of T, which reads S.
func ours[T reflector.Object, S interface{ GetName() string }](config *rest.Config, to store.Store[T], reader store.Reader[S], opts ...client.ResourceOption) (*contender, error) {
	resource, err := client.ForResource[T](config, corev1.SchemeGroupVersion.WithResource("pods"), "", opts...)
	if err != nil {
		return nil, err
	}
	r := reflector.New(resource, to)
	return &contender{
		run: r.Run, synced: r.Synced,
		keys: func() (keys []store.Key) {
			for key := range reader.All() {
				keys = append(keys, store.Key{Namespace: strings.Clone(key.Namespace), Name: strings.Clone(key.Name)})
			}
			return keys
		},
		read: func(key store.Key) bool {
			object, ok := reader.Get(key)
			return ok && object.GetName() == key.Name
		},
		walk: func() (found int) {
			for _, object := range reader.All() {
				if object.GetName() != "" {
					found++
				}
			}
			return found
		},
	}, nil
}

func inCache(opts ...client.ResourceOption) func(*rest.Config) (*contender, error) {
	return func(config *rest.Config) (*contender, error) {
		c := store.New(store.ObjectKey[*corev1.Pod])
		return ours(config, c, c, opts...)
	}
}

// slim names the fields that are decoded, besides the metadata.
type slim struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		NodeName string `json:"nodeName"`
	} `json:"spec"`
	Status struct {
		Phase corev1.PodPhase `json:"phase"`
		PodIP string          `json:"podIP"`
	} `json:"status"`
}

// row is the part of a pod that a program keeps to know the pod's node.
type row struct {
	Namespace, Name, Node, IP string
	Phase                     corev1.PodPhase
}

func (r *row) GetNamespace() string { return r.Namespace }
func (r *row) GetName() string      { return r.Name }

func newPersisted(config *rest.Config) (*contender, error) {
	folder, err := os.MkdirTemp("", "memorybench")
	if err != nil {
		return nil, err
	}
	s, err := persist.Open(filepath.Join(folder, "pods"), store.ObjectKey[*corev1.Pod], persist.Options[*corev1.Pod]{})
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(folder))
	}
	c, err := ours(config, s, s)
	if err != nil {
		return nil, errors.Join(err, s.Close(), os.RemoveAll(folder))
	}
	run := c.run
	c.run = func(ctx context.Context) error { return errors.Join(run(ctx), s.Close(), os.RemoveAll(folder)) }
	c.flush = s.Flush
	return c, nil
}

// withoutManagedFields is a transform as many programs have it.
func withoutManagedFields(object any) (any, error) {
	if o, err := meta.Accessor(object); err == nil {
		o.SetManagedFields(nil)
	}
	return object, nil
}

func newPeer(config *rest.Config) (*contender, error) {
	return indexed(config, informers.NewSharedInformerFactoryWithOptions)
}

// indexed is the indexer of a factory's informer, with the index that generated listers need.
func indexed[O any](config *rest.Config, factory func(kubernetes.Interface, time.Duration, ...O) informers.SharedInformerFactory, opts ...O) (*contender, error) {
	config.ContentType = "application/vnd.kubernetes.protobuf"
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	informer := factory(clientset, 0, opts...).Core().V1().Pods().Informer()
	indexer := informer.GetIndexer()
	return &contender{
		run: func(ctx context.Context) error {
			informer.RunWithContext(ctx)
			return nil
		},
		synced: informer.HasSyncedChecker().Done,
		keys: func() (keys []store.Key) {
			for _, key := range indexer.ListKeys() {
				namespace, name, _ := strings.Cut(strings.Clone(key), "/")
				keys = append(keys, store.Key{Namespace: namespace, Name: name})
			}
			return keys
		},
		read: func(key store.Key) bool {
			object, ok, err := indexer.GetByKey(key.Namespace + "/" + key.Name)
			if err != nil || !ok {
				return false
			}
			pod, ok := object.(*corev1.Pod)
			return ok && pod.Name == key.Name
		},
		walk: func() (found int) {
			for _, object := range indexer.List() {
				if pod, ok := object.(*corev1.Pod); ok && pod.Name != "" {
					found++
				}
			}
			return found
		},
	}, nil
}

// filled waits until a running store is filled.
func (c *contender) filled(running *measure.Running) error {
	if _, err := measure.Wait(running, c.synced()); err != nil || c.flush == nil {
		return err
	}
	return c.flush()
}
