package prometheus

import (
	"time"

	"github.com/kubereflector/kubereflector/controller/shard"
	prom "github.com/prometheus/client_golang/prometheus"
)

// Shards are the metrics of a member of a shard group. Register them: they are a [prom.Collector].
//
// Create them with [NewShards].
type Shards struct {
	member *shard.Member

	all, held, ending, overdue, free, members, renewed *prom.Desc
}

var _ prom.Collector = (*Shards)(nil)

// NewShards returns the metrics of a member. Their label is the name of its group.
func NewShards(member *shard.Member) *Shards {
	desc := func(name, help string) *prom.Desc {
		return prom.NewDesc(prom.BuildFQName(namespace, "", name), help, nil, prom.Labels{"group": label(member.Name())})
	}
	return &Shards{
		member:  member,
		all:     desc("shards", "Shards that there are, as far as the member knows."),
		held:    desc("shards_held", "Shards whose work goes on in this process."),
		ending:  desc("shards_ending", "Shards whose work was told to end, and goes on."),
		overdue: desc("shards_overdue", "Shards whose work did not end in time."),
		free:    desc("shards_free", "Shards that no member holds."),
		members: desc("shard_members", "Members that there are, this one included."),
		renewed: desc("shard_lease_age_seconds", "Time since the last renewal of the member's lease was begun that succeeded."),
	}
}

// Describe implements [prom.Collector].
func (s *Shards) Describe(to chan<- *prom.Desc) {
	for _, desc := range []*prom.Desc{s.all, s.held, s.ending, s.overdue, s.free, s.members, s.renewed} {
		to <- desc
	}
}

// Collect implements [prom.Collector].
func (s *Shards) Collect(to chan<- prom.Metric) {
	state := s.member.State()
	var held, ending, overdue, free int
	for _, one := range state.Shards {
		held += count(one.Held)
		ending += count(one.Ending)
		overdue += count(one.Overdue)
		free += count(one.Holder == "")
	}
	gauge := func(desc *prom.Desc, value float64) {
		to <- prom.MustNewConstMetric(desc, prom.GaugeValue, value)
	}
	gauge(s.all, float64(len(state.Shards)))
	gauge(s.held, float64(held))
	gauge(s.ending, float64(ending))
	gauge(s.overdue, float64(overdue))
	gauge(s.free, float64(free))
	gauge(s.members, float64(len(state.Members)))
	if !state.Renewed.IsZero() {
		gauge(s.renewed, time.Since(state.Renewed).Seconds())
	}
}

func count(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// NewLeader returns a gauge that is 1 while this process leads, and 0 otherwise. The elector is a
// leader.Elector, or another value with this method. The label is the name of the lease. Register
// one for each elector.
func NewLeader(lease string, elector interface{ Leading() bool }) prom.Collector {
	return prom.NewGaugeFunc(prom.GaugeOpts{
		Namespace: namespace, Name: "leading", Help: "Whether this process leads, 1 or 0.", ConstLabels: prom.Labels{"lease": label(lease)},
	}, func() float64 { return float64(count(elector.Leading())) })
}
