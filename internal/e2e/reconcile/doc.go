// Package reconcile tests reconcilers against a real API server: what one does alone, what two do of which one is killed, and what is left after faults.
// It has no code of its own.
//
// The controllers are processes: the example samplecontroller, built as it is, and the program of the tests itself as a replica that waits for its turn to
// lead. What they did is asked of the server: from the history of a watch, and from its audit log.
//
// TestEveryFooConvergesWhileTheServerRestarts takes 400 Foos. With all 5,000 of them it takes some minutes:
//
//	KUBEREFLECTOR_STORM=full go test -C internal/e2e -run Converges -v -timeout 30m ./reconcile
package reconcile
