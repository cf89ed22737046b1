package clientgo

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/kubereflector/kubereflector/reflector/reflectortest"
)

// provider is a cache.InformerMetricsProvider that writes down the values.
type provider struct{ queued, latency, version values }

type values struct {
	mu  sync.Mutex
	all []float64
}

func (v *values) Set(value float64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.all = append(v.all, value)
}

func (v *values) Observe(value float64) { v.Set(value) }

func (v *values) last() float64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.all[len(v.all)-1]
}

func (p *provider) NewQueuedItemMetric(cache.InformerNameAndResource) cache.GaugeMetric {
	return &p.queued
}

func (p *provider) NewProcessingLatencyMetric(cache.InformerNameAndResource) cache.HistogramMetric {
	return &p.latency
}

func (p *provider) NewStoreResourceVersionMetric(cache.InformerNameAndResource) cache.GaugeMetric {
	return &p.version
}

func TestInformerFeedsClientGosMetrics(t *testing.T) {
	name, err := cache.NewInformerName("metrics test")
	require.NoError(t, err)
	defer name.Release()
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		create(t, server, named("a"), named("b"))
		var p provider
		s := NewSharedIndexInformerWithOptions(listWatch(clientset(t, server)), &configMap{}, cache.SharedIndexInformerOptions{
			Identifier: name.WithResource(corev1.SchemeGroupVersion.WithResource("configmaps")), InformerMetricsProvider: &p,
		})
		_, err := s.AddEventHandler(&diary{before: func() { <-time.After(time.Second) }})
		require.NoError(t, err)
		run(t, s)
		synctest.Wait()
		assert.EqualValues(t, 3, p.version.last())
		<-time.After(time.Minute)
		synctest.Wait()
		assert.Equal(t, []float64{1, 1}, p.latency.all)
		create(t, server, named("c"))
		synctest.Wait()
		assert.EqualValues(t, 4, p.version.last())
		assert.Equal(t, []float64{0}, p.queued.all)
	})
}

func TestInformerWithoutANameHasNoMetrics(t *testing.T) {
	assert.Nil(t, newMetrics[Object](cache.SharedIndexInformerOptions{InformerMetricsProvider: &provider{}}))
}
