package referencebench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/kubereflector/kubereflector/contrib/controllerruntime"
	"github.com/kubereflector/kubereflector/internal/bench/measure"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	crcache "sigs.k8s.io/controller-runtime/pkg/cache"
	crclient "sigs.k8s.io/controller-runtime/pkg/client"
)

var measureInProcess = measure.InProcess("reference", measureContender)

var contenders = map[string]crcache.NewCacheFunc{
	"controller-runtime": crcache.New,
	"by-reference": controllerruntime.Options{ByReference: map[crclient.Object]controllerruntime.Reference{
		&corev1.Secret{}: {Owned: labels.SelectorFromSet(labels.Set{ownedBy: "true"})},
	}}.NewCache,
}

// patience is for what takes milliseconds, but on a busy machine.
const patience = time.Minute

func measureContender(a assignment) (f measure.Figures, err error) {
	newCache, ok := contenders[a.Contender]
	if !ok {
		return nil, fmt.Errorf("there is no contender %q", a.Contender)
	}
	empty := measure.PeakRSS()
	config := &rest.Config{Host: a.Host, QPS: -1}
	mapper := meta.NewDefaultRESTMapper(nil) // the default mapper would ask the server for its resources
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Secret"), meta.RESTScopeNamespace)
	cache, err := newCache(config, crcache.Options{Mapper: mapper})
	if err != nil {
		return nil, err
	}
	running := measure.Start(cache.Start)
	defer func() { err = errors.Join(err, running.Close()) }()
	ctx := context.Background()
	o := &operator{assignment: a, cache: cache, seen: map[string]string{}, changed: make(chan struct{}, 1)}
	f = measure.Figures{}
	if err := f.Phase(a.Profiles, "start", 1, func() error { return o.start(ctx) }); err != nil {
		return nil, fmt.Errorf("start: %w", err)
	}
	peak := measure.PeakRSS()
	f["peak-rss"], f["peak-rss-of-cache"], f["live-heap"] = peak/1e6, (peak-empty)/1e6, float64(measure.LiveHeap())/1e6
	f["start-cpu"] = f["start/cpu"] / 1000
	if err := a.Profiles.Heap("start"); err != nil {
		return nil, err
	}
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	missed, err := o.change(ctx, clientset.CoreV1().Secrets(namespace))
	f["events-missed"] = float64(missed)
	return f, err
}

// operator owns some Secrets and reads others.
type operator struct {
	assignment
	cache   crcache.Cache
	changed chan struct{} // has a value when seen has changed

	mu   sync.Mutex
	seen map[string]string // resource versions by name, "" for deleted Secrets
}

// start fills the cache and reads the Secrets that the operator uses.
func (o *operator) start(ctx context.Context) error {
	informer, err := o.cache.GetInformer(ctx, &corev1.Secret{})
	if err != nil {
		return err
	}
	see := func(object any, version string) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.seen[object.(metav1.Object).GetName()] = version
		select {
		case o.changed <- struct{}{}:
		default:
		}
	}
	registration, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { see(object, object.(metav1.Object).GetResourceVersion()) },
		UpdateFunc: func(_, object any) { see(object, object.(metav1.Object).GetResourceVersion()) },
		DeleteFunc: func(object any) {
			if unknown, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
				object = unknown.Obj
			}
			see(object, "")
		},
	})
	if err != nil {
		return err
	}
	if !toolscache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
		return ctx.Err()
	}
	for i := range 2 * used {
		secret, err := o.get(ctx, i)
		if err != nil {
			return err
		}
		if len(secret.Data["data"]) != o.Bytes {
			return fmt.Errorf("%s has %d bytes, want %d", name(i), len(secret.Data["data"]), o.Bytes)
		}
	}
	return nil
}

func (o *operator) get(ctx context.Context, i int) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	return secret, o.cache.Get(ctx, crclient.ObjectKey{Namespace: namespace, Name: name(i)}, secret)
}

// change changes, creates and deletes Secrets, and returns how many of the last states are missed.
func (o *operator) change(ctx context.Context, secrets typedcorev1.SecretInterface) (missed int, err error) {
	want := map[string]string{}
	for round := range 3 {
		for i := range min(4*used, o.Objects) {
			patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"example.com/change":"%s-%d"}}}`, o.Contender, round)
			secret, err := secrets.Patch(ctx, name(i), types.MergePatchType, patch, metav1.PatchOptions{})
			if err != nil {
				return 0, err
			}
			want[secret.Name] = secret.ResourceVersion
		}
	}
	for i := range used {
		for _, labels := range []map[string]string{nil, {ownedBy: "true"}} {
			secret, err := secrets.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("new-%d-%d", i, len(labels)), Labels: labels}}, metav1.CreateOptions{})
			if err != nil {
				return 0, err
			}
			want[secret.Name] = secret.ResourceVersion
		}
	}
	missed = o.missed(want)
	for key := range want {
		if len(key) < len(name(0)) { // the new ones
			if err := secrets.Delete(ctx, key, metav1.DeleteOptions{}); err != nil {
				return 0, err
			}
			want[key] = ""
		}
	}
	missed += o.missed(want)
	for i := range 2 * used {
		secret, err := o.get(ctx, i)
		if err != nil {
			return 0, err
		}
		if secret.ResourceVersion != want[name(i)] {
			missed++
		}
	}
	return missed, nil
}

// missed waits until the handler has seen the wanted versions, and returns how many it did not see.
func (o *operator) missed(want map[string]string) (missed int) {
	late := time.After(patience)
	for {
		missed = 0
		o.mu.Lock()
		for name, version := range want {
			if seen, ok := o.seen[name]; !ok || seen != version {
				missed++
			}
		}
		o.mu.Unlock()
		if missed == 0 {
			return 0
		}
		select {
		case <-o.changed:
		case <-late:
			return missed
		}
	}
}
