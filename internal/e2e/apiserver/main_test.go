package apiserver

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

var shared Shared

func TestMain(m *testing.M) {
	if os.Getenv(forgetfulVariable) != "" {
		forgetful()
	}
	goleak.VerifyTestMain(shared.Tests(m))
}
