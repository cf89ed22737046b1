// Package reconcile tests reconcilers and managers on a real API server: one alone, two of which one
// is killed, and after faults. It has no code of its own.
//
// The controllers are processes: the example samplecontroller, the example operator, and the program
// of the tests as a replica. The tests read what these did from the server: from the history of a
// watch, and from its audit log. The tests of managers and of writes run in the process of the tests.
//
// TestEveryFooConvergesWhileTheServerRestarts takes 400 Foos. With all 5,000 of them it takes some minutes:
//
//	KUBEREFLECTOR_STORM=full go test -C internal/e2e -run Converges -v -timeout 30m ./reconcile
package reconcile
