package exercises

import (
	"context"

	"github.com/kubereflector/kubereflector/examples/series"
	corev1 "k8s.io/api/core/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

// model is the informer of part 3, which has one handler, and the collection of part 4.
type model struct {
	source     series.ListerWatcher[*corev1.ConfigMap]
	store      series.Store[*corev1.ConfigMap]
	controller series.Controller[*corev1.ConfigMap]

	*series.EventQueueCollection[*corev1.ConfigMap]
	tracked series.Map[*corev1.ConfigMap]
}

func onModel(client typedcorev1.ConfigMapInterface) subject {
	m := &model{source: series.FromClient(client)}
	m.EventQueueCollection = series.NewEventQueueCollection(&m.tracked)
	return m
}

func (m *model) handle(handler func(event) error) {
	m.store, m.controller = series.NewInformer(m.source, modelHandler{handler})
}

func (m *model) run(ctx context.Context) error {
	m.controller.Run(ctx)
	return nil
}

func (m *model) known() []string { return names(m.store) }

func names(store series.Reader[*corev1.ConfigMap]) (names []string) {
	for _, c := range store.List() {
		names = append(names, c.Name)
	}
	return names
}

func (m *model) add(name, text string)    { must(m.Add(configMap(name, text))) }
func (m *model) change(name, text string) { must(m.Update(configMap(name, text))) }
func (m *model) remove(name string)       { must(m.Delete(configMap(name, "one"))) }
func (m *model) resync()                  { must(m.Resync()) }

func (m *model) take(consumer func(event)) (finish func()) {
	ctx, stop := context.WithCancel(context.Background())
	stop() // do not wait for a queue
	queue, err := m.Pop(ctx)
	if err != nil {
		return nil
	}
	return func() {
		must(series.Track(&m.tracked, func(e series.Event[*corev1.ConfigMap]) {
			shown := event{verb: string(e.Type), name: e.Object.Name, prior: "none", now: e.Object.Data["text"]}
			if e.Type == series.Modification {
				shown.prior = e.Prior.Data["text"]
			}
			if e.Sync {
				shown.remark = " (sync)"
			}
			consumer(shown)
		})(queue))
	}
}

// sharedModel is a model whose informer is the shared one of part 7, which has many handlers.
type sharedModel struct {
	model
	informer *series.SharedInformer[*corev1.ConfigMap]
}

func onSharedModel(client typedcorev1.ConfigMapInterface) subject {
	return &sharedModel{informer: series.NewSharedInformer(series.FromClient(client))}
}

func (m *sharedModel) handle(handler func(event) error) {
	m.informer.AddEventHandler(modelHandler{handler}, true)
}

func (m *sharedModel) run(ctx context.Context) error {
	m.informer.Run(ctx)
	return nil
}

func (m *sharedModel) known() []string { return names(m.informer.GetStore()) }

// modelHandler drops errors, because the functions of a ResourceEventHandler have no result.
type modelHandler struct{ handler func(event) error }

func (h modelHandler) OnAdd(c *corev1.ConfigMap) {
	_ = h.handler(event{verb: "Addition", name: c.Name, prior: "none", now: c.Data["text"]})
}

func (h modelHandler) OnUpdate(prior, c *corev1.ConfigMap) {
	_ = h.handler(event{verb: "Modification", name: c.Name, prior: prior.Data["text"], now: c.Data["text"]})
}

func (h modelHandler) OnDelete(c *corev1.ConfigMap) {
	_ = h.handler(event{verb: "Deletion", name: c.Name, prior: "none", now: c.Data["text"]})
}
