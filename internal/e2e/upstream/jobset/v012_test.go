//go:build !jobset010

package jobset

import (
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
)

var bugs []bug

func recorder(m ctrl.Manager, name string) events.EventRecorder { return m.GetEventRecorder(name) }
