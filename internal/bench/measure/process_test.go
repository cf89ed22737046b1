package measure

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	Main()
	goleak.VerifyTestMain(m)
}

type task struct{ Objects float64 }

var count = InProcess("count", func(t task) (Figures, error) {
	if t.Objects == 0 {
		return nil, errors.New("there are no objects")
	}
	return Figures{"objects": t.Objects, "process": float64(os.Getpid())}, nil
})

func TestProcessOfItsOwnMeasures(t *testing.T) {
	figures, err := count(task{Objects: 7})
	require.NoError(t, err)
	assert.Equal(t, 7.0, figures["objects"])
	assert.NotEqual(t, float64(os.Getpid()), figures["process"])
}

func TestProcessThatFailsSaysWhy(t *testing.T) {
	_, err := count(task{})
	assert.ErrorContains(t, err, "there are no objects")
}

func TestProfilesAreFilesOfAPhase(t *testing.T) {
	p := Profiles(filepath.Join(t.TempDir(), "ours"))
	stop, err := p.CPU("list")
	require.NoError(t, err)
	require.NoError(t, stop())
	require.NoError(t, p.Heap("list"))
	for _, name := range []string{".list.cpu", ".list.heap"} {
		info, err := os.Stat(string(p) + name)
		require.NoError(t, err)
		assert.Positive(t, info.Size(), name)
	}
	assert.Error(t, (p + "/nowhere/ours").Heap("list"))
}

func TestNoProfilesAreNoFiles(t *testing.T) {
	t.Chdir(t.TempDir())
	stop, err := Profiles("").CPU("list")
	require.NoError(t, err)
	require.NoError(t, stop())
	require.NoError(t, Profiles("").Heap("list"))
	files, err := os.ReadDir(".")
	require.NoError(t, err)
	assert.Empty(t, files)
}
