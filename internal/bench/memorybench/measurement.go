package memorybench

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"

	"github.com/kubereflector/kubereflector/internal/bench/measure"
	"k8s.io/client-go/rest"
)

var measureInProcess = measure.InProcess("memory", measureContender)

// measureContender does what an assignment says.
func measureContender(a assignment) (f measure.Figures, err error) {
	build, ok := contenders[a.Contender]
	if !ok {
		return nil, fmt.Errorf("there is no contender %q", a.Contender)
	}
	made, err := build(&rest.Config{Host: a.Host, QPS: -1})
	if err != nil {
		return nil, err
	}
	empty := measure.LiveHeap()
	var running *measure.Running
	cpu := measure.CPU(func() {
		running = measure.Start(made.run)
		_, err = measure.Wait(running, made.synced())
	})
	defer func() { err = errors.Join(err, running.Close()) }()
	if err != nil {
		return nil, err
	}
	if held := made.len(); held != a.Objects {
		return nil, fmt.Errorf("it holds %d objects where there are %d", held, a.Objects)
	}
	n := float64(a.Objects)
	f = measure.Figures{
		fill.Name: measure.Microseconds(cpu) / n,
		rss.Name:  measure.PeakRSS() / n / kilobyte,
		live.Name: (float64(measure.LiveHeap()) - float64(empty)) / n / kilobyte,
	}
	if err := a.Profiles.Heap("filled"); err != nil {
		return nil, err
	}
	err = measureReads(a, made, f)
	runtime.KeepAlive(made)
	return f, err
}

// measureReads measures the cost of reads.
func measureReads(a assignment, made contender, f measure.Figures) (err error) {
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
	f[read.Name] = measure.Microseconds(cpu) / float64(a.Reads)
	f[allocated.Name] = float64(after.TotalAlloc-before.TotalAlloc) / float64(a.Reads) / kilobyte
	cpu = measure.CPU(func() {
		found = 0
		for range a.Walks {
			found += made.walk()
		}
	})
	if found != a.Walks*a.Objects {
		return fmt.Errorf("%d walks found %d objects where there are %d", a.Walks, found, a.Objects)
	}
	f[walk.Name] = measure.Microseconds(cpu) / float64(found)
	return nil
}
