package reflector

import (
	"context"
	"io"
	"strings"

	"github.com/kubereflector/kubereflector/internal/wire"
	"github.com/kubereflector/kubereflector/store"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// page is one answer to a list request.
type page[T any] struct {
	items           []T
	lacking         []store.Rejection // objects that could not be decoded
	unchanged       []store.Key       // objects that are held as they are
	resourceVersion string
	next            string // the token of the next page; empty on the last one
}

// list reads a page object by object, as it comes. Those that are held are not decoded.
func (r *Resource[T]) list(ctx context.Context, opts metav1.ListOptions, holds holdsFunc) (page[T], wire.ListMeta, error) {
	a, err := r.ask(ctx, r.request(&opts, r.accepts()))
	if err != nil {
		return page[T]{}, wire.ListMeta{}, err
	}
	defer a.close()
	format, body, err := a.open()
	if err != nil {
		return page[T]{}, wire.ListMeta{}, err
	}
	d := r.decoder()
	defer r.giveBack(d)
	list := wire.NewList(body, format, r.options.frameLimit)
	var p page[T]
	for {
		batch, err := list.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return page[T]{}, wire.ListMeta{}, a.fail(list.Head(), err)
		}
		for i := range batch.Frames {
			d.item(&p, format, batch.Frames[i].Object, holds)
		}
		batch.Release()
	}
	meta := list.Meta()
	if meta.Kind == "Table" && strings.HasPrefix(meta.APIVersion, metav1.GroupName+"/") {
		return page[T]{}, wire.ListMeta{}, ErrTable
	}
	kind := metav1.TypeMeta{Kind: strings.TrimSuffix(meta.Kind, "List"), APIVersion: meta.APIVersion}
	for _, object := range p.items {
		setKind(object, kind)
	}
	p.resourceVersion, p.next = meta.ResourceVersion, meta.Continue
	return p, meta, nil
}

// item takes an item of a list.
func (d *decoder[T]) item(p *page[T], format wire.Format, data []byte, holds holdsFunc) {
	if key, _, held := d.held(format, data, holds); held {
		p.unchanged = append(p.unchanged, key)
		return
	}
	object, err := d.decode(format, data)
	if err != nil {
		bad, _ := d.reject(format, data, err)
		p.lacking = append(p.lacking, bad)
		return
	}
	p.items = append(p.items, object)
}
