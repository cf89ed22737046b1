package measure

import (
	"flag"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func parse(t *testing.T, args ...string) (Options, error) {
	t.Helper()
	var o Options
	flags := flag.NewFlagSet("test", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	o.Register(flags)
	return o, flags.Parse(args)
}

func TestFlags(t *testing.T) {
	o, err := parse(t, "-quick", "-run", "^a")
	require.NoError(t, err)
	assert.True(t, o.Quick)
	assert.Equal(t, "^a", o.Pattern.String())

	_, err = parse(t, "-run", "(")
	assert.Error(t, err)
}

func TestQuickMeasuresFewerRounds(t *testing.T) {
	quick, thorough := Options{Quick: true}, Options{}
	assert.Less(t, quick.rounds(), thorough.rounds())
	assert.Equal(t, 1, quick.rounds()%2, "an odd number, so that the median is a figure that was measured")
}

func TestTimeOfAQuickRunIsShared(t *testing.T) {
	quick, thorough := Options{Quick: true}, Options{}
	assert.Equal(t, quickTime/10, quick.share(0, 10))
	assert.Equal(t, time.Second, quick.share(quickTime-2*time.Second, 2))
	assert.Equal(t, time.Duration(1), quick.share(2*quickTime, 3), "0 would be no limit")
	assert.Zero(t, thorough.share(time.Hour, 1))
}

func TestProfile(t *testing.T) {
	o := Options{CPUProfile: filepath.Join(t.TempDir(), "cpu.out")}
	assert.ErrorIs(t, o.Profile(func() error { return assert.AnError }), assert.AnError)
	content, err := os.ReadFile(o.CPUProfile)
	require.NoError(t, err)
	assert.NotEmpty(t, content)

	o.CPUProfile = filepath.Join(t.TempDir(), "no", "such", "folder")
	assert.ErrorIs(t, o.Profile(func() error { return nil }), os.ErrNotExist)

	called := false
	require.NoError(t, new(Options).Profile(func() error { called = true; return nil }))
	assert.True(t, called)
}
