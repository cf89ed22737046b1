package measure

import (
	"errors"
	"runtime"
	"time"
)

// Usage is what a phase takes for each object: times in microseconds.
type Usage struct {
	CPU    float64 `json:"cpu"`
	Wall   float64 `json:"wall"`
	Allocs float64 `json:"allocs"`
	Bytes  float64 `json:"bytes"`
}

// Phase measures do, and writes a CPU profile of it.
func (p Profiles) Phase(name string, objects int, do func() error) (u Usage, err error) {
	stop, err := p.CPU(name)
	if err != nil {
		return u, err
	}
	var before, after runtime.MemStats
	var wall time.Duration
	cpu := CPU(func() {
		runtime.ReadMemStats(&before)
		begin := time.Now()
		err = do()
		wall = time.Since(begin)
	})
	runtime.ReadMemStats(&after)
	n := float64(objects)
	return Usage{
		CPU: Microseconds(cpu) / n, Wall: Microseconds(wall) / n,
		Allocs: float64(after.Mallocs-before.Mallocs) / n, Bytes: float64(after.TotalAlloc-before.TotalAlloc) / n,
	}, errors.Join(err, stop())
}

// Phase measures do as the phase of a name, for each of so many objects: CPU and wall time in
// microseconds, and allocations. It writes a CPU profile.
func (f Figures) Phase(p Profiles, name string, objects int, do func() error) error {
	u, err := p.Phase(name, objects, do)
	f[name+"/cpu"], f[name+"/wall"], f[name+"/allocations"] = u.CPU, u.Wall, u.Allocs
	return err
}

// Microseconds returns a duration in microseconds, with its fraction.
func Microseconds(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }

// idle is how long a process must do nothing for its work to be done.
const idle = 50 * time.Millisecond

// Settle waits until the process does nothing.
func Settle() {
	for used := Used(); ; used = Used() {
		time.Sleep(idle)
		if Used()-used < time.Millisecond {
			return
		}
	}
}
