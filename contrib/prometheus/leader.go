package prometheus

import prom "github.com/prometheus/client_golang/prometheus"

// NewLeader returns a gauge that is 1 while this process leads, and 0 otherwise. The elector is a
// leader.Elector, or another value with this method. The label is the name of the lease. Register
// one for each elector.
func NewLeader(lease string, elector interface{ Leading() bool }) prom.Collector {
	return prom.NewGaugeFunc(prom.GaugeOpts{
		Namespace: namespace, Name: "leading", Help: "Whether this process leads, 1 or 0.", ConstLabels: prom.Labels{"lease": label(lease)},
	}, func() float64 { return float64(count(elector.Leading())) })
}
