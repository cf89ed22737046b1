package fleetbench

import (
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"

	"github.com/kubereflector/kubereflector/internal/bench/measure"
)

// Topic is the subcommand "fleet".
var Topic = measure.Topic{Name: "fleet", Summary: "many kinds that hardly change, beside client-go's dynamic factory, controller-runtime's cache, and kro's manager", Cases: cases}

// assignment is the work of a process.
type assignment struct {
	Contender string

	Host     string
	Kinds    int
	Profiles measure.Profiles
}

func cases(run *measure.World) []measure.Case {
	type scale struct{ kinds, rounds int }
	s := map[measure.Size]scale{measure.Thorough: {500, 5}, measure.Quick: {500, 3}, measure.Tiny: {10, 1}}[run.Size]
	c := measure.Comparison[assignment]{Measure: func(a assignment) (measure.Figures, error) {
		of := &server{kinds: s.kinds}
		listener := httptest.NewUnstartedServer(of.handler())
		listener.EnableHTTP2 = true
		var connections atomic.Int64
		listener.Config.ConnState = func(_ net.Conn, state http.ConnState) {
			if state == http.StateNew {
				connections.Add(1)
			}
		}
		listener.StartTLS()
		defer listener.Close()
		a.Host, a.Kinds, a.Profiles = listener.URL, s.kinds, run.Profiles(a.Contender)
		figures, err := measureInProcess(a)
		if err != nil {
			return nil, err
		}
		figures["requests"] = float64(of.requests.Load())
		figures["connections"] = float64(connections.Load())
		return figures, nil
	}}
	metrics := []measure.Metric{
		measure.Metric{Name: "start-cpu", Unit: "ms", Omits: "the CPU time of the server"}.Within(0.3),
		{Name: "heap", Unit: "bytes a kind", Omits: "stacks; the connection, which all kinds share, counts", Goal: measure.AtMost(20_000)},
		{Name: "stacks", Unit: "bytes a kind", Omits: "the heap of the goroutines"},
		{Name: "goroutines", Unit: "a kind", Omits: "none: one of them is a stream of HTTP/2 in net/http", Goal: measure.AtMost(3)},
		{Name: "connections", Unit: "connections", Omits: "none: one carries at most 250 streams"},
		{Name: "requests", Unit: "requests", Omits: "the client of client-go is told the resources, and asks no discovery"},
	}
	ours := assignment{Contender: "fleet"}
	var streams []measure.Metric // without goals: a peer that does nothing else
	for _, m := range metrics {
		streams = append(streams, measure.Metric{Name: m.Name, Unit: m.Unit, Omits: m.Omits})
	}
	return append(c.Cases("500-kinds/streams", s.rounds, ours, assignment{Contender: "streams"}, streams...), append(c.Cases("500-kinds/client-go", s.rounds, ours, assignment{Contender: "dynamic-factory"}, metrics...),
		append(c.Cases("500-kinds/controller-runtime", s.rounds, ours, assignment{Contender: "controller-runtime"}, metrics...),
			c.Cases("500-kinds/kro", s.rounds, assignment{Contender: "fleet-metadata"}, assignment{Contender: "kro"}, metrics...)...)...)...)
}
