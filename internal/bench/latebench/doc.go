// Package latebench measures how late a cache is after a disturbance of its server: the time from
// the moment at which the server answers again, or at which an object is created after that, until
// the cache has the object. It compares an informer of this library with client-go's:
//
//	go test -C internal/bench ./latebench -run Lateness -v -draws 400
//
// It is a test and no subcommand of the benchmarks, because it runs in fake time
// ([testing/synctest]): a draw of minutes takes milliseconds, and no load of the machine is in the
// figures. Each draw has new informers, a random time before the disturbance, and a random length of
// it. The pauses of both sides are random, too, so that figures of 400 draws differ by some percent
// from run to run.
package latebench
