//go:build jobset010

package jobset

import (
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
)

// bugs are two, in several scenarios.
//
// An update of the status that fails with anything but a conflict is not tried again:
// https://github.com/kubernetes-sigs/jobset/issues/1193. The next event makes up for it, so it shows only
// at the last update, or if updates fail for long.
//
// A JobSet takes the Jobs of an earlier one of its name for its own, and ends when they have:
// https://github.com/kubernetes-sigs/jobset/issues/1165.
var bugs = []bug{
	{"runs", "fail update jobsets/status default/a#5 with 500", `.status.terminalState is absent, undisturbed "Completed"`},
	{"restarts", "fail update jobsets/status default/a#9 with 500", `.status.terminalState is absent, undisturbed "Completed"`},
	{"restarts", "fail update jobsets/status default/a#1 with 500 for 10m", `[jobset.sigs.k8s.io/restart-attempt] is "0", undisturbed "1"`},
	{"created again", "fail update jobsets/status default/a#5 with 500", `.status.terminalState is absent, undisturbed "Completed"`},
	{"created again", "steps 2 and 3 together", "Job default/a-workers-0 is missing"},
}

func recorder(m ctrl.Manager, name string) record.EventRecorder {
	//lint:ignore SA1019 this version needs it
	return m.GetEventRecorderFor(name)
}
