package wire

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/kubereflector/kubereflector/internal/e2e/apiserver"
)

var shared apiserver.Shared

func TestMain(m *testing.M) { goleak.VerifyTestMain(shared.Tests(m)) }
