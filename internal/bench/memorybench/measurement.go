package memorybench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"

	"github.com/kubereflector/kubereflector/internal/bench/measure"
	"k8s.io/client-go/rest"
)

// measureContender does what an assignment says.
func measureContender(a assignment) (s sample, err error) {
	build, ok := contenders[a.Contender]
	if !ok {
		return s, fmt.Errorf("there is no contender %q", a.Contender)
	}
	made, err := build(&rest.Config{Host: a.Host, QPS: -1})
	if err != nil {
		return s, err
	}
	empty := measure.LiveHeap()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	cpu := measure.CPU(func() {
		go func() { ended <- made.run(ctx) }()
		select {
		case <-made.synced():
		case err = <-ended:
			ended <- err
			err = fmt.Errorf("it ended before it was synced: %w", err)
		}
	})
	defer func() {
		stop()
		err = errors.Join(err, <-ended)
	}()
	if err != nil {
		return s, err
	}
	if held := made.len(); held != a.Objects {
		return s, fmt.Errorf("it holds %d objects where there are %d", held, a.Objects)
	}
	n := float64(a.Objects)
	s.Fill = measure.Microseconds(cpu) / n
	s.RSS = measure.PeakRSS() / n
	s.Live = (float64(measure.LiveHeap()) - float64(empty)) / n
	if err := a.Profiles.Heap("filled"); err != nil {
		return s, err
	}
	err = measureReads(a, made, &s)
	runtime.KeepAlive(made)
	return s, err
}

// measureReads measures the cost of reads.
func measureReads(a assignment, made contender, s *sample) (err error) {
	stop, err := a.Profiles.CPU("read")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	keys := made.keys()
	random := rand.New(rand.NewPCG(7, 8))
	random.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	found := 0
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	cpu := measure.CPU(func() {
		for left := a.Reads; left > 0; left -= len(keys) {
			found += made.read(keys[:min(left, len(keys))])
		}
	})
	runtime.ReadMemStats(&after)
	if found != a.Reads {
		return fmt.Errorf("%d of %d reads found their object", found, a.Reads)
	}
	s.Read = measure.Microseconds(cpu) / float64(a.Reads)
	s.Allocated = float64(after.TotalAlloc-before.TotalAlloc) / float64(a.Reads)
	cpu = measure.CPU(func() {
		found = 0
		for range a.Walks {
			found += made.walk()
		}
	})
	if found != a.Walks*a.Objects {
		return fmt.Errorf("%d walks found %d objects where there are %d", a.Walks, found, a.Objects)
	}
	s.Walk = measure.Microseconds(cpu) / float64(found)
	return nil
}
