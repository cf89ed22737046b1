package memorybench

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/store"
	"github.com/kubereflector/kubereflector/store/persist"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
)

// persisted is a cache with a file, which counts as filled when all of it has been written.
type persisted struct {
	ours[*corev1.Pod, *corev1.Pod]
	store   *persist.Store[*corev1.Pod]
	folder  string // of the file
	written chan struct{}
}

func newPersisted(config *rest.Config) (contender, error) {
	resource, err := client.ForResource[*corev1.Pod](config, corev1.SchemeGroupVersion.WithResource("pods"), "")
	if err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp("", "memorybench")
	if err != nil {
		return nil, err
	}
	s, err := persist.Open(filepath.Join(folder, "pods"), store.ObjectKey[*corev1.Pod], persist.Options[*corev1.Pod]{})
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(folder))
	}
	p := &persisted{store: s, folder: folder, written: make(chan struct{})}
	p.reflector, p.reader = reflector.New(resource, s), s
	return p, nil
}

func (p *persisted) synced() <-chan struct{} { return p.written }

func (p *persisted) run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	flushed := make(chan error, 1)
	go func() {
		select {
		case <-p.reflector.Synced():
			err := p.store.Flush()
			if err == nil {
				close(p.written)
			} else {
				stop()
			}
			flushed <- err
		case <-ctx.Done():
			flushed <- nil
		}
	}()
	err := p.reflector.Run(ctx)
	stop()
	return errors.Join(err, <-flushed, p.store.Close(), os.RemoveAll(p.folder))
}
