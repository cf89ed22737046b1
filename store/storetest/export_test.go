package storetest

import "time"

// ModelClause is the name of the subtest that writes at random.
const ModelClause = modelClause

// SetPatience shortens the wait for walks that never end, until restore is called.
func SetPatience(d time.Duration) (restore func()) {
	before := patience
	patience = d
	return func() { patience = before }
}
