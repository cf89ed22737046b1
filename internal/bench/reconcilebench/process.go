package reconcilebench

import "github.com/kubereflector/kubereflector/internal/bench/wirebench"

var worker = wirebench.Worker[assignment, sample]{Variable: "KUBEREFLECTOR_BENCH_RECONCILE", Work: measureContender}

// Main does the work of a contender and exits, in a process that [Run] started; in others it returns. A program that calls Run
// calls Main and [wirebench.Main] first.
func Main() { worker.Main() }
