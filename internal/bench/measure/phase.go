package measure

import (
	"errors"
	"runtime"
	"time"
)

// Phase measures do as the phase of a name, for each of so many objects: CPU and wall time in
// microseconds, and allocations. It writes a CPU profile.
func (f Figures) Phase(p Profiles, name string, objects int, do func() error) error {
	stop, err := p.CPU(name)
	if err != nil {
		return err
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
	f[name+"/cpu"], f[name+"/wall"] = Microseconds(cpu)/n, Microseconds(wall)/n
	f[name+"/allocations"] = float64(after.Mallocs-before.Mallocs) / n
	return errors.Join(err, stop())
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
