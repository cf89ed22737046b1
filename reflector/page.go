package reflector

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/kubereflector/kubereflector/internal/wire"
	"github.com/kubereflector/kubereflector/store"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// page is one response to a list request.
type page[T any] struct {
	items           []T
	passed          int               // number of items delivered while the page was read
	lacking         []store.Rejection // objects that could not be decoded
	other           error             // the error of an object of another kind or namespace
	bare            bool              // an object has no kind
	unchanged       []store.Key       // objects that the store holds in the same version
	foreign         int               // number of dropped objects outside the reflector's shards
	sharded         bool              // the server says that it sends only the shard
	resourceVersion string
	next            string // the token of the next page; empty on the last one
	conflict        bool   // the response to a probe contradicts earlier data
}

// list reads a page one object at a time, as the data arrives. It does not decode objects that the
// store holds.
func (r *Resource[T]) list(ctx context.Context, opts metav1.ListOptions, w wants[T]) (page[T], wire.ListMeta, error) {
	a, err := r.open(ctx, &opts)
	if err != nil {
		return page[T]{}, wire.ListMeta{}, err
	}
	defer a.close()
	format, body, err := a.open()
	if err != nil {
		return page[T]{}, wire.ListMeta{}, err
	}
	list := wire.NewList(body, format, r.options.frameLimit)
	p, err := r.items(list, format, w)
	meta := list.Meta()
	if isTableKind(meta.TypeMeta) {
		return page[T]{}, wire.ListMeta{}, a.fail(list.Head(), ErrTable)
	}
	if err == nil {
		err = errors.Join(p.other, checkVersion(meta.ResourceVersion))
	}
	if err == nil {
		err = r.expected.checkList(meta.TypeMeta, p.bare)
	}
	if err != nil {
		return page[T]{}, wire.ListMeta{}, a.fail(list.Head(), err)
	}
	kind := itemKind(meta)
	for _, object := range p.items {
		setKind(object, kind)
	}
	p.resourceVersion, p.next, p.sharded = meta.ResourceVersion, meta.Continue, meta.ShardInfo != nil
	return p, meta, nil
}

// itemKind returns the kind of the items of a list.
func itemKind(meta wire.ListMeta) metav1.TypeMeta {
	return metav1.TypeMeta{Kind: strings.TrimSuffix(meta.Kind, "List"), APIVersion: meta.APIVersion}
}

// items reads the items of a list.
func (r *Resource[T]) items(list *wire.List, format wire.Format, w wants[T]) (whole page[T], err error) {
	var parts []*part[page[T]]
	var bad tally
	r.keepAll()
	decoding := newPipeline(r, false, func(d *decoder[T], p *page[T], batch *wire.Batch) {
		for i := range batch.Frames {
			d.item(p, format, batch.Frames[i].Object, w.shards, &bad)
		}
	})
	var unchanged []store.Key
	passing := passing[T]{take: w.take}
	for err == nil {
		var batch *wire.Batch
		if batch, err = list.Next(); err != nil {
			break
		}
		if unchanged = decoding.own.dropHeld(batch, format, w, unchanged); len(batch.Frames) == 0 {
			batch.Release()
			continue
		}
		if p := decoding.add(batch); p != nil {
			parts = append(parts, p)
		}
		passing.pass(parts, itemKind(list.Meta()))
	}
	decoding.close(err == io.EOF)
	if err != io.EOF {
		return page[T]{}, err
	}
	passing.pass(parts, itemKind(list.Meta()))
	whole = joined(parts)
	whole.unchanged, whole.passed = unchanged, passing.passed
	return whole, nil
}

// passing delivers decoded objects while a page is read, so that the whole page is never in memory.
type passing[T any] struct {
	take   func(T) // nil for no early delivery
	parts  int     // delivered parts
	passed int     // delivered objects
}

// pass delivers the finished parts in order. It waits until the kind of the objects is known.
func (s *passing[T]) pass(parts []*part[page[T]], kind metav1.TypeMeta) {
	if s.take == nil || kind.Kind == "" || kind.APIVersion == "" {
		return
	}
	for s.parts < len(parts) && parts[s.parts].isDone() {
		p := &parts[s.parts].result
		for _, object := range p.items {
			setKind(object, kind)
			s.take(object)
		}
		s.parts++
		s.passed += len(p.items)
		p.items = nil
	}
}

// dropHeld removes the items that the store holds from a batch, and appends their keys. The check
// is cheaper than handing the items to another goroutine.
func (d *decoder[T]) dropHeld(batch *wire.Batch, format wire.Format, w wants[T], keys []store.Key) []store.Key {
	if w.holds == nil {
		return keys
	}
	batch.Frames = slices.DeleteFunc(batch.Frames, func(frame wire.Frame) bool {
		key, version, ok := d.peek(format, frame.Object)
		if !ok || !w.holds(key, version) {
			return false
		}
		if from, _ := w.shards.sift(format, frame.Object); from != domestic {
			return false // the store was filled with other shards before
		}
		keys = append(keys, key)
		return true
	})
	return keys
}

// joined combines the parts of a page, in order.
func joined[T any](parts []*part[page[T]]) page[T] {
	if len(parts) == 1 {
		return parts[0].result
	}
	var whole page[T]
	n := 0
	for _, p := range parts {
		n += len(p.result.items)
	}
	whole.items = slices.Grow(whole.items, n)
	for _, p := range parts {
		whole.items = append(whole.items, p.result.items...)
		whole.lacking = append(whole.lacking, p.result.lacking...)
		whole.foreign += p.result.foreign
		whole.bare = whole.bare || p.result.bare
		if whole.other == nil {
			whole.other = p.result.other
		}
	}
	return whole
}

// item adds an item of a list to a page.
func (d *decoder[T]) item(p *page[T], format wire.Format, data []byte, shards *shardSet, bad *tally) {
	from, _ := shards.sift(format, data)
	if from == foreign {
		p.foreign++
		return
	}
	decoded, err := d.decode(format, data)
	if from == unclear && shards.siftPartly(format, data) == foreign {
		p.foreign++
		return
	}
	if err != nil {
		d.reject(p, format, data, err, bad)
		return
	}
	bare, err := d.check(decoded.object, decoded.key.Namespace, format, data)
	if err == nil {
		err = checkVersion(decoded.version)
	}
	if err != nil && p.other == nil {
		p.other = err
	}
	p.bare = p.bare || bare
	p.items = append(p.items, decoded.object)
}

// tally counts the undecodable items of a list. Their number is unlimited, so only the first 100
// keep their own error. Beyond that, reject drops items without a name and UID, because the store
// has no key for them.
type tally struct{ count atomic.Int32 }

const mostDetailed = 100

var errManyUndecoded = errors.New("cannot be decoded, like others of its list before it")

func (t *tally) full() bool { return t.count.Load() >= mostDetailed || t.count.Add(1) > mostDetailed }

// reject adds an item to a page that cannot be decoded or is of another kind.
func (d *decoder[T]) reject(p *page[T], format wire.Format, data []byte, err error, bad *tally) {
	rejection, _ := d.rejection(format, data, err)
	other := d.of.expected.check(kindOfBytes(format, data, d.passed))
	if other == nil && rejection.Key.Name != "" {
		other = d.of.checkNamespace(rejection.Key.Namespace)
	}
	if other != nil && p.other == nil {
		p.other = other
	}
	if bad.full() {
		if rejection.Key.Name == "" && rejection.Version.UID == "" {
			return
		}
		rejection.Err = errManyUndecoded
	}
	p.lacking = append(p.lacking, rejection)
}
