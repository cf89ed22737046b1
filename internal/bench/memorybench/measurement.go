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

func measureContender(a assignment) (f measure.Figures, err error) {
	build, ok := contenders[a.Contender]
	if !ok {
		return nil, fmt.Errorf("there is no contender %q", a.Contender)
	}
	made, err := build(&rest.Config{Host: a.Host, QPS: -1})
	if err != nil {
		return nil, err
	}
	f = measure.Figures{}
	empty := measure.LiveHeap()
	var running *measure.Running
	err = f.Phase(a.Profiles, "fill", a.Objects, func() error {
		running = measure.Start(made.run)
		return made.filled(running)
	})
	defer func() { err = errors.Join(err, running.Close()) }()
	if err != nil {
		return nil, err
	}
	f[rss.Name] = measure.PeakRSS() / float64(a.Objects) / kilobyte
	f[live.Name] = (float64(measure.LiveHeap()) - float64(empty)) / float64(a.Objects) / kilobyte
	if err := a.Profiles.Heap("filled"); err != nil {
		return nil, err
	}
	keys := made.keys()
	if len(keys) != a.Objects {
		return nil, fmt.Errorf("it holds %d objects where there are %d", len(keys), a.Objects)
	}
	rand.New(rand.NewPCG(7, 8)).Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	err = f.Phase(a.Profiles, "read", a.Reads, func() error {
		for i := range a.Reads {
			if key := keys[i%len(keys)]; !made.read(key) {
				return fmt.Errorf("%v is not there", key)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	const walks = 2
	err = f.Phase(a.Profiles, "walk", walks*a.Objects, func() error {
		for range walks {
			if found := made.walk(); found != a.Objects {
				return fmt.Errorf("a walk found %d objects where there are %d", found, a.Objects)
			}
		}
		return nil
	})
	runtime.KeepAlive(made)
	return f, err
}
