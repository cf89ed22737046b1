// Package protocol is the conversation of a reflector with an API server, as a state machine
// without goroutines, clock or I/O.
//
// [State.Step] takes an [Input] (a page came, a watch ended, a pause is over) and returns the next
// state and the [Action]s to carry out. The outcome of the last action is the next input. The
// reflector's loop in reflector/run.go does nothing else. The scripts in testdata show whole
// conversations, and a search in the tests visits every conversation of a small server.
//
// # Failures
//
// [Classify] gives each failure a class. The class and the phase decide the reaction. This table is
// the variable reactions in reactions.go, where each reaction is a function:
//
//	             list        probe       watch:        watch:        watch-list:     watch-list:
//	                                     opening       following     asking          streaming
//	Expired      askForLess  skipProbe   relistExpired relistExpired askNewest       askNewest
//	Ahead        askForLess  probeAgain  relistNewest  relistNewest  askNewest       askNewest
//	Invalid      askForLess  skipProbe   relistNewest  relistNewest  askNewest       askNewest
//	Busy         retry       retry       retry         retry         retry           retry
//	Unreachable  retry       probeLater  probeFirst    relist        retry           retry
//	Unanswered   retry       probeLater  probeFirst    relist        listInstead     retry
//	NotServed    retry       probeAgain  relist        relist        retry           breakOff
//	Forbidden    retry       probeAgain  relist        relist        listInstead     breakOff
//	Unsupported  retry       skipProbe   relist        relist        listForAnHour   breakOff
//	Refused      retry       probeAgain  probeFirst    relist        listInstead     breakOff
//	Unreadable   retry       probeAgain  probeFirst    end           listInstead     breakOff
//	OverBudget   retry       probeAgain  probeFirst    relist        retry           retry
//	Other        retry       probeAgain  probeFirst    relist        listInstead     breakOff
//
// A list in the reactions is a watch-list if the server supports it. For example, a status 410 is of the
// class Expired. What happens depends on the request:
//
//   - A watch, refused or open: the reflector lists at once, not older than the store, which the server
//     can answer from its watch cache. If the last list is less than a minute old, it did not help,
//     perhaps because it came from an API server that lags behind the one that refused the watch. So the
//     reflector reports that, and lists at the newest version after a pause of at most 1.6 seconds. That
//     limit doubles, up to 30 seconds, each time the watch after such a list fails within two minutes.
//   - A later page of a list, whose continue token expired: the reflector lists again, without pages.
//   - A list or a watch-list at a version: the reflector asks for the newest version.
//   - A probe: the reflector watches, and the answer to the watch decides.
//
// These are the reactions. Each back-off reports the failure; of the others, only listInstead, breakOff and
// end do, so a 410 that leads to a list at once does not:
//
//   - retry: back off, and begin this step again: a list begins with its first page.
//   - askForLess: list without pages if the continue token is refused, and at the newest version if
//     the version is refused. Otherwise retry.
//   - skipProbe: watch although the probe failed.
//   - probeAgain: after a broken watch, retry the probe twice, then watch. When the server accepts the
//     watch, it is there, so the reflector makes a last probe before it uses the watch. A server that
//     fails the last probe cannot list: for an hour, the reflector asks it for the watch first, and then
//     makes one probe. If the watch was only silent, watch at once. An answer to a probe without a
//     version is such a failure.
//   - probeLater: back off, then begin with probes again.
//   - relist: back off, then list not older than the store.
//   - relistExpired: list at once, not older than the store; or relistNewest if the last list is less than
//     a minute old.
//   - relistNewest: back off, then list at the newest version.
//   - probeFirst: back off, probe, then watch. Once three watches in a row were refused although a
//     probe was answered, or ended within a second without news, and that has lasted for a minute, it relists
//     after each one.
//   - end: the watch ended. Watch again from the position, or from before the bookmarks of the last ten
//     seconds: see settleTime. If it ended at once without news, see probeFirst; if client-go could not
//     read it, the third in a row without news relists.
//   - askNewest: ask for a watch-list at the newest version. If it was for the newest version
//     already: breakOff while streaming; while asking, listForAnHour if the class is Invalid, and
//     listInstead otherwise.
//   - listInstead: list at once, without a watch-list.
//   - listForAnHour: the same, and ask for no watch-list for an hour.
//   - breakOff: back off, then ask for a watch-list again. The third one in a row that breaks, or
//     one without its closing bookmark in time, leads to listForAnHour.
//
// If the last list had no version, the reflector polls: poll.go has the few reactions of that.
//
// # Pauses
//
// Each back-off is a random pause of at least 0.8 seconds. Its limit doubles from 1.6 to 30 seconds,
// and is 1.6 again after two minutes without a failure, or once the server has sent a list or a new
// event: a cache must not be late because of an outage that is over. Lists after a failed watch have
// a back-off of their own, which no list or event ends: a server that sends one event and then refuses
// the version would get one large list after the other. Before the first list, a resource that is not
// served (NotServed) makes a pause no longer than the time since the start, because definitions are
// often installed seconds after the program has started.
//
// A Retry-After of the server, up to ten minutes, replaces the back-off for ten answers in a row,
// with a random share of at most five seconds added. After that the longer one of both counts.
//
// The probe after a broken watch that brought nothing new waits up to half a second, because all
// watches of a server break at once. It does not wait after brief watches in a row.
//
// Watches that last less than ten seconds, one after the other, are resumed 1 to 1.6 seconds after
// the last one was opened, or at once if that is over. TestLongestPause and
// TestNoServerGetsRequestsWithoutEnd search for the longest pauses and the busiest loops.
package protocol
