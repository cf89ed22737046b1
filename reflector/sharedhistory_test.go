package reflector_test

import (
	"flag"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
	"pgregory.net/rapid"
)

// TestWhateverHappensShardsThatShareEndLikeTheServer lets the reflectors of some shards come and
// go, with one client, through random histories of writes, faults, compactions and restored
// backups. Unless one was restored, no event may be missing, and none be out of order. When
// the faults stop, each store equals the server, and one watch is open.
func TestWhateverHappensShardsThatShareEndLikeTheServer(t *testing.T) {
	require.NoError(t, flag.Set("rapid.checks", strconv.Itoa(*histories)))
	rapid.Check(t, func(rt *rapid.T) {
		l := company{
			client:    rapid.SampledFrom([]string{"generated", "JSON", "protobuf", "REST"}).Draw(rt, "client"),
			watchList: rapid.Bool().Draw(rt, "watch-list"),
			witnessed: rapid.Bool().Draw(rt, "witnessed"),
			sharding:  rapid.IntRange(0, 3).Draw(rt, "sharding") == 0,
			seeded:    rapid.IntRange(0, 9).Draw(rt, "seeded"),
			steps:     rapid.SliceOfN(rapid.Custom(drawMeeting), 0, 40).Draw(rt, "steps"),
		}
		var err error
		synctest.Test(t, func(t *testing.T) { err = l.live(t) })
		if err != nil {
			rt.Fatal(err)
		}
	})
}

func drawMeeting(rt *rapid.T) event {
	return event{
		Kind: rapid.SampledFrom([]string{
			"write", "write", "write", "write", "delete", "recreate", "pause", "pause",
			"come", "come", "leave", "fault", "fault", "compact", "bookmarks", "restore", "sharding", "rush",
		}).Draw(rt, "kind"),
		Number: rapid.IntRange(0, 99).Draw(rt, "number"),
		Verb:   rapid.SampledFrom([]string{"list", "watch", "watch", ""}).Draw(rt, "verb"),
		Times:  rapid.IntRange(1, 3).Draw(rt, "times"),
	}
}

// companySize is how many shards there are.
const companySize = 4

// company is the reflectors of all shards, of which some run.
type company struct {
	client    string
	watchList bool
	witnessed bool
	sharding  bool
	seeded    int
	steps     []event

	server *reflectortest.Server
	meter  meter
	log    journal
	places [companySize]*place
}

// place is one shard, with what holds it.
type place struct {
	shard     store.Shard
	cache     *store.Cache[*corev1.ConfigMap]
	reflector *reflector.KubernetesResourceReflector[*corev1.ConfigMap]
	stop      func() error // nil while it does not run
}

func (l *company) live(t *testing.T) error {
	l.server = reflectortest.Start(t, reflectortest.WithWatchTimeout(10*time.Minute))
	l.server.SetSharding(l.sharding)
	for i := range l.seeded {
		if err := l.write(i); err != nil {
			return err
		}
	}
	if err := l.settle(); err != nil {
		return err
	}
	began := time.Now()
	for i := range l.places {
		l.come(t, i)
	}
	for _, e := range l.steps {
		if err := l.happen(t, e); err != nil {
			return err
		}
		if e.Kind != "rush" {
			synctest.Wait()
		}
	}
	l.server.ClearFaults()
	for i := range l.places {
		l.come(t, i)
	}
	<-time.After(40 * time.Minute) // any back-off, and then some
	l.server.SendBookmarks()
	synctest.Wait()
	for n := range 17 {
		if err := l.write(n); err != nil {
			return err
		}
		synctest.Wait()
	}
	err := l.compare()
	open := l.meter.watches()
	for i := range l.places {
		if failed := l.leave(i); err == nil {
			err = failed
		}
	}
	switch most := companySize * (20*(2+len(l.steps)) + int(time.Since(began)/(800*time.Millisecond))/10); {
	case err != nil:
	case len(l.server.Requests()) > most:
		err = fmt.Errorf("%d requests, want at most %d", len(l.server.Requests()), most)
	case l.meter.watches() != 0:
		err = fmt.Errorf("%d watches are left open", l.meter.watches())
	case open > l.expected():
		err = fmt.Errorf("%d watches for %d shards", open, companySize)
	}
	return err
}

// expected returns how many watches there may be.
func (l *company) expected() int {
	if slices.ContainsFunc(l.places[:], func(p *place) bool { return p.reflector.State().Sharding != reflector.ShardedByClient }) {
		return companySize
	}
	return 1
}

// settle makes the reflectors, with one client.
func (l *company) settle() error {
	config := l.meter.of(l.server.Config())
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	resource, err := clientFor(l.client, config, clientset)
	generated := client.SharedWatch(clientset.CoreV1().ConfigMaps("default"))
	shared := client.SharedWatch(resource)
	for i, shard := range store.Shards(store.ByUID, companySize) {
		p := &place{shard: shard, cache: newCache()}
		var into store.Store[*corev1.ConfigMap] = p.cache
		if l.witnessed {
			into = &witness{Cache: p.cache, log: &l.log, shard: shard}
		}
		opts := []reflector.Option{reflector.WithShard(shard)}
		if !l.watchList {
			opts = append(opts, reflector.WithoutWatchList())
		}
		if l.client == "generated" {
			p.reflector = reflector.New(generated, into, opts...)
		} else {
			p.reflector = reflector.New(shared, into, opts...)
		}
		l.places[i] = p
	}
	return err
}

func newCache() *store.Cache[*corev1.ConfigMap] { return store.New(store.ObjectKey[*corev1.ConfigMap]) }

func (l *company) come(t *testing.T, i int) {
	if p := l.places[i]; p.stop == nil {
		p.stop = launched(t, p.reflector)
	}
}

func (l *company) leave(i int) error {
	p := l.places[i]
	if p.stop == nil {
		return nil
	}
	stop := p.stop
	p.stop = nil
	return stop()
}

func (l *company) happen(t *testing.T, e event) error {
	switch e.Kind {
	case "rush":
		for n := range e.Number {
			if err := l.write(n % 17); err != nil {
				return err
			}
		}
	case "come":
		l.come(t, e.Number%companySize)
	case "leave":
		return l.leave(e.Number % companySize)
	case "sharding":
		l.server.SetSharding(e.Number%3 == 0)
	case "restore":
		l.restore(t, e.Number)
	default:
		return e.happen(l.server, 17, l)
	}
	return nil
}

// restore restores a backup, and gives all time to look: who does not run when it happens cannot
// tell, once the server has come as far again.
func (l *company) restore(t *testing.T, n int) {
	l.server.ClearFaults()
	for i := range l.places {
		l.come(t, i)
	}
	<-time.After(40 * time.Minute)
	l.log.stop()
	now := l.server.ResourceVersion()
	if err := l.server.Restore(now - min(uint64(n%5), now-1)); err != nil {
		return // that far back the history is gone
	}
	<-time.After(40 * time.Minute)
}

func (l *company) write(n int) error {
	object := numbered(n)
	object.Data["at"] = fmt.Sprint(l.server.ResourceVersion())
	return l.log.note(l.server, object, func() error {
		err := l.server.Update(object)
		if apierrors.IsNotFound(err) {
			return l.server.Create(object)
		}
		return err
	}, false)
}

func (l *company) remove(n int) error {
	object := numbered(n)
	if err := l.server.Get(object); err != nil {
		return nil
	}
	return l.log.note(l.server, object, func() error { return l.server.Delete(object) }, true)
}

// compare holds the stores to the server.
func (l *company) compare() error {
	for i, p := range l.places {
		if err := compareShard(l.server, p.shard, p.cache); err != nil {
			return fmt.Errorf("shard %d: %w", i, err)
		}
		if err := p.reflector.State().Err; err != nil {
			return fmt.Errorf("shard %d: %w", i, err)
		}
	}
	return l.log.failure()
}
