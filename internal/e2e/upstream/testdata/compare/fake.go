package simulated

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	runtimerecorder "sigs.k8s.io/controller-runtime/pkg/recorder"
)

// A variation repeats a test on the fake client in a way that experienced authors use for each operator.
type variation struct {
	restart bool   // a new reconciler before each step, as tests that begin with stored objects have
	cloud   bool   // the context of the first call after each step is cancelled, which stands for the failure of another system
	fail    string // the first such write fails, and Reconcile has to return an error
}

func (v variation) String() string {
	switch {
	case v.restart:
		return "a new reconciler for each step"
	case v.cloud:
		return "the call of another system fails"
	case v.fail != "":
		return "an error of " + v.fail
	}
	return "as it is"
}

// onFake runs a test on a fake client in all variations. The error is that of the first one that fails.
func onFake(t *testing.T, s subject) error {
	var writes []string
	if err := vary(t, s, variation{}, &writes); err != nil {
		return err
	}
	tries := []variation{{restart: true}, {cloud: true}}
	if s.faultless {
		writes = nil
	}
	slices.Sort(writes)
	for _, w := range slices.Compact(writes) {
		tries = append(tries, variation{fail: w})
	}
	for _, v := range tries {
		if err := vary(t, s, v, new([]string)); err != nil {
			return fmt.Errorf("%v: %w", v, err)
		}
	}
	return nil
}

func vary(t *testing.T, s subject, v variation, writes *[]string) (err error) {
	synctest.Test(t, func(t *testing.T) {
		b := fake.NewClientBuilder().WithScheme(s.scheme).WithStatusSubresource(s.custom.object, &batchv1.Job{})
		w := &fakeWorld{subject: s, variation: v}
		w.setUp(nil, indexer{b})
		w.Client = b.Build()
		defer func() { *writes = w.writes; w.stop(); synctest.Wait() }()
		w.start()
		err = attempt(func() {
			s.test(&user{
				world:  w,
				Client: w.Client, ctx: t.Context(), after: w.deliver,
				before: func() {
					if v.restart {
						w.stop()
						w.start()
					}
					w.stepped = true
				},
				eventually: func(what string, holds func() bool) {
					w.settle(time.Second)
					if !holds() {
						panic(errors.New(what))
					}
				},
				elapse: func(d time.Duration, _ func()) { w.settle(d) },
			})
		})
	})
	return err
}

// next calls Reconcile n times.
func (w *fakeWorld) next(n int) {
	for range n {
		synctest.Wait()
		select {
		case c := <-w.requests:
			w.reconcile(c)
		default:
		}
	}
}

// freeze lets the operator see objects of a kind as they are now, without events, until it is called with nil.
func (w *fakeWorld) freeze(o client.Object, list client.ObjectList) {
	if w.past = nil; o != nil {
		if err := w.List(context.Background(), list); err != nil {
			panic(err)
		}
		w.frozen, _ = apiutil.GVKForObject(o, w.subject.scheme)
		w.past = fake.NewClientBuilder().WithScheme(w.subject.scheme).WithLists(list).Build()
	}
	w.deliver()
}

// once calls a function at the first write of a name.
func (w *fakeWorld) once(name string, call func(do func() error) error) {
	w.hook = func(write string, do func() error) error {
		if write != name {
			return do()
		}
		w.hook = nil
		return call(do)
	}
}

// fakeWorld calls the reconcilers of an operator by hand, for the requests that its watches make of each write.
type fakeWorld struct {
	client.Client
	mu        sync.Mutex // a reconciler may write from several goroutines
	subject   subject
	variation variation

	stop        context.CancelFunc
	reconcilers []reconcile.Reconciler
	informers   *informertest.FakeInformers
	known       map[schema.GroupVersionKind]map[client.ObjectKey]client.Object
	requests    chan call
	later       []call
	stepped     bool // no call since the step
	failed      bool
	writes      []string

	// What only tests use that know the bug: see informed.go.
	past   client.Client // what reads of frozen see
	frozen schema.GroupVersionKind
	hook   func(name string, do func() error) error // around each write
}

type call struct {
	reconciler int
	request    ctrl.Request
	at         time.Time
}

// setUp adds the controllers of the operator to a manager that starts nothing.
func (w *fakeWorld) setUp(c client.Client, indexes client.FieldIndexer) []manager.Runnable {
	w.informers = &informertest.FakeInformers{Scheme: w.subject.scheme}
	mapper := meta.NewDefaultRESTMapper(nil)
	for kind := range w.subject.scheme.AllKnownTypes() {
		mapper.Add(kind, meta.RESTScopeNamespace)
	}
	mgr, err := ctrl.NewManager(&rest.Config{}, ctrl.Options{
		Scheme: w.subject.scheme, Logger: logr.Discard(), Metrics: server.Options{BindAddress: "0"},
		Controller:     config.Controller{SkipNameValidation: new(true)},
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return mapper, nil },
		NewCache: func(*rest.Config, cache.Options) (cache.Cache, error) {
			return &lockedInformers{FakeInformers: w.informers}, nil
		},
		NewClient: func(*rest.Config, client.Options) (client.Client, error) { return c, nil },
	})
	if err != nil {
		panic(err)
	}
	added := &fakeManager{Manager: mgr, live: w.Client, indexes: indexes}
	if err := w.subject.operator(added); err != nil {
		panic(err)
	}
	return added.controllers
}

func (w *fakeWorld) start() {
	w.reconcilers, w.later = nil, nil
	w.known, w.requests = map[schema.GroupVersionKind]map[client.ObjectKey]client.Object{}, make(chan call, 1000)
	controllers := w.setUp(interceptor.NewClient(w.Client.(client.WithWatch), w.intercept()), w.informers)
	ctx, cancel := context.WithCancel(context.Background())
	w.stop = cancel
	requests := w.requests
	for i, c := range controllers {
		do := reflect.ValueOf(c).Elem().FieldByName("Do")
		w.reconcilers = append(w.reconcilers, do.Interface().(reconcile.Reconciler))
		do.Set(reflect.ValueOf(reconcile.Func(func(_ context.Context, r ctrl.Request) (ctrl.Result, error) {
			requests <- call{reconciler: i, request: r}
			return ctrl.Result{}, nil
		})))
		go func() { _ = c.Start(ctx) }()
	}
	synctest.Wait()
	w.deliver()
}

// lockedInformers may be asked by several sources at once, which FakeInformers may not.
type lockedInformers struct {
	*informertest.FakeInformers
	mu sync.Mutex
}

func (l *lockedInformers) GetInformer(ctx context.Context, o client.Object, options ...cache.InformerGetOption) (cache.Informer, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.FakeInformers.GetInformer(ctx, o, options...)
}

// fakeManager keeps the controllers.
type fakeManager struct {
	ctrl.Manager
	live        client.Reader
	indexes     client.FieldIndexer
	controllers []manager.Runnable
}

func (m *fakeManager) GetAPIReader() client.Reader { return m.live }

func (m *fakeManager) GetFieldIndexer() client.FieldIndexer { return m.indexes }

func (m *fakeManager) GetEventRecorder(string) runtimerecorder.EventRecorder {
	return &events.FakeRecorder{}
}

func (m *fakeManager) GetEventRecorderFor(string) record.EventRecorder { return &record.FakeRecorder{} }

func (m *fakeManager) Add(r manager.Runnable) error {
	m.controllers = append(m.controllers, r)
	return nil
}

// deliver calls the handlers of the operator for what has changed.
func (w *fakeWorld) deliver() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for kind := range w.informers.InformersByGVK {
		if w.past != nil && kind == w.frozen {
			continue
		}
		informer, err := w.informers.FakeInformerForKind(context.Background(), kind)
		if err != nil {
			panic(err)
		}
		made, err := w.subject.scheme.New(kind.GroupVersion().WithKind(kind.Kind + "List"))
		if err != nil {
			panic(err)
		}
		list := made.(client.ObjectList)
		if err := w.List(context.Background(), list); err != nil {
			panic(err)
		}
		before, now := w.known[kind], map[client.ObjectKey]client.Object{}
		w.known[kind] = now
		_ = meta.EachListItem(list, func(o runtime.Object) error {
			one := o.(client.Object)
			now[client.ObjectKeyFromObject(one)] = one
			return nil
		})
		for key, o := range now {
			if old := before[key]; old == nil {
				informer.Add(o)
			} else if old.GetResourceVersion() != o.GetResourceVersion() {
				informer.Update(old, o)
			}
		}
		for key, o := range before {
			if now[key] == nil {
				informer.Delete(o)
			}
		}
	}
}

// settle calls Reconcile until nothing changes, and time up to a limit has passed. Then it calls each
// reconciler once more, which must write nothing.
func (w *fakeWorld) settle(limit time.Duration) {
	ends := time.Now().Add(limit)
	seen := map[call]bool{}
	for calls := 0; ; calls++ {
		if calls > 50 {
			panic(errors.New("Reconcile does not come to an end"))
		}
		synctest.Wait()
		var next call
		select {
		case next = <-w.requests:
		default:
			if len(w.later) == 0 {
				goto settled
			}
			slices.SortStableFunc(w.later, func(a, b call) int { return a.at.Compare(b.at) })
			if w.later[0].at.After(ends) {
				goto settled
			}
			next, w.later = w.later[0], w.later[1:]
			time.Sleep(time.Until(next.at))
			next.at = time.Time{}
		}
		seen[next] = true
		w.reconcile(next)
	}
settled:
	time.Sleep(time.Until(ends))
	for c := range seen {
		before := len(w.writes)
		w.reconcile(c)
		if now := len(w.writes); now != before {
			panic(fmt.Errorf("one more Reconcile sends %s", w.writes[now-1]))
		}
	}
}

func (w *fakeWorld) reconcile(c call) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if w.variation.cloud && w.stepped {
		cancel()
	}
	w.stepped = false
	before := w.failed
	result, err := w.reconcilers[c.reconciler].Reconcile(ctx, c.request)
	if err == nil && before != w.failed {
		panic(errors.New("Reconcile does not return the error"))
	}
	if err != nil {
		w.requests <- c
	} else if result.RequeueAfter > 0 {
		c.at = time.Now().Add(result.RequeueAfter)
		w.later = append(w.later, c)
	}
}

// intercept notes the writes, delivers their events, and lets one fail.
func (w *fakeWorld) intercept() interceptor.Funcs {
	write := func(verb string, o client.Object, do func() error) error {
		kind, _ := apiutil.GVKForObject(o, w.subject.scheme)
		name := verb + " " + kind.Kind
		if name == w.variation.fail && !w.failed {
			w.failed = true
			return apierrors.NewInternalError(errors.New("the test says so"))
		}
		send := func() error {
			err := do()
			if err == nil {
				w.mu.Lock()
				w.writes = append(w.writes, name)
				w.mu.Unlock()
				w.deliver()
			}
			return err
		}
		if w.hook != nil {
			return w.hook(name, send)
		}
		return send()
	}
	reads := func(o runtime.Object, now client.Reader) client.Reader {
		kind, _ := apiutil.GVKForObject(o, w.subject.scheme)
		if w.past != nil && strings.TrimSuffix(kind.Kind, "List") == w.frozen.Kind {
			return w.past
		}
		return now
	}
	return interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
			return reads(o, c).Get(ctx, key, o, options...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			return reads(list, c).List(ctx, list, options...)
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
			o.SetUID(uuid.NewUUID())
			return write("create", o, func() error { return c.Create(ctx, o, options...) })
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.UpdateOption) error {
			return write("update", o, func() error { return c.Update(ctx, o, options...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, options ...client.PatchOption) error {
			return write("patch", o, func() error { return c.Patch(ctx, o, patch, options...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.DeleteOption) error {
			return write("delete", o, func() error { return c.Delete(ctx, o, options...) })
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, options ...client.SubResourceUpdateOption) error {
			return write("update the "+sub+" of", o, func() error { return c.SubResource(sub).Update(ctx, o, options...) })
		},
	}
}

// indexer adds indexes to a fake client.
type indexer struct{ *fake.ClientBuilder }

func (i indexer) IndexField(_ context.Context, o client.Object, field string, values client.IndexerFunc) error {
	i.WithIndex(o, field, values)
	return nil
}
