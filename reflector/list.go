package reflector

import (
	"context"
	"time"

	"go.uber.org/zap"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// list replaces the content of the store with what the server holds now.
func (r *KubernetesResourceReflector[T]) list(ctx context.Context) error {
	r.status.set(func(s *State) { s.Phase, s.Attempt, s.RetryAt = Listing, 0, time.Time{} })
	r.relist = true // until it is done
	objects, resourceVersion, err := r.pages(ctx)
	if err != nil {
		return r.newError(OpList, "", err)
	}
	r.relistAt = time.Time{}
	if err := r.store.Replace(objects, resourceVersion); err != nil {
		failure := r.newError(OpStore, resourceVersion, err)
		if !isRejection(err) {
			return failure // nothing was stored
		}
		r.lack(ctx, failure)
	} else {
		r.lacking = nil
		r.rejections = backoff{limit: maxRejectionBackoff}
	}
	r.listed = time.Now()
	r.position, r.relist = resourceVersion, false
	r.status.stored(r.store.ResourceVersion())
	r.status.latchSynced()
	r.logger.Debug("listed", zap.Int("objects", len(objects)), zap.String("resourceVersion", resourceVersion))
	return nil
}

// pages asks for a list page by page. A list that takes longer than the server
// keeps its pages is asked for once more, as a whole.
func (r *KubernetesResourceReflector[T]) pages(ctx context.Context) (objects []T, resourceVersion string, err error) {
	opts := r.listOptions()
	opts.Limit = r.pageSize
	whole := false
	for {
		p, err := r.source.list(ctx, opts)
		if err == nil {
			err = ctx.Err() // some clients for tests do not look
		}
		if err != nil {
			if opts.Continue == "" || whole || !expired(err) {
				return nil, "", err
			}
			r.logger.Debug("pages expired, listing without pages", zap.Error(err))
			whole = true
			opts.Limit, opts.Continue = 0, ""
			objects, resourceVersion = nil, ""
			continue
		}
		r.status.contact()
		if p.resourceVersion == "" {
			return nil, "", ErrNoResourceVersion
		}
		if resourceVersion == "" {
			// Later pages may be newer, if the server could not keep the first
			// state that long: the watch then repeats what they know already.
			resourceVersion = p.resourceVersion
		}
		objects = append(objects, p.items...)
		if p.next == "" {
			return objects, resourceVersion, nil
		}
		if p.next == opts.Continue {
			return nil, "", ErrRepeatedPage
		}
		opts.Continue = p.next
	}
}

func (r *KubernetesResourceReflector[T]) listOptions() metav1.ListOptions {
	return metav1.ListOptions{LabelSelector: r.labelSelector, FieldSelector: r.fieldSelector}
}
