package latebench

import (
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// disturbance is one way in which a server fails its clients.
type disturbance struct {
	name string
	// timeout is the Timeout of the clients' config; 0 is none.
	timeout time.Duration
	// disturb disturbs a server with open watches, and creates the object. It returns at the moment
	// from which lateness counts.
	disturb func(server *reflectortest.Server, create func())
}

var disturbances = []disturbance{
	{name: "watch-closed", disturb: func(s *reflectortest.Server, create func()) {
		cut(s)
		create()
	}},
	// The same for a watch that has brought nothing, because it is not the first one.
	{name: "quiet-closed", disturb: func(s *reflectortest.Server, create func()) {
		<-time.After(11 * time.Minute)
		cut(s)
		create()
	}},
	// client-go's typed clients, on both sides, end a watch after the Timeout of their config.
	{name: "short-watches", timeout: 3 * time.Second, disturb: func(_ *reflectortest.Server, create func()) {
		<-time.After(between(0, time.Minute))
		create()
	}},
	{name: "refused", disturb: outage(reflectortest.Refuse())},
	{name: "closed", disturb: outage(reflectortest.ResetAfterEvents(0))},
	{name: "503", disturb: outage(reflectortest.Answer(http.StatusServiceUnavailable))},
	// A server that restarts answers like this until its storage is ready.
	{name: "refused-429", disturb: func(s *reflectortest.Server, create func()) {
		outage(reflectortest.Refuse())(s, create)
		s.Inject(reflectortest.Answer(http.StatusTooManyRequests)) // with a Retry-After of one second
		<-time.After(between(time.Second, 20*time.Second))
		s.ClearFaults()
	}},
	// The server is overloaded, says not how long, and has lost its history when it answers again.
	{name: "429-410", disturb: func(s *reflectortest.Server, create func()) {
		outage(reflectortest.AnswerStatus(metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusTooManyRequests, Reason: metav1.StatusReasonTooManyRequests,
		}))(s, create)
		s.Inject(reflectortest.LoseHistory().On("watch", "configmaps").Times(1))
	}},
}

// outage returns a disturbance that treats all requests like a fault for some time. The object is
// created meanwhile.
func outage(f reflectortest.Fault) func(*reflectortest.Server, func()) {
	return func(s *reflectortest.Server, create func()) {
		s.Inject(f)
		cut(s)
		<-time.After(4 * time.Second)
		create()
		<-time.After(between(time.Second, time.Minute))
		s.ClearFaults()
	}
}

// cut ends all watches.
func cut(s *reflectortest.Server) {
	if err := s.Restore(s.ResourceVersion()); err != nil {
		panic(err) // the current version is never refused
	}
}

// between returns a random time.
func between(shortest, longest time.Duration) time.Duration {
	return shortest + rand.N(longest-shortest)
}
