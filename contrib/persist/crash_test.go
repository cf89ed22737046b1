package persist

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubereflector/kubereflector/store"
	"github.com/kubereflector/kubereflector/store/storetest"
)

// childEnv names the file of a process that is to be killed.
const childEnv = "KUBEREFLECTOR_PERSIST_CHILD"

// maxUnwritten is the option of the killed process: a few hundred changes.
const maxUnwritten = 64 << 10

// recordLength is the least length of an object's record.
const recordLength = 200

// history is what a server does: commit n follows from the commits before it, so that
// a reader of a state and its version can continue from there.
type history struct {
	objects map[store.Key]*object
	commit  int // the last one; -1 before the first list
	changes int // how many there were, those of the first list aside
}

// first is how many objects there are at first: more than one transaction of a first list
// has.
const (
	first      = 600
	firstChunk = 100
)

// version is the one that a commit leads to. Those of its changes are below it, so that
// the middle of a commit can be told from its end.
func version(commit int) string { return strconv.Itoa(100*commit + 199) }

func commitOf(version string) (commit int, whole bool) {
	n, err := strconv.Atoi(version)
	return (n - 199) / 100, err == nil && n%100 == 99
}

func newHistory() *history { return &history{objects: map[store.Key]*object{}, commit: -1} }

// next makes the next commit in a store; nil makes it in the history alone.
func (h *history) next(to store.Store[*object]) error {
	h.commit++
	random := rand.New(rand.NewPCG(1, uint64(h.commit)))
	if h.commit == 0 {
		for n := range first {
			h.put(fmt.Sprint(n), n)
		}
		return h.replace(to)
	}
	var writes []store.Write[*object]
	kind := random.IntN(50)
	n := 1
	if kind < 25 {
		n = 2 + random.IntN(30)
	}
	for i := range n {
		h.changes++
		// Names are chosen without regard to what there is, so that they follow from the
		// number of the commit alone.
		name := fmt.Sprint(random.IntN(first + 100))
		key := store.Key{Namespace: "n", Name: name}
		old, held := h.objects[key]
		switch {
		case held && random.IntN(4) == 0:
			gone := old.At(strconv.Itoa(100*h.commit + 100 + i))
			delete(h.objects, key)
			writes = append(writes, store.Write[*object]{Type: store.Deletion, Object: gone, FinalStateKnown: true})
		default:
			writes = append(writes, store.Write[*object]{Type: store.Modification, Object: h.put(name, i)})
		}
	}
	switch {
	case to == nil:
		return nil
	case kind == 0:
		return h.replace(to)
	}
	return commit(to, false, version(h.commit), writes...)
}

func (h *history) put(name string, i int) *object {
	o := storetest.New("n", name, "uid-"+name, strconv.Itoa(100*h.commit+100+i%99))
	o.Payload = strings.Repeat(string(rune('a'+h.commit%26)), 100)
	if old, ok := h.objects[store.Key{Namespace: "n", Name: name}]; ok {
		o.UID = old.UID
	} else {
		o.UID = types.UID(fmt.Sprintf("uid-%s-%d", name, h.commit))
	}
	h.objects[store.Key{Namespace: "n", Name: name}] = o
	return o
}

func (h *history) replace(to store.Store[*object]) error {
	if to == nil {
		return nil
	}
	all := make([]store.Write[*object], 0, len(h.objects))
	for _, o := range h.objects {
		all = append(all, store.Write[*object]{Type: store.Addition, Object: o})
	}
	slices.SortFunc(all, func(a, b store.Write[*object]) int { return strings.Compare(a.Object.Name, b.Object.Name) })
	return commit(to, true, version(h.commit), all...)
}

// live is the process that is killed. It goes on with the history where the file is, and
// says of each commit that it was made.
func live(path string) int {
	s, err := Open(path, store.ObjectKey[*object], Options[*object]{Delay: 2 * time.Millisecond, MaxUnwritten: maxUnwritten, chunk: firstChunk})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	go s.Run(context.Background())
	h := newHistory()
	if s.ResourceVersion() != "" {
		h.commit, _ = commitOf(s.ResourceVersion())
		for key, o := range s.All() {
			h.objects[key] = o
		}
	}
	fmt.Println("begin")
	for {
		if err := h.next(s); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		fmt.Println(h.commit)
	}
}

// kill lets a process live for a while, kills it, and returns the last commit that it
// said it had made; -1 if it said nothing.
func kill(t *testing.T, path string, random *rand.Rand) (last int) {
	t.Helper()
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childEnv+"="+path)
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	var after <-chan time.Time
	most := random.IntN(100)
	if random.IntN(4) == 0 { // at any moment, its first ones too
		after, most = time.After(time.Duration(random.IntN(80))*time.Millisecond), -1
	}
	said := make(chan string)
	go func() {
		defer close(said)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			said <- lines.Text()
		}
	}()
	last = -1
	for lines := 0; ; {
		select {
		case line, ok := <-said:
			if !ok {
				err := child.Wait()
				require.ErrorContains(t, err, "killed", "it must not end by itself")
				return last
			}
			if n, err := strconv.Atoi(line); err == nil {
				last = n
			}
			if lines++; lines == most+1 {
				require.NoError(t, child.Process.Kill())
			}
		case <-after:
			after = nil
			require.NoError(t, child.Process.Kill())
		}
	}
}

func TestKilledProcessLosesAndMixesNothing(t *testing.T) {
	kills := 60
	if testing.Short() || raceEnabled {
		kills = 20
	}
	dir := t.TempDir()
	random := rand.New(rand.NewPCG(uint64(kills), 7))
	var path string
	var saved *history // what the file holds
	var unfilled, files, commits, most int
	for n := range kills {
		if n%10 == 0 || n < 5 { // with a file that does not exist
			files++
			path, saved = filepath.Join(dir, fmt.Sprint(n)), newHistory()
		}
		before := saved.commit
		last := kill(t, path, random)
		s, err := Open(path, store.ObjectKey[*object], Options[*object]{})
		require.NoError(t, err, "kill %d", n)
		if s.ResourceVersion() == "" {
			require.Equal(t, -1, saved.commit, "kill %d: nothing is left", n)
			require.Equal(t, -1, last, "kill %d: the first list was lost", n)
			require.Zero(t, s.Len())
			unfilled++
			require.NoError(t, s.Close())
			continue
		}
		commit, whole := commitOf(s.ResourceVersion())
		require.True(t, whole, "kill %d: version %s is in the middle of a commit", n, s.ResourceVersion())
		require.GreaterOrEqual(t, commit, saved.commit, "kill %d: older than after the last one", n)
		for saved.commit < commit {
			require.NoError(t, saved.next(nil))
		}
		require.Equal(t, len(saved.objects), s.Len(), "kill %d", n)
		for key, want := range saved.objects {
			got, ok := s.Get(key)
			require.True(t, ok, "kill %d: %v is lacking", n, key)
			require.Equal(t, *want, *got, "kill %d", n)
		}
		require.NoError(t, s.Close())
		commits += saved.commit - before

		ahead := history{objects: cloned(saved.objects), commit: saved.commit}
		for ahead.commit < last {
			require.NoError(t, ahead.next(nil))
		}
		most = max(most, ahead.changes)
		require.LessOrEqual(t, ahead.changes, maxUnwritten/recordLength, "kill %d: that many changes were lost, up to commit %d", n, last)
	}
	t.Logf("%d kills of %d files, %d before the first list was written; %d commits; at most %d changes to be told again", kills, files, unfilled, commits, most)
	assert.Positive(t, commits)
}

func cloned(objects map[store.Key]*object) map[store.Key]*object {
	all := make(map[store.Key]*object, len(objects))
	for key, o := range objects {
		all[key] = o
	}
	return all
}
