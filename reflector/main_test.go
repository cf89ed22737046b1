package reflector

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/kubereflector/kubereflector/internal/wire/stream"
	"github.com/kubereflector/kubereflector/store"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func configMap(name, uid, version string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: name, UID: types.UID(uid), ResourceVersion: version,
	}}
}

func listOf(version, next string, items ...*corev1.ConfigMap) *corev1.ConfigMapList {
	l := &corev1.ConfigMapList{ListMeta: metav1.ListMeta{ResourceVersion: version, Continue: next}}
	for _, item := range items {
		l.Items = append(l.Items, *item)
	}
	return l
}

// script is a client whose answers are written down: the n-th list request gets
// the n-th of lists, and so for watches. When they run out, a list waits for the
// end of its context, and a watch stays open.
type script struct {
	lists   []func() (*corev1.ConfigMapList, error)
	watches []func() (watch.Interface, error)

	streams bool // it can be asked for watch-lists

	mu       sync.Mutex
	requests []string
	times    []time.Time
	open     int // watches that were not stopped
}

var _ Client[*corev1.ConfigMap, *corev1.ConfigMapList] = (*script)(nil)

// IsWatchListSemanticsUnSupported is what client-go's own doubles say.
func (s *script) IsWatchListSemanticsUnSupported() bool { return !s.streams }

func (s *script) Get(context.Context, string, metav1.GetOptions) (*corev1.ConfigMap, error) {
	panic("a reflector never gets single objects")
}

func (s *script) List(ctx context.Context, opts metav1.ListOptions) (*corev1.ConfigMapList, error) {
	if opts.Limit == 1 && opts.ResourceVersion == "" && opts.Continue == "" {
		return listOf("1000000", ""), nil // newer than all others, which says nothing, and is not part of the script
	}
	answer := next(s, &s.lists, listRequest(opts))
	if answer == nil {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return answer()
}

func (s *script) Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	answer := next(s, &s.watches, watchRequest(opts))
	if !opts.AllowWatchBookmarks {
		panic("bookmarks are always welcome")
	}
	if t := time.Duration(*opts.TimeoutSeconds) * time.Second; t < minWatch || t >= 2*minWatch {
		panic(fmt.Sprintf("timeout of a watch: %v", t))
	}
	if answer == nil {
		return s.stream(nil), nil
	}
	w, err := answer()
	if scripted, ok := w.(*scriptWatch); ok {
		return scripted.channel(ctx), err
	}
	return w, err
}

// listRequest describes a request: "list 0 limit=500", "list limit=500 continue=p2",
// or "list newest" if it has no version and no limit.
func listRequest(opts metav1.ListOptions) string {
	text := "list"
	exactly := opts.ResourceVersionMatch == ""
	if known := opts.ResourceVersion != "" && opts.ResourceVersion != "0"; known == exactly {
		panic("a list is no older than the version that is known, and never just of that version")
	}
	switch {
	case opts.Continue != "":
	case opts.ResourceVersion == "":
		text += " newest"
	default:
		text += " " + opts.ResourceVersion
	}
	if opts.Limit != 0 {
		text += fmt.Sprintf(" limit=%d", opts.Limit)
	}
	if opts.Continue != "" {
		text += " continue=" + opts.Continue
	}
	return text + selectors(opts)
}

// watchRequest describes a request: "watch 10", or "stream 10" for a watch-list.
func watchRequest(opts metav1.ListOptions) string {
	text := "watch"
	if opts.SendInitialEvents != nil {
		text = "stream"
		if !*opts.SendInitialEvents || opts.ResourceVersionMatch != metav1.ResourceVersionMatchNotOlderThan {
			panic("a watch-list is no older than something, and has all objects")
		}
	}
	if opts.ResourceVersion == "" {
		return text + " newest" + selectors(opts)
	}
	return text + " " + opts.ResourceVersion + selectors(opts)
}

func selectors(opts metav1.ListOptions) (text string) {
	if opts.LabelSelector != "" {
		text += " labels=" + opts.LabelSelector
	}
	if opts.FieldSelector != "" {
		text += " fields=" + opts.FieldSelector
	}
	return text
}

// next notes a request and returns its answer, or nil.
func next[F any](s *script, answers *[]F, request string) (answer F) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, request)
	s.times = append(s.times, time.Now())
	if len(*answers) > 0 {
		answer, *answers = (*answers)[0], (*answers)[1:]
	}
	return answer
}

func (s *script) list(version, next string, items ...*corev1.ConfigMap) *script {
	s.lists = append(s.lists, func() (*corev1.ConfigMapList, error) { return listOf(version, next, items...), nil })
	return s
}

func (s *script) listFails(err error) *script {
	s.lists = append(s.lists, func() (*corev1.ConfigMapList, error) { return nil, err })
	return s
}

func (s *script) watchFails(err error) *script {
	s.watches = append(s.watches, func() (watch.Interface, error) { return nil, err })
	return s
}

// watch answers with a watch that ends after the events.
func (s *script) watch(events ...watch.Event) *script {
	s.watches = append(s.watches, func() (watch.Interface, error) {
		w := s.stream(events)
		w.end = true
		return w, nil
	})
	return s
}

// watchWhole answers with a watch that lasts for as long as any may.
func (s *script) watchWhole(events ...watch.Event) *script {
	s.watches = append(s.watches, func() (watch.Interface, error) {
		w := s.stream(events)
		w.end, w.lasts = true, maxWatch
		return w, nil
	})
	return s
}

// watchOpen answers with a watch that stays open after the events.
func (s *script) watchOpen(events ...watch.Event) *script {
	s.watches = append(s.watches, func() (watch.Interface, error) { return s.stream(events), nil })
	return s
}

func (s *script) openWatches() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open
}

func (s *script) seen() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string{}, s.requests...)
}

// scriptWatch is a watch with a goroutine of its own, as client-go's are.
type scriptWatch struct {
	of     *script
	end    bool
	lasts  time.Duration
	once   sync.Once
	events []watch.Event
	result chan watch.Event
	done   chan struct{}
	start  sync.Once
}

func (s *script) stream(events []watch.Event) *scriptWatch {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open++
	return &scriptWatch{of: s, events: events, result: make(chan watch.Event), done: make(chan struct{})}
}

func (w *scriptWatch) ResultChan() <-chan watch.Event {
	w.start.Do(func() {
		go func() {
			defer close(w.result)
			for _, e := range w.events {
				select {
				case w.result <- e:
				case <-w.done:
					return
				}
			}
			if !w.end {
				<-w.done
			}
			select {
			case <-w.done:
			case <-time.After(w.lasts):
			}
		}()
	})
	return w.result
}

// channel serves events that no watch.Event can hold.
func (w *scriptWatch) channel(ctx context.Context) watch.Interface {
	if !slices.ContainsFunc(w.events, func(e watch.Event) bool { _, ok := e.Object.(carried); return ok }) {
		return w
	}
	return stream.NewChannel[*corev1.ConfigMap](ctx, &scriptItems{adaptedWatch[*corev1.ConfigMap]{watch: w}})
}

// carried is an item in place of an object.
type carried struct {
	runtime.Object
	item stream.Item[*corev1.ConfigMap]
}

type scriptItems struct {
	adaptedWatch[*corev1.ConfigMap]
}

func (s *scriptItems) Next(ctx context.Context, wake <-chan time.Time) ([]stream.Item[*corev1.ConfigMap], error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-wake:
		return nil, stream.ErrAwake
	case e := <-s.watch.ResultChan():
		if c, ok := e.Object.(carried); ok {
			return []stream.Item[*corev1.ConfigMap]{c.item}, nil
		}
		return []stream.Item[*corev1.ConfigMap]{itemOf[*corev1.ConfigMap](e)}, nil
	}
}

func (w *scriptWatch) Stop() {
	w.once.Do(func() {
		close(w.done)
		w.of.mu.Lock()
		defer w.of.mu.Unlock()
		w.of.open--
	})
}

func added(c *corev1.ConfigMap) watch.Event    { return watch.Event{Type: watch.Added, Object: c} }
func modified(c *corev1.ConfigMap) watch.Event { return watch.Event{Type: watch.Modified, Object: c} }
func deleted(c *corev1.ConfigMap) watch.Event  { return watch.Event{Type: watch.Deleted, Object: c} }
func bookmark(version string) watch.Event {
	return watch.Event{Type: watch.Bookmark, Object: configMap("", "", version)}
}
func errorEvent(err *apierrors.StatusError) watch.Event {
	return watch.Event{Type: watch.Error, Object: &err.ErrStatus}
}

var errExpired = apierrors.NewResourceExpired("too old resource version")

func newStore() *store.Cache[*corev1.ConfigMap] { return store.New(store.ObjectKey[*corev1.ConfigMap]) }

// contents says what a store holds: "a@1 b@7".
func contents(c store.Reader[*corev1.ConfigMap]) string {
	text := ""
	for key, o := range c.All() {
		if text != "" {
			text += " "
		}
		text += key.Name + "@" + o.ResourceVersion
	}
	return text
}

// running runs a reflector until the returned function is called, which waits for
// the end of Run and returns its error.
func running(t *testing.T, r *KubernetesResourceReflector[*corev1.ConfigMap]) (stop func() error) {
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() { result <- r.Run(ctx) }()
	return func() error { cancel(); return <-result }
}
