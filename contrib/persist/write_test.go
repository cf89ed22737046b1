package persist

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/store"
	"github.com/kubereflector/kubereflector/store/storetest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"
)

func TestRunWritesAfterTheDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, fresh(t))
		stop := run(t, s)
		synctest.Wait()
		begin := time.Now()
		require.NoError(t, s.Replace([]*object{storetest.New("n", "a", "1", "5")}, "9"))
		<-time.After(defaultDelay / 2)
		require.NoError(t, s.Bookmark("10"))
		synctest.Wait()
		state := s.State()
		assert.Equal(t, 1, state.Unwritten)
		assert.Equal(t, begin, state.Since)
		assert.True(t, state.Written.IsZero())
		<-time.After(defaultDelay / 2)
		synctest.Wait()
		state = s.State()
		assert.Zero(t, state.Unwritten)
		assert.Zero(t, state.UnwrittenBytes)
		assert.Equal(t, begin.Add(defaultDelay), state.Written)
		assert.Equal(t, uint64(1), s.saved.Transaction, "one for both")
		assert.Equal(t, "10", s.saved.Version)

		<-time.After(time.Hour)
		assert.Equal(t, uint64(1), s.saved.Transaction, "without a change nothing is written")
		require.NoError(t, s.Bookmark("11"))
		stop()
		assert.Equal(t, "11", s.saved.Version, "the end of Run writes the rest")
	})
}

func TestRunWritesAtOnceWhenThereIsMuch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := Open(fresh(t), store.ObjectKey[*object], Options[*object]{Delay: time.Hour, MaxUnwritten: 8 << 10})
		require.NoError(t, err)
		defer s.Close()
		defer run(t, s)()
		begin := time.Now()
		require.NoError(t, s.Replace(nil, "1"))
		for n := range 100 {
			require.NoError(t, s.Add(storetest.New("n", fmt.Sprint(n), "1", fmt.Sprint(n+5))))
			require.LessOrEqual(t, s.State().UnwrittenBytes, 8<<10)
		}
		assert.Equal(t, begin, time.Now())
	})
}

func TestWithoutRunTheWriterWritesWhenThereIsTooMuch(t *testing.T) {
	s, err := Open(fresh(t), store.ObjectKey[*object], Options[*object]{MaxUnwritten: 8 << 10})
	require.NoError(t, err)
	defer s.Close()
	require.NoError(t, s.Replace(nil, "1"))
	assert.Zero(t, s.saved.Transaction, "until then nobody does")
	for n := range 100 {
		require.NoError(t, s.Add(storetest.New("n", fmt.Sprint(n), "1", fmt.Sprint(n+5))))
		require.LessOrEqual(t, s.State().UnwrittenBytes, 8<<10)
	}
	assert.NotZero(t, s.saved.Transaction)
	require.NoError(t, s.Flush())
	assert.Equal(t, 100, s.saved.Objects)
}

func TestRunRunsOnceAndAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, fresh(t))
		stop := run(t, s)
		synctest.Wait()
		require.ErrorIs(t, s.Run(t.Context()), reflector.ErrRunning)
		stop()
		stop = run(t, s)
		synctest.Wait()
		require.NoError(t, s.Close())
		stop()
		require.ErrorIs(t, s.Run(t.Context()), ErrClosed)
		require.ErrorIs(t, s.Flush(), ErrClosed)
		require.NoError(t, s.Close(), "again")
	})
}

func TestClosedStoreIsACacheAndNothingElse(t *testing.T) {
	path := fresh(t)
	s := open(t, path)
	require.NoError(t, s.Replace([]*object{storetest.New("n", "a", "1", "5")}, "9"))
	require.NoError(t, s.Close())
	require.NoError(t, s.Add(storetest.New("n", "b", "2", "10")))
	assert.Len(t, held(s), 2)
	state := s.State()
	assert.False(t, state.Lasting)
	require.ErrorIs(t, state.Err, ErrClosed)
	assert.Len(t, held(open(t, path)), 1)
}

// late receives commits after a while, like a follower behind a slow one.
type late struct{ of follower[*object] }

func (l late) Start(*store.Snapshot[*object]) {}

func (l late) Commit(commit *store.Commit[*object]) {
	<-time.After(50 * time.Millisecond)
	l.of.Commit(commit)
}

func TestFlushWritesWhatCanBeRead(t *testing.T) {
	path := fresh(t)
	s := open(t, path)
	require.NoError(t, s.Replace(nil, "1"))
	s.stop()
	s.stop = s.cache.Follow(late{follower[*object]{s.note}})
	added := make(chan error, 1)
	go func() { added <- s.Add(storetest.New("n", "a", "1", "5")) }()
	for s.ResourceVersion() != "5" { // visible before the followers receive the commit
		runtime.Gosched()
	}
	require.NoError(t, s.Flush())
	assert.Equal(t, "5", s.saved.Version)
	require.NoError(t, <-added)
}

// What comes and goes between two transactions leaves nothing behind.
func TestWhatNeedNotBeWrittenIsForgotten(t *testing.T) {
	s := open(t, fresh(t))
	require.NoError(t, s.Replace(nil, "1"))
	for n := range 1000 {
		o := storetest.New("n", fmt.Sprint(n), fmt.Sprint(n), fmt.Sprint(10+2*n))
		require.NoError(t, s.Add(o))
		require.NoError(t, s.Delete(o.At(fmt.Sprint(11+2*n))))
	}
	assert.Empty(t, s.pending.changes)
	require.NoError(t, s.Flush())
	assert.Equal(t, "2009", s.saved.Version)
}

// limitFiles lets no file grow beyond some bytes, until the returned function is called.
func limitFiles(t *testing.T, bytes uint64) (lift func()) {
	t.Helper()
	signal.Ignore(syscall.SIGXFSZ)
	var before syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before))
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: bytes, Max: before.Max}))
	lift = sync.OnceFunc(func() { assert.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before)) })
	t.Cleanup(lift)
	return lift
}

// limitEnv is set in the process whose files are limited: go test writes files, too.
const limitEnv = "KUBEREFLECTOR_PERSIST_LIMIT"

func TestFileThatCannotGrowStopsNothing(t *testing.T) {
	if os.Getenv(limitEnv) == "" {
		child := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		child.Env = append(os.Environ(), limitEnv+"=yes")
		output, err := child.CombinedOutput()
		require.NoError(t, err, string(output))
		require.Contains(t, string(output), "--- PASS: "+t.Name())
		return
	}
	synctest.Test(t, func(t *testing.T) {
		path := fresh(t)
		var mu sync.Mutex
		var failures []error
		s, err := Open(path, store.ObjectKey[*object], Options[*object]{MaxUnwritten: 64 << 10, ErrorHandler: func(err error) {
			mu.Lock()
			defer mu.Unlock()
			failures = append(failures, err)
		}})
		require.NoError(t, err)
		stop := run(t, s)
		require.NoError(t, s.Replace([]*object{storetest.New("n", "a", "1", "5")}, "9"))
		require.NoError(t, s.Flush())
		lift := limitFiles(t, 256<<10)
		large := strings.Repeat("x", 1<<10)
		for n := range 1000 {
			o := storetest.New("n", fmt.Sprint(n), "1", fmt.Sprint(n+10))
			o.Payload = large
			require.NoError(t, s.Add(o))
		}
		state := s.State()
		assert.False(t, state.Lasting)
		require.ErrorContains(t, state.Err, syscall.EFBIG.Error())
		assert.Equal(t, 1001, s.Len(), "it works from memory")
		_, ok := errors.AsType[*FileError](state.Err)
		assert.True(t, ok)
		saved := func() string {
			s.writing.Lock()
			defer s.writing.Unlock()
			return s.saved.Version
		}
		before := saved()
		<-time.After(10 * time.Minute)
		synctest.Wait()
		assert.Equal(t, before, saved(), "the file is as it was")
		mu.Lock()
		assert.Greater(t, len(failures), 10, "it is tried again")
		assert.Less(t, len(failures), 25, "more and more seldom")
		mu.Unlock()
		lift()
		<-time.After(maxRetry)
		synctest.Wait()
		state = s.State()
		assert.True(t, state.Lasting)
		require.NoError(t, state.Err)
		assert.Zero(t, state.Unwritten)
		stop()
		want := held(s)
		require.NoError(t, s.Close())
		assert.Equal(t, want, held(open(t, path)), "nothing is lacking")
	})
}

type failing struct{ none[*object] }

func (failing) Encode(*object) ([]byte, error) { return nil, errors.New("no way") }

// A first list takes several transactions. One that was not finished is no state.
func TestFirstListThatWasNotFinishedIsForgotten(t *testing.T) {
	path := fresh(t)
	s, err := Open(path, store.ObjectKey[*object], Options[*object]{chunk: 2})
	require.NoError(t, err)
	s.update = func(f func(*bolt.Tx) error) error {
		if s.saved.Transaction == 2 {
			return errors.New("no room")
		}
		return s.file.Update(f)
	}
	var all []*object
	for n := range 6 {
		all = append(all, storetest.New("n", fmt.Sprint(n), "1", fmt.Sprint(n+1)))
	}
	require.NoError(t, s.Replace(all, "9"))
	require.Error(t, s.Flush())
	require.Equal(t, 4, s.saved.Objects, "the transactions before were made")
	s.stop()
	require.NoError(t, s.file.Close())

	s = open(t, path)
	assert.Zero(t, s.Len())
	assert.Empty(t, s.ResourceVersion())
	require.NoError(t, s.Replace(all[3:5], "10"))
	want := held(s)
	require.NoError(t, s.Close())
	assert.Equal(t, want, held(open(t, path)), "nothing is left of it")
}

func TestFlushReportsAFileThatIsNotThereAnyMore(t *testing.T) {
	for name, remove := range map[string]func(t *testing.T, path string){
		"deleted":  func(t *testing.T, path string) { require.NoError(t, os.Remove(path)) },
		"replaced": func(t *testing.T, path string) { require.NoError(t, os.Rename(path+".other", path)) },
	} {
		t.Run(name, func(t *testing.T) {
			path := fresh(t)
			require.NoError(t, os.WriteFile(path+".other", []byte("x"), 0o600))
			s, err := tryOpen(path)
			require.NoError(t, err)
			require.NoError(t, s.Replace([]*object{storetest.New("n", "a", "1", "5")}, "9"))
			require.NoError(t, s.Flush())
			require.NoError(t, os.Link(path, path+".kept"))
			remove(t, path)
			require.ErrorIs(t, s.Flush(), ErrReplaced, "also if there is nothing to write")
			require.NoError(t, s.Add(storetest.New("n", "b", "2", "10")))
			failure, ok := errors.AsType[*FileError](s.Flush())
			require.True(t, ok)
			assert.Equal(t, path, failure.Path)
			assert.False(t, s.State().Lasting)
			require.ErrorIs(t, s.State().Err, ErrReplaced)
			assert.Equal(t, 1, s.State().Unwritten)
			assert.Equal(t, 2, s.Len(), "the store works")

			require.NoError(t, os.Rename(path+".kept", path))
			require.NoError(t, s.Flush(), "it is back")
			assert.True(t, s.State().Lasting)
			want := contentsOf(s)
			require.NoError(t, os.Remove(path))
			require.ErrorIs(t, s.Close(), ErrReplaced)
			assert.NotEmpty(t, want)
		})
	}
}

func TestFirstListWhoseChunkFailsAtItsVeryEndIsWhole(t *testing.T) {
	path := fresh(t)
	s, err := tryOpen(path)
	require.NoError(t, err)
	s.options.chunk = 2
	var all []*object
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		all = append(all, storetest.New("n", name, name, "5"))
	}
	require.NoError(t, s.Replace(all, "9"))
	failAfterCommit(s, 1)
	require.Error(t, s.Flush())
	require.NoError(t, s.Flush())
	want := contentsOf(s)
	require.NoError(t, s.Close())
	assert.Equal(t, want, reopen(t, path))
}

func TestNameOfANewFileIsMadeToLast(t *testing.T) {
	path, names := fresh(t), syncs(t)
	s, err := tryOpen(path)
	require.NoError(t, err)
	require.NoError(t, s.Close())
	assert.Contains(t, *names, filepath.Dir(path))
}

// The last thing that bbolt does is to make the file last. When that fails, what was
// written is there nevertheless.
func TestTransactionThatFailedAtItsVeryEndIsCountedOnce(t *testing.T) {
	path := fresh(t)
	s := open(t, path)
	a, b := storetest.New("n", "a", "1", "5"), storetest.New("n", "b", "1", "6")
	require.NoError(t, s.Replace([]*object{a}, "9"))
	require.NoError(t, s.Flush())
	failAfterCommit(s, 1)
	require.NoError(t, s.Add(b.At("10")))
	require.ErrorContains(t, s.Flush(), "no fsync")
	assert.False(t, s.State().Lasting)
	require.NoError(t, s.Delete(b.At("11")))
	require.NoError(t, s.Flush())
	assert.True(t, s.State().Lasting)
	want := held(s)
	require.NoError(t, s.Close())
	next := open(t, path)
	assert.Equal(t, want, held(next), "b is not there any more")
	assert.Equal(t, "11", next.ResourceVersion())
}

// A second transaction makes last what the first one wrote, also if nothing else comes.
func TestTransactionThatFailedAtItsVeryEndIsMadeToLast(t *testing.T) {
	s := open(t, fresh(t))
	require.NoError(t, s.Replace([]*object{storetest.New("n", "a", "1", "5")}, "9"))
	failAfterCommit(s, 1)
	require.Error(t, s.Flush())
	require.NoError(t, s.Flush())
	assert.True(t, s.State().Lasting)
	assert.Equal(t, uint64(2), s.saved.Transaction)
}

// ending ends the goroutine while it is switched on, as tests do that fail.
type ending struct {
	Codec[*object]
	now *bool
}

func (e ending) Encode(o *object) ([]byte, error) {
	if *e.now {
		runtime.Goexit()
	}
	return e.Codec.Encode(o)
}

func TestCodecThatEndsTheGoroutineLosesNothing(t *testing.T) {
	path, now := fresh(t), true
	s, err := Open(path, store.ObjectKey[*object], Options[*object]{Codec: ending{JSON[*object](), &now}})
	require.NoError(t, err)
	require.NoError(t, s.Replace([]*object{storetest.New("n", "a", "1", "5")}, "9"))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.Flush()
	}()
	<-ended
	assert.False(t, s.State().Lasting)
	now = false
	require.NoError(t, s.Bookmark("10"))
	require.NoError(t, s.Close())
	assert.Len(t, held(open(t, path)), 1)
}

func TestErrorHookMayCloseTheStore(t *testing.T) {
	var s *Store[*object]
	called := 0
	s, err := Open(fresh(t), store.ObjectKey[*object], Options[*object]{Codec: failing{}, ErrorHandler: func(error) {
		called++
		assert.Error(t, s.Close())
	}})
	require.NoError(t, err)
	require.NoError(t, s.Replace([]*object{storetest.New("n", "a", "1", "5")}, "9"))
	require.ErrorContains(t, s.Flush(), "no way")
	assert.Equal(t, 1, called)
	require.ErrorIs(t, s.Flush(), ErrClosed)
}

// The file cannot be read while the state of a transaction that failed is asked for, nor before the next one.
func TestFileThatIsOverwrittenInPlaceStopsNothing(t *testing.T) {
	path := fresh(t)
	s, err := tryOpen(path)
	require.NoError(t, err)
	require.NoError(t, s.Replace([]*object{storetest.New("n", "a", "1", "5")}, "9"))
	require.NoError(t, s.Flush())
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	defer f.Close()
	head := make([]byte, 2*os.Getpagesize()) // both meta pages
	overwrite := func() {
		_, err := f.ReadAt(head, 0)
		require.NoError(t, err)
		_, err = f.WriteAt(make([]byte, len(head)), 0)
		require.NoError(t, err)
	}
	overwrite()
	require.NoError(t, s.Add(storetest.New("n", "b", "2", "10")))
	for range 2 {
		require.ErrorIs(t, s.Flush(), ErrDamaged)
	}
	assert.Equal(t, 2, s.Len(), "the store works")
	_, err = f.WriteAt(head, 0)
	require.NoError(t, err)
	require.NoError(t, s.Flush(), "it is back")
	want := contentsOf(s)
	require.NoError(t, s.Add(storetest.New("n", "c", "3", "11")))
	overwrite()
	require.ErrorIs(t, s.Close(), ErrDamaged)
	_, err = tryOpen(path)
	require.ErrorIs(t, err, ErrForeign, "it is not locked any more")
	_, err = f.WriteAt(head, 0)
	require.NoError(t, err)
	assert.Equal(t, want, reopen(t, path))
}

func TestChangesSurviveAFileThatCouldNotBeReadForAWhile(t *testing.T) {
	path := fresh(t)
	s, err := tryOpen(path)
	require.NoError(t, err)
	require.NoError(t, s.Replace([]*object{storetest.New("n", "a", "1", "5")}, "9"))
	require.NoError(t, s.Flush())
	require.NoError(t, s.Add(storetest.New("n", "b", "2", "10")))
	s.writing.Lock()
	s.unsure, s.saved = true, fileState{} // as after two reads that failed
	s.mu.Lock()
	batch := s.pending
	s.pending = pending[*object]{}
	s.mu.Unlock()
	require.Error(t, s.settle(batch, writer[*object]{}, errors.New("cannot be read")))
	s.writing.Unlock()
	require.NoError(t, s.Flush())
	want := contentsOf(s)
	require.NoError(t, s.Close())
	assert.Equal(t, want, reopen(t, path))
}
