package faults

import (
	"context"
	"math/rand"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/kubereflector/kubereflector/contrib/controllerruntime"
	"github.com/kubereflector/kubereflector/controller/manager"
	"github.com/kubereflector/kubereflector/controller/reconcile"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/informer/clientgo/factory"
	"github.com/kubereflector/kubereflector/informer/scoped"
	"github.com/kubereflector/kubereflector/internal/e2e/network"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	crcache "sigs.k8s.io/controller-runtime/pkg/cache"
	crclient "sigs.k8s.io/controller-runtime/pkg/client"
)

var configMaps = corev1.SchemeGroupVersion.WithResource("configmaps")

// apps are the labels that the writers use. There are selectors of the first two.
var (
	apps     = []string{"a", "b", "c"}
	selected = apps[:2]
)

func labelled(value string) labels.Selector { return labels.SelectorFromSet(labels.Set{"app": value}) }

// objects are what the server has.
type objects map[store.Key]*corev1.ConfigMap

// reader is a cache, or a program with one, and its way to the servers.
type reader struct {
	name string
	line *network.Line
	// answer, if set, answers all requests instead of a server.
	answer atomic.Pointer[func() *http.Response]
	*history

	// covers reports whether the reader has an object. The default is all.
	covers func(*corev1.ConfigMap) bool
	// selects says that objects may stop to be covered: then they are deleted for subscribers, although they exist.
	selects bool
	// partial reports of which objects the events have only metadata; always of those whose content is partial.
	partial func(*corev1.ConfigMap) bool
	// metadata says that contents have only metadata.
	metadata bool
	// content returns what the reader has.
	content func(context.Context, objects) (map[store.Key]state, error)
	// get, if set, reads an object.
	get func(context.Context, store.Key) (*corev1.ConfigMap, error)
	// own, if set, adds or removes an owned selector.
	own func(bool)
}

// tap gives a client the answers of its reader.
type tap struct {
	*reader
	next http.RoundTripper
}

func (t tap) RoundTrip(request *http.Request) (*http.Response, error) {
	answer := t.answer.Load()
	if answer == nil {
		return t.next.RoundTrip(request)
	}
	response := (*answer)()
	response.Request = request
	return response, nil
}

// add adds a reader with a line of its own.
func (w *world) add(name string) (*reader, *rest.Config) {
	config := w.servers[0].Config()
	r := &reader{name: name, line: network.Listen(w.T, config, w.servers[1].Config()), history: newHistory()}
	r.covers = func(*corev1.ConfigMap) bool { return true }
	r.partial = func(*corev1.ConfigMap) bool { return r.metadata }
	config.Impersonate.UserName = user
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return tap{r, next} })
	w.readers = append(w.readers, r)
	return r, config
}

// run runs a part of a reader until the end of the test.
func (w *world) run(name string, run func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	w.Cleanup(func() {
		cancel()
		assert.NoError(w, <-ended, name)
	})
}

// watchErrors logs the errors of watches of client-go's interfaces.
func (w *world) watchErrors(r *reader) cache.WatchErrorHandlerWithContext {
	logger := w.logger(r.name)
	return func(_ context.Context, _ *cache.Reflector, err error) { logger.Warn("watch failed", zap.Error(err)) }
}

// held returns what a cache has.
func held[T metav1.Object](view *store.View[T]) func(context.Context, objects) (map[store.Key]state, error) {
	return func(context.Context, objects) (map[store.Key]state, error) {
		all := map[store.Key]state{}
		for key, object := range view.All() {
			all[key] = stateOf(object, false)
		}
		return all, nil
	}
}

func addInformer[T metav1.Object](w *world, r *reader, i *informer.Informer[T]) {
	i.Handle(follow[T](r.history))
	r.content = held(i.Cache())
	w.run(r.name, i.Run)
}

func typed(w *world, config *rest.Config, namespace string) *client.Resource[*corev1.ConfigMap] {
	resource, err := client.ForResource[*corev1.ConfigMap](config, configMaps, namespace)
	require.NoError(w, err)
	return resource
}

func addTyped(w *world) {
	r, config := w.add("typed")
	addInformer(w, r, informer.New(typed(w, config, ""), informer.WithLogger(w.logger(r.name))))
}

func addPages(w *world) {
	r, config := w.add("pages of a clientset")
	clientset, err := kubernetes.NewForConfig(config)
	require.NoError(w, err)
	addInformer(w, r, informer.New(clientset.CoreV1().ConfigMaps(""), informer.WithLogger(w.logger(r.name)), informer.WithReflector(reflector.WithoutWatchList(), reflector.WithPageSize(7))))
}

func addDynamic(w *world) {
	r, config := w.add("dynamic")
	clients, err := dynamic.NewForConfig(config)
	require.NoError(w, err)
	addInformer(w, r, informer.New(client.Dynamic(clients.Resource(configMaps)), informer.WithLogger(w.logger(r.name))))
}

func addMetadata(w *world) {
	r, config := w.add("metadata")
	r.metadata = true
	clients, err := metadata.NewForConfig(config)
	require.NoError(w, err)
	addInformer(w, r, informer.NewMetadata[corev1.ConfigMap](clients.Resource(configMaps), informer.WithLogger(w.logger(r.name))))
}

func addSelector(w *world) {
	r, config := w.add("selector")
	r.selects = true
	r.covers = func(o *corev1.ConfigMap) bool { return o.Labels["app"] == "a" }
	addInformer(w, r, informer.New(typed(w, config, ""), informer.WithLogger(w.logger(r.name)), informer.WithReflector(reflector.WithLabelSelector(labelled("a")))))
}

func addShard(w *world) {
	r, config := w.add("shard")
	shard := store.Shards(store.ByUID, 2)[1]
	r.covers = func(o *corev1.ConfigMap) bool { return shard.Contains(store.ShardHash(string(o.UID))) }
	addInformer(w, r, informer.New(typed(w, config, ""), informer.WithLogger(w.logger(r.name)), informer.WithReflector(reflector.WithShard(shard))))
}

func addNamespaces(w *world) {
	r, config := w.add("namespaces")
	r.covers = func(o *corev1.ConfigMap) bool { return slices.Contains(w.namespaces, o.Namespace) }
	scopes := scoped.New(store.ObjectKey[*corev1.ConfigMap], informer.WithLogger(w.logger(r.name)))
	for _, namespace := range w.namespaces {
		require.NoError(w, scoped.Add(scopes, store.Scope{Namespace: namespace}, typed(w, config, namespace)))
	}
	addInformer(w, r, scopes.Informer())
}

// addFactory adds an informer behind client-go's interfaces.
func addFactory(w *world) {
	r, config := w.add("factory")
	clientset, err := kubernetes.NewForConfig(config)
	require.NoError(w, err)
	informers := factory.NewSharedInformerFactory(clientset, 0)
	i := informers.Core().V1().ConfigMaps().Informer()
	require.NoError(w, i.SetWatchErrorHandlerWithContext(w.watchErrors(r)))
	_, err = i.AddEventHandler(followed(r.history))
	require.NoError(w, err)
	r.content = func(context.Context, objects) (map[store.Key]state, error) {
		all := map[store.Key]state{}
		for _, object := range i.GetStore().List() {
			all[keyOf(object.(metav1.Object))] = stateOf(object.(metav1.Object), false)
		}
		return all, nil
	}
	w.run(r.name, func(ctx context.Context) error {
		informers.StartWithContext(ctx)
		<-ctx.Done()
		informers.Shutdown()
		return nil
	})
}

// addReconciler adds a reconciler of the objects of a selector. Its calls count as events.
func addReconciler(w *world) {
	r, config := w.add("reconciler")
	r.covers = func(o *corev1.ConfigMap) bool { return o.Labels["app"] == "a" }
	m := manager.New(config, manager.WithLogger(w.logger(r.name)))
	i, err := manager.Informer[*corev1.ConfigMap](m, manager.Selection{Resource: configMaps, LabelSelector: "app=a"})
	require.NoError(w, err)
	manager.Reconcile(m, "faults", i, func(_ context.Context, key store.Key, object *corev1.ConfigMap) (reconcile.Result, error) {
		r.called(key, object)
		return reconcile.Result{}, nil
	}, reconcile.WithWorkers(2))
	cached := held(i.Cache())
	r.content = func(ctx context.Context, all objects) (map[store.Key]state, error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		for key := range r.shown {
			// The function is not called for an object that stopped matching, nor when it is deleted later.
			if object := all[key]; !steady(key.Name) && (object == nil || !r.covers(object)) {
				delete(r.shown, key)
			}
		}
		return cached(ctx, all)
	}
	w.run(r.name, m.Run)
}

// addByReference adds a cache by reference of a manager, with two owned selectors.
func addByReference(w *world) {
	r, config := w.add("by reference")
	r.partial = func(*corev1.ConfigMap) bool { return true }
	m := manager.New(config, manager.WithLogger(w.logger(r.name)))
	all := manager.Selection{Resource: configMaps}
	whole, metas, err := manager.ByReference[*corev1.ConfigMap](m, all, "app="+selected[0])
	require.NoError(w, err)
	second, err := manager.Informer[*corev1.ConfigMap](m, manager.Selection{Resource: configMaps, LabelSelector: "app=" + selected[1]})
	require.NoError(w, err)
	metas.Handle(follow[*metav1.PartialObjectMetadata](r.history))
	remove := whole.AddOwned(second.Cache())
	r.own = func(add bool) {
		if add {
			remove = whole.AddOwned(second.Cache())
		} else {
			remove()
		}
	}
	r.get = whole.Get
	r.content = r.byGets(nil)
	w.run(r.name, func(ctx context.Context) error { defer whole.Close(); return m.Run(ctx) })
	w.run(r.name, r.reads)
}

// addControllerRuntime adds a cache by reference of controller-runtime, with two owned selectors.
func addControllerRuntime(w *world) {
	r, config := w.add("controller-runtime by reference")
	r.partial = func(o *corev1.ConfigMap) bool { return !slices.Contains(selected, o.Labels["app"]) }
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("ConfigMap"), meta.RESTScopeNamespace)
	var owned controllerruntime.OwnedSelectors
	second := labelled(selected[1])
	require.NoError(w, owned.Add(second))
	r.own = func(add bool) {
		if add {
			assert.NoError(w, owned.Add(second))
		} else {
			owned.Remove(second)
		}
	}
	c, err := controllerruntime.Options{ByReference: map[crclient.Object]controllerruntime.Reference{
		&corev1.ConfigMap{}: {Owned: labelled(selected[0]), Selectors: &owned, MaxObjects: 10},
	}}.NewCache(config, crcache.Options{Mapper: mapper, DefaultWatchErrorHandler: w.watchErrors(r)})
	require.NoError(w, err)
	i, err := c.GetInformer(w.Context(), &corev1.ConfigMap{}, crcache.BlockUntilSynced(false))
	require.NoError(w, err)
	_, err = i.AddEventHandler(followed(r.history))
	require.NoError(w, err)
	r.get = func(ctx context.Context, key store.Key) (*corev1.ConfigMap, error) {
		object := &corev1.ConfigMap{}
		return object, c.Get(ctx, crclient.ObjectKey{Namespace: key.Namespace, Name: key.Name}, object)
	}
	r.content = r.byGets(func(ctx context.Context, app string) ([]corev1.ConfigMap, error) {
		var list corev1.ConfigMapList
		return list.Items, c.List(ctx, &list, crclient.MatchingLabels{"app": app})
	})
	w.run(r.name, c.Start)
	w.run(r.name, r.reads)
}

// byGets reads all objects by themselves. Lists of owned ones, if there are any, must have the same objects.
func (r *reader) byGets(list func(ctx context.Context, app string) ([]corev1.ConfigMap, error)) func(context.Context, objects) (map[store.Key]state, error) {
	return func(ctx context.Context, all objects) (map[store.Key]state, error) {
		got := map[store.Key]state{}
		for key := range all {
			object, err := r.get(ctx, key)
			switch {
			case apierrors.IsNotFound(err):
			case err != nil:
				return nil, err
			default:
				got[key] = stateOf(object, false)
			}
		}
		if list == nil {
			return got, nil
		}
		for _, app := range selected {
			owned, err := list(ctx, app)
			if err != nil {
				return nil, err
			}
			listed := map[store.Key]state{}
			for i := range owned {
				listed[keyOf(&owned[i])] = stateOf(&owned[i], false)
			}
			for key, object := range all {
				if _, is := listed[key]; object.Labels["app"] == app && !is {
					got[key] = state{content: "is not in the list"}
				}
			}
			for key, is := range listed {
				if got[key] != is {
					got[key] = state{is.uid, is.version, "in the list: " + is.content}
				}
			}
		}
		return got, nil
	}
}

// reads reads objects all the time.
func (r *reader) reads(ctx context.Context) error {
	random := rand.New(rand.NewSource(1))
	for ctx.Err() == nil {
		if keys := r.keys(); len(keys) > 0 {
			one, cancel := context.WithTimeout(ctx, 5*time.Second)
			if object, err := r.get(one, keys[random.Intn(len(keys))]); err == nil {
				r.got(object)
			}
			cancel()
		}
		pause(ctx, 5*time.Millisecond)
	}
	return nil
}
