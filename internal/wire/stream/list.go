package stream

import (
	"io"
	"runtime"
	"strings"
	"sync/atomic"

	"github.com/kubereflector/kubereflector/internal/discreet"
	"github.com/kubereflector/kubereflector/internal/wire"
	"github.com/kubereflector/kubereflector/store"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// list is a list that is being read. Several goroutines decode its items.
type list[T Object] struct {
	of     *Reader[T]
	wants  Wants[T]
	format wire.Format
	from   *wire.List

	parts []*part[T] // whose items were not taken yet
	// bare is true if an item does not state its kind.
	bare atomic.Bool
	// other is the error of an item of another kind or namespace.
	other atomic.Pointer[error]
	// undecoded counts the undecodable items. Their number is unlimited, so only the first MaxDetailed
	// keep their own error. Beyond that, item drops those without a name and UID, because the store
	// has no key for them.
	undecoded atomic.Int32
}

var errManyUndecoded = discreet.New("cannot be decoded, like others of its list before it")

// List reads a page one object at a time, as the data arrives, and returns its metadata. It does not
// close the response.
func (r *Reader[T]) List(from *Response, w Wants[T]) (wire.ListMeta, error) {
	format, body := from.open()
	l := &list[T]{of: r, wants: w, format: format, from: wire.NewList(body, format, r.MaxObjectBytes)}
	err := l.read()
	meta := l.from.Meta()
	if meta.Continue == "" || err != nil {
		r.Pool.keep(few) // no page follows
	}
	if isTableKind(meta.TypeMeta) {
		err = ErrTable
	}
	if other := l.other.Load(); err == nil && other != nil {
		err = *other
	}
	if err == nil {
		err = CheckVersion(meta.ResourceVersion)
	}
	if err == nil {
		err = r.CheckList(meta.TypeMeta, l.bare.Load())
	}
	if err != nil {
		return wire.ListMeta{}, from.Fail(l.from.Head(), err)
	}
	return meta, nil
}

// read reads all items.
func (l *list[T]) read() error {
	if l.wants.Take != nil { // otherwise only the version matters, and the list has one object
		l.of.Pool.keep(runtime.GOMAXPROCS(0))
	}
	decoding := newPipeline(l.of, 1, func(d *decoder[T], items *[]Item[T], batch *wire.Batch) {
		for i := 0; i < len(batch.Frames); i++ {
			if n := keep(items, batch.Frames[i:]); n > 0 {
				i += n - 1
				continue
			}
			l.item(d, items, &batch.Frames[i])
		}
	})
	for {
		batch, err := l.from.Next()
		if err != nil {
			decoding.close()
			if err != io.EOF {
				return err
			}
			break
		}
		if l.wants.Holds != nil {
			for i := range batch.Frames {
				decoding.own.ask(&l.wants, l.format, &batch.Frames[i])
			}
		}
		if p := decoding.add(batch); p != nil {
			l.parts = append(l.parts, p)
		}
		// Once the kind of the items is known, they are passed on, so that the whole page is never in
		// memory.
		if kind := l.kind(); kind.Kind != "" && kind.APIVersion != "" {
			l.give(kind)
		}
	}
	l.give(l.kind())
	return nil
}

// kind returns the kind of the items, as far as it is known.
func (l *list[T]) kind() metav1.TypeMeta {
	meta := l.from.Meta()
	return metav1.TypeMeta{Kind: strings.TrimSuffix(meta.Kind, "List"), APIVersion: meta.APIVersion}
}

// give passes on the items that are decoded, in order.
func (l *list[T]) give(kind metav1.TypeMeta) {
	for len(l.parts) > 0 && l.parts[0].isDone() {
		p := l.parts[0]
		for i := range p.result {
			item := &p.result[i]
			if item.Kind == Put && item.Write.Err == nil {
				setKind(item.Write.Object, kind)
			}
			if l.wants.Take != nil {
				l.wants.Take(item)
			}
		}
		l.parts[0], l.parts = nil, l.parts[1:]
	}
}

// item appends an item of the list.
func (l *list[T]) item(d *decoder[T], items *[]Item[T], frame *wire.Frame) {
	data := frame.Object
	if _, yes := l.wants.Shards.excludes(l.format, data); yes {
		passOver(items, store.Addition, "")
		return
	}
	decoded, err := d.decode(l.format, data)
	if err != nil {
		key, version, _ := identify(l.format, data)
		other := l.of.CheckKind(kindOfBytes(l.format, data, d.passed))
		if other == nil && key.Name != "" {
			other = l.of.CheckNamespace(key.Namespace)
		}
		l.refuse(other)
		if l.undecoded.Load() >= MaxDetailed || l.undecoded.Add(1) > MaxDetailed {
			if key.Name == "" && version.UID == "" {
				return
			}
			err = errManyUndecoded
		}
		*items = append(*items, Undecodable[T](store.Addition, key, version, err))
		return
	}
	bare, err := d.check(decoded.object, decoded.key.Namespace, l.format, data)
	if err == nil {
		err = CheckVersion(decoded.version)
	}
	l.refuse(err)
	if bare && !l.bare.Load() {
		l.bare.Store(true)
	}
	*items = append(*items, Item[T]{Kind: Put, Version: decoded.version, Write: store.Write[T]{Type: store.Addition, Object: decoded.object, Hash: d.hash(l.format, frame)}})
}

// refuse keeps the first error of an item that is not of the resource.
func (l *list[T]) refuse(err error) {
	if err != nil {
		l.other.CompareAndSwap(nil, &err)
	}
}
