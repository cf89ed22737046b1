package leader

import (
	"context"
	"sync"
	"time"

	"github.com/kubereflector/kubereflector/internal/cut"
	"go.uber.org/zap"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// waiting logs why a process does not lead. A candidate tries every RetryPeriod, so it logs each
// reason only once: who holds the lease, until that changes, and why a request fails, until the
// request succeeds again. A request that fails now and then is logged at most once a minute.
type waiting struct {
	elector *Elector

	mu     sync.Mutex            // protects the fields below
	holder string                // the reason or the holder that was logged last; empty while this process leads
	failed map[failure]time.Time // when each failure was logged last
	works  map[string]bool       // requests that succeeded since their last failure
}

// failure is a request with the reason of its refusal. An error without a status, such as a refused
// connection, has the reason Unknown.
type failure struct {
	request string
	reason  metav1.StatusReason
}

// sameFailure is the time after which a failure is logged again if the request succeeded meanwhile.
const sameFailure = time.Minute

// leads records that this process leads.
func (w *waiting) leads() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.holder, w.failed, w.works = "", nil, nil
}

// answered records that a request succeeded.
func (w *waiting) answered(request string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.failed) > 0 {
		w.works[request] = true
	}
}

// refused logs that a request of a candidate failed, unless the candidate is to end.
func (w *waiting) refused(ctx context.Context, request string, err error) {
	if ctx.Err() != nil {
		return
	}
	why, now := failure{request, apierrors.ReasonForError(err)}, time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	last, known := w.failed[why]
	if known && (!w.works[request] || now.Sub(last) < sameFailure) {
		return
	}
	if w.failed == nil {
		w.failed, w.works = map[failure]time.Time{}, map[string]bool{}
	}
	w.failed[why], w.works[request] = now, false
	level := zap.WarnLevel
	if apierrors.IsConflict(err) {
		level = zap.InfoLevel // another candidate was faster, as the next read shows
	}
	w.log().Log(level, "not leading: cannot "+request+" the lease", zap.Error(err))
}

// held logs who holds the lease, or why a candidate does not take a lease without a certain holder.
func (w *waiting) held(record *resourcelock.LeaderElectionRecord, why string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	reason := why
	if why == "" {
		reason = "held by " + record.HolderIdentity
	}
	switch {
	case reason == w.holder, why == freeLease && w.holder == missingLease: // this process created it
		return
	case why == "" && record.HolderIdentity == "":
		return // given up: it is taken now
	}
	w.holder = reason
	theirs := time.Duration(record.LeaseDurationSeconds) * time.Second
	switch {
	case why != "":
		w.log().Warn("not leading: "+why, zap.Duration("leaseDuration", max(theirs, w.elector.lease)))
	case theirs > maxLeases*w.elector.lease:
		w.log().Warn("not leading: another process holds the lease for far longer than this one would: if it does not run, delete the Lease", zap.String("holder", cut.Text(record.HolderIdentity, cut.MaxName)), zap.Duration("leaseDuration", theirs))
	default:
		w.log().Info("not leading: another process holds the lease", zap.String("holder", cut.Text(record.HolderIdentity, cut.MaxName)), zap.Duration("leaseDuration", max(theirs, w.elector.lease)))
	}
}

// maxLeases is how many times longer than this process's own a lease of another process may be
// before the log calls it strange.
const maxLeases = 10

// log returns the logger with the lease and the next try.
func (w *waiting) log() *zap.Logger {
	return w.elector.logger.With(zap.String("lease", w.elector.lock.Describe()), zap.Duration("tryAgainIn", w.elector.retry))
}
