package stream

import (
	"errors"
	"io"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/kubereflector/kubereflector/internal/wire"
	"github.com/kubereflector/kubereflector/store"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// reading is a page that is being read.
type reading[T any] struct {
	Page[T]
	other error // the error of an object of another kind or namespace
	bare  bool  // an object has no kind
}

// List reads a page one object at a time, as the data arrives. If take is not nil, it may receive
// the items in order while the page arrives; these items are then missing from the page. List does
// not close the response.
func (r *Reader[T]) List(from *Response, skip Skip, take func(object T, hash uint64)) (Page[T], wire.ListMeta, error) {
	format, body, err := from.open()
	if err != nil {
		return Page[T]{}, wire.ListMeta{}, err
	}
	list := wire.NewList(body, format, r.MaxObjectBytes)
	p, err := r.items(list, format, skip, take)
	meta := list.Meta()
	if isTableKind(meta.TypeMeta) {
		return Page[T]{}, wire.ListMeta{}, from.Fail(list.Head(), ErrTable)
	}
	if err == nil {
		err = errors.Join(p.other, CheckVersion(meta.ResourceVersion))
	}
	if err == nil {
		err = r.CheckList(meta.TypeMeta, p.bare)
	}
	if err != nil {
		return Page[T]{}, wire.ListMeta{}, from.Fail(list.Head(), err)
	}
	kind := itemKind(meta)
	for _, object := range p.Items {
		setKind(object, kind)
	}
	p.ResourceVersion, p.Continue, p.Sharded = meta.ResourceVersion, meta.Continue, meta.ShardInfo != nil
	return p.Page, meta, nil
}

// itemKind returns the kind of the items of a list.
func itemKind(meta wire.ListMeta) metav1.TypeMeta {
	return metav1.TypeMeta{Kind: strings.TrimSuffix(meta.Kind, "List"), APIVersion: meta.APIVersion}
}

// items reads the items of a list.
func (r *Reader[T]) items(list *wire.List, format wire.Format, skip Skip, take func(T, uint64)) (whole reading[T], err error) {
	var parts []*part[reading[T]]
	var bad tally
	r.Pool.keepAll()
	decoding := newPipeline(r, r.Decoders, false, func(d *decoder[T], p *reading[T], batch *wire.Batch) {
		for i := range batch.Frames {
			d.item(p, format, &batch.Frames[i], skip.Shards, &bad)
		}
	})
	var unchanged []store.Key
	passing := passing[T]{take: take}
	for err == nil {
		var batch *wire.Batch
		if batch, err = list.Next(); err != nil {
			break
		}
		if unchanged = decoding.own.dropHeld(batch, format, skip, unchanged); len(batch.Frames) == 0 {
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
		return reading[T]{}, err
	}
	passing.pass(parts, itemKind(list.Meta()))
	whole = joined(parts)
	whole.Held, whole.Taken = unchanged, passing.passed
	return whole, nil
}

// passing delivers decoded objects while a page is read, so that the whole page is never in memory.
type passing[T any] struct {
	take   func(T, uint64) // nil for no early delivery
	parts  int             // delivered parts
	passed int             // delivered objects
}

// pass delivers the finished parts in order. It waits until the kind of the objects is known.
func (s *passing[T]) pass(parts []*part[reading[T]], kind metav1.TypeMeta) {
	if s.take == nil || kind.Kind == "" || kind.APIVersion == "" {
		return
	}
	for s.parts < len(parts) && parts[s.parts].isDone() {
		p := &parts[s.parts].result
		for i, object := range p.Items {
			setKind(object, kind)
			s.take(object, p.Hash(i))
		}
		s.parts++
		s.passed += len(p.Items)
		p.Items, p.Hashes = nil, nil
	}
}

// dropHeld removes from a batch the items that the store holds, and appends their keys. The check
// is cheaper than handing the items to another goroutine.
func (d *decoder[T]) dropHeld(batch *wire.Batch, format wire.Format, skip Skip, keys []store.Key) []store.Key {
	if skip.Holds == nil {
		return keys
	}
	left := 0
	for i := range batch.Frames {
		frame := &batch.Frames[i]
		if key, ok := d.isHeld(format, frame, skip); ok {
			keys = append(keys, key)
			continue
		}
		batch.Frames[left] = *frame
		left++
	}
	clear(batch.Frames[left:])
	batch.Frames = batch.Frames[:left]
	return keys
}

// isHeld reports whether the store holds the object of a frame with the same content.
func (d *decoder[T]) isHeld(format wire.Format, frame *wire.Frame, skip Skip) (store.Key, bool) {
	key, version, outline, ok := d.ids.look(format, frame.Object, d.of.WithoutManagedFields)
	if !ok {
		return key, false
	}
	frame.Hash = outline.Hash() // for the decoder, if the store has another content
	if !skip.Holds(key, version, frame.Hash) {
		return key, false
	}
	from, _ := originOf(skip.Shards, format, frame.Object)
	return key, from == inShard // else the store was filled with other shards before
}

// joined combines the parts of a page, in order.
func joined[T any](parts []*part[reading[T]]) reading[T] {
	if len(parts) == 1 {
		return parts[0].result
	}
	var whole reading[T]
	n := 0
	for _, p := range parts {
		n += len(p.result.Items)
	}
	whole.Items, whole.Hashes = slices.Grow(whole.Items, n), slices.Grow(whole.Hashes, n)
	for _, p := range parts {
		whole.Items = append(whole.Items, p.result.Items...)
		whole.Hashes = append(whole.Hashes, p.result.Hashes...)
		whole.Rejections = append(whole.Rejections, p.result.Rejections...)
		whole.OutOfShard += p.result.OutOfShard
		whole.bare = whole.bare || p.result.bare
		if whole.other == nil {
			whole.other = p.result.other
		}
	}
	return whole
}

// item adds an item of a list to a page.
func (d *decoder[T]) item(p *reading[T], format wire.Format, frame *wire.Frame, shards *Shards, bad *tally) {
	data := frame.Object
	from, _ := originOf(shards, format, data)
	if from == outOfShard {
		p.OutOfShard++
		return
	}
	decoded, err := d.decode(format, data)
	if from == unclear && originByMetadata(shards, format, data) == outOfShard {
		p.OutOfShard++
		return
	}
	if err != nil {
		d.reject(p, format, data, err, bad)
		return
	}
	bare, err := d.check(decoded.object, decoded.key.Namespace, format, data)
	if err == nil {
		err = CheckVersion(decoded.version)
	}
	if err != nil && p.other == nil {
		p.other = err
	}
	p.bare = p.bare || bare
	p.Items = append(p.Items, decoded.object)
	p.Hashes = append(p.Hashes, d.hash(format, frame))
}

// tally counts the undecodable items of a list. Their number is unlimited, so only the first 100
// keep their own error. Beyond that, reject drops items without a name and UID, because the store
// has no key for them.
type tally struct{ count atomic.Int32 }

var errManyUndecoded = errors.New("cannot be decoded, like others of its list before it")

func (t *tally) full() bool {
	return t.count.Load() >= MaxDetailed || t.count.Add(1) > MaxDetailed
}

// reject adds an item to a page that cannot be decoded or is of another kind.
func (d *decoder[T]) reject(p *reading[T], format wire.Format, data []byte, err error, bad *tally) {
	rejection, _ := rejectionOf(format, data, err)
	other := d.of.CheckKind(kindOfBytes(format, data, d.passed))
	if other == nil && rejection.Key.Name != "" {
		other = d.of.CheckNamespace(rejection.Key.Namespace)
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
	p.Rejections = append(p.Rejections, rejection)
}
