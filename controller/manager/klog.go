package manager

import (
	"log/slog"

	"github.com/kubereflector/kubereflector/internal/klogging"
	"go.uber.org/zap"
	"k8s.io/klog/v2"
)

// RouteKlog sends the log lines of client-go, and of any other user of klog, to a logger, until
// restore is called. klog has one logger for the whole process, without a lock: call RouteKlog
// before any code logs, such as at the beginning of main. Call restore, if at all, after all
// logging has ended. [WithKlog] calls RouteKlog for a manager.
//
// The verbosity V(n) becomes level -n of zap, so zap's Debug is V(1). Enable higher verbosity with
// care: from V(8) on client-go logs the contents of requests and answers. Code that calls klog.V
// also follows klog's flag -v. klog's warnings arrive as Info, because klog does not pass the
// difference on.
func RouteKlog(logger *zap.Logger) (restore func()) {
	before := klog.CaptureState()
	klog.SetSlogLogger(slog.New(klogging.Handler(logger)))
	return before.Restore
}
