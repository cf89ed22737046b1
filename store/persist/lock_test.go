package persist

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"

	"github.com/kubereflector/kubereflector/store/storetest"
)

// reading opens a file only for reading.
func reading(t *testing.T, path string) (end func()) {
	t.Helper()
	db, err := bolt.Open(path, 0o600, &bolt.Options{Timeout: 1, ReadOnly: true})
	require.NoError(t, err)
	end = sync.OnceFunc(func() { assert.NoError(t, db.Close()) })
	t.Cleanup(end)
	return end
}

// One that reads the file and then refuses it must not keep out one that takes it.
func TestFileThatOthersReadIsWaitedFor(t *testing.T) {
	path, _ := written(t)
	synctest.Test(t, func(t *testing.T) {
		end := reading(t, path)
		opened := make(chan error, 1)
		go func() {
			s, err := Open(path, storetest.ClusterKey, asked)
			if err == nil {
				err = s.Close()
			}
			opened <- err
		}()
		synctest.Wait()
		select {
		case err := <-opened:
			t.Fatalf("it did not wait: %v", err)
		default:
		}
		end()
		require.NoError(t, <-opened)
	})
}

func TestFileThatOthersGoOnReadingIsGivenUp(t *testing.T) {
	path, _ := written(t)
	synctest.Test(t, func(t *testing.T) {
		defer reading(t, path)()
		begin := time.Now()
		_, err := Open(path, storetest.ClusterKey, asked)
		require.ErrorIs(t, err, ErrLocked)
		assert.LessOrEqual(t, time.Since(begin), patience)
	})
}

func TestOneOfThoseThatOpenAFileAtOnceHasIt(t *testing.T) {
	for round := range 20 {
		path := fresh(t)
		var mu sync.Mutex
		var won []*Store[*object]
		var group sync.WaitGroup
		for n := range 6 {
			group.Go(func() {
				o := Options[*object]{Resource: "a"}
				if n >= 2 && round%2 == 1 {
					o.Resource = fmt.Sprint("b", n)
				}
				s, err := Open(path, storetest.ClusterKey, o)
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					won = append(won, s)
				}
			})
		}
		group.Wait()
		require.Len(t, won, 1)
		require.NoError(t, won[0].Close())
	}
}
