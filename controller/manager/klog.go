package manager

import (
	"log/slog"

	"github.com/kubereflector/kubereflector/internal/klogging"
	"go.uber.org/zap"
	"k8s.io/klog/v2"
)

// RouteKlog has all that client-go logs, and whatever else uses klog, go to a logger, until
// restore is called. klog has one logger for the whole process, and does not guard it: call
// RouteKlog before anything logs, such as at the beginning of main, and restore, if at all,
// when nothing does any more. [WithKlog] does it for a manager.
//
// The verbosity V(n) is level -n of zap, so that zap's Debug is V(1). More of it is a
// decision of its own: from V(8) on client-go logs what it sends and receives. Code that
// calls klog.V itself follows klog's flag -v as well. klog's warnings come as Info: it does
// not pass on that they are any.
func RouteKlog(logger *zap.Logger) (restore func()) {
	before := klog.CaptureState()
	klog.SetSlogLogger(slog.New(klogging.Handler(logger)))
	return before.Restore
}
