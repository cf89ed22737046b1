package persist

import (
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(fileEnv); path != "" {
		os.Exit(live(path))
	}
	goleak.VerifyTestMain(m)
}

// patience is how long anything may take before a test fails. A back-off alone can be half a minute, and the machine may be slow.
const patience = 3 * time.Minute
