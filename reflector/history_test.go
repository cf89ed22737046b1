package reflector_test

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/reflector/record"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"pgregory.net/rapid"
)

var histories = flag.Int("histories", 200, "how many random histories the reflector lives through; 10000 is a night's work")

// TestWhateverHappensTheStoreEndsLikeTheServer lets a reflector live through random
// histories of writes, faults, compactions, restored backups and restarts. When the
// faults stop, its store equals the server, has the server's resource version, and
// there were no more requests than the back-off allows.
func TestWhateverHappensTheStoreEndsLikeTheServer(t *testing.T) {
	require.NoError(t, flag.Set("rapid.checks", strconv.Itoa(*histories)))
	rapid.Check(t, func(rt *rapid.T) {
		l := life{
			client:    rapid.SampledFrom([]string{"generated", "JSON", "protobuf", "REST"}).Draw(rt, "client"),
			pageSize:  rapid.SampledFrom([]int{0, 1, 2, 500}).Draw(rt, "page size"),
			watchList: rapid.Bool().Draw(rt, "watch-list"),
			shards:    rapid.IntRange(1, 3).Draw(rt, "shards"),
			sharding:  rapid.Bool().Draw(rt, "sharding"),
			seeded:    rapid.IntRange(0, 5).Draw(rt, "seeded"),
			steps:     rapid.SliceOfN(rapid.Custom(drawStep), 0, 30).Draw(rt, "steps"),
		}
		var err error
		synctest.Test(t, func(t *testing.T) { err = l.live(t) })
		if err != nil {
			rt.Fatal(err)
		}
	})
}

// event is one thing that happens. What its number means depends on the kind.
type event struct {
	Kind   string
	Number int
	Verb   string
	Times  int
}

func drawStep(rt *rapid.T) event {
	return event{
		Kind: rapid.SampledFrom([]string{
			"write", "write", "write", "delete", "delete", "recreate", "pause", "pause",
			"fault", "fault", "compact", "bookmarks", "restart", "restore", "sharding",
		}).Draw(rt, "kind"),
		Number: rapid.IntRange(0, 99).Draw(rt, "number"),
		Verb:   rapid.SampledFrom([]string{"list", "watch", ""}).Draw(rt, "verb"),
		Times:  rapid.IntRange(1, 3).Draw(rt, "times"),
	}
}

// fault returns one of the faults that end by themselves, or that a reflector has to end.
func (e event) fault() reflectortest.Fault {
	after := e.Number % 3
	all := []reflectortest.Fault{
		reflectortest.Refuse(),
		reflectortest.ResetAfterEvents(after),
		reflectortest.ResetAfterBytes(37 * e.Number),
		reflectortest.TruncateFrame(after + 1),
		reflectortest.CorruptFrame(after + 1),
		reflectortest.DuplicateFrame(after + 1),
		reflectortest.WithholdClosingBookmark(),
		reflectortest.AnswerHTML(502),
		reflectortest.ExpireContinue(),
		reflectortest.LoseHistory(),
		reflectortest.Stall(nil),
		reflectortest.StallAfterEvents(after, nil),
		reflectortest.ErrorEvent(after, apierrors.NewResourceExpired("expired").ErrStatus),
		reflectortest.ErrorEvent(after, apierrors.NewInternalError(errors.New("internal")).ErrStatus),
		reflectortest.ErrorEvent(after, apierrors.NewTooManyRequests("busy", 1).ErrStatus),
	}
	for _, code := range []int{401, 403, 404, 410, 422, 429, 500, 503} {
		all = append(all, reflectortest.Answer(code))
	}
	return all[e.Number%len(all)].On(e.Verb, "configmaps").Times(e.Times)
}

// life is what a reflector lives through.
type life struct {
	client    string
	pageSize  int
	watchList bool
	shards    int  // of which the reflector has the first
	sharding  bool // the server knows them
	seeded    int
	steps     []event
	recorder  *record.Recorder
	follow    store.Follower[*corev1.ConfigMap] // if it is not nil

	server *reflectortest.Server
	store  *store.Cache[*corev1.ConfigMap]
	stop   func() error
}

func (l *life) live(t *testing.T) error {
	l.server = reflectortest.Start(t, reflectortest.WithWatchTimeout(10*time.Minute))
	l.server.SetSharding(l.sharding)
	for i := range l.seeded {
		if err := l.server.Create(numbered(i)); err != nil {
			return err
		}
	}
	l.store = store.New(store.ObjectKey[*corev1.ConfigMap])
	if l.follow != nil {
		defer l.store.Follow(l.follow)()
	}
	r, err := l.reflector(l.options())
	if err != nil {
		return err
	}
	began := time.Now()
	l.stop = launched(t, r)
	for _, e := range l.steps {
		if e.Kind == "restart" {
			if err := l.stop(); err != nil {
				return err
			}
			l.stop = launched(t, r)
		}
		if err := l.happen(e); err != nil {
			return err
		}
		synctest.Wait()
	}
	l.server.ClearFaults()
	<-time.After(30 * time.Minute) // any back-off, and then some
	l.server.SendBookmarks()
	synctest.Wait()
	err = l.compare()
	if stopped := l.stop(); err == nil {
		err = stopped
	}
	if n, most := len(l.server.Requests()), l.most(time.Since(began)); err == nil && n > most {
		err = fmt.Errorf("%d requests in %v, want at most %d", n, time.Since(began), most)
	}
	return err
}

func (l *life) options() []reflector.Option {
	opts := []reflector.Option{reflector.WithPageSize(l.pageSize), reflector.WithShard(l.shard())}
	if !l.watchList {
		opts = append(opts, reflector.WithoutWatchList())
	}
	return opts
}

// shard returns what the reflector has of the objects.
func (l *life) shard() store.Shard { return store.Shards(store.ByUID, l.shards)[0] }

func (l *life) reflector(opts []reflector.Option) (*reflector.KubernetesResourceReflector[*corev1.ConfigMap], error) {
	config := l.server.Config()
	if l.recorder != nil {
		config.Wrap(l.recorder.Wrap)
	}
	return l.reflectorOf(config, opts)
}

// reflectorOf returns a reflector with the life's client.
func (l *life) reflectorOf(config *rest.Config, opts []reflector.Option) (*reflector.KubernetesResourceReflector[*corev1.ConfigMap], error) {
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	if l.client == "generated" {
		return reflector.New(clientset.CoreV1().ConfigMaps("default"), l.store, opts...), nil
	}
	resource, err := clientFor(l.client, config, clientset)
	return reflector.New(resource, l.store, opts...), err
}

// clientFor returns one of our clients.
func clientFor(name string, config *rest.Config, clientset kubernetes.Interface) (*client.Resource[*corev1.ConfigMap], error) {
	switch name {
	case "JSON":
		return client.ForResource[*corev1.ConfigMap](config, configMapResource, "default", client.WithoutProtobuf())
	case "protobuf":
		return client.ForResource[*corev1.ConfigMap](config, configMapResource, "default")
	}
	return client.FromRESTClient[*corev1.ConfigMap](clientset.CoreV1().RESTClient(), "configmaps", "default")
}

// most returns how many requests there may have been: a few for each thing that
// happened, pages included, and one for each shortest back-off.
func (l *life) most(passed time.Duration) int {
	return 20*(1+len(l.steps)) + int(passed/(800*time.Millisecond))/10
}

func (l *life) happen(e event) error {
	switch e.Kind {
	case "sharding":
		l.server.SetSharding(e.Number%2 == 0)
	case "restore":
		// A client cannot tell a restored server from another unless it looks
		// before the server has come as far again: it gets the time to.
		l.server.ClearFaults()
		<-time.After(25 * time.Minute) // also what has stalled is given up by then
		now := l.server.ResourceVersion()
		if err := l.server.Restore(now - min(uint64(e.Number%5), now-1)); err != nil {
			return nil // that far back the history is gone
		}
		<-time.After(25 * time.Minute) // two watches, of ten minutes at most
	default:
		return e.happen(l.server, 7, l)
	}
	return nil
}

// writer writes and deletes objects by their numbers.
type writer interface {
	write(n int) error
	remove(n int) error
}

// happen is what happens alike in all histories.
func (e event) happen(server *reflectortest.Server, objects int, by writer) error {
	n := e.Number % objects
	switch e.Kind {
	case "write":
		return by.write(n)
	case "delete":
		return by.remove(n)
	case "recreate":
		if err := by.remove(n); err != nil {
			return err
		}
		return by.write(n)
	case "pause":
		<-time.After(time.Duration(e.Number*e.Number) * 50 * time.Millisecond)
	case "fault":
		server.Inject(e.fault())
	case "compact":
		return server.Compact(server.ResourceVersion())
	case "bookmarks":
		server.SendBookmarks()
	}
	return nil
}

func numbered(n int) *corev1.ConfigMap { return paint(strconv.Itoa(n), "red") }

func (l *life) write(n int) error {
	object := numbered(n)
	object.Data["at"] = fmt.Sprint(l.server.ResourceVersion())
	err := l.server.Update(object)
	if apierrors.IsNotFound(err) {
		return l.server.Create(object)
	}
	return err
}

func (l *life) remove(n int) error {
	if err := l.server.Delete(numbered(n)); err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	return nil
}

// compare holds the store to the server.
func (l *life) compare() error {
	if err := compareShard(l.server, l.shard(), l.store); err != nil {
		return err
	}
	if version := fmt.Sprint(l.server.ResourceVersion()); l.store.ResourceVersion() != version {
		return fmt.Errorf("the server is at version %s, the store at %s", version, l.store.ResourceVersion())
	}
	return nil
}

// compareShard holds what a store has to what the server has of a shard.
func compareShard(server *reflectortest.Server, shard store.Shard, cache *store.Cache[*corev1.ConfigMap]) error {
	objects, err := reflectortest.List[*corev1.ConfigMap](server, "default")
	if err != nil {
		return err
	}
	want, got := map[string]string{}, map[string]string{}
	for _, o := range objects {
		if shard.Contains(store.ShardHash(string(o.UID))) {
			want[o.Name] = fmt.Sprint(o.UID, o.ResourceVersion, o.Data)
		}
	}
	for key, o := range cache.All() {
		got[key.Name] = fmt.Sprint(o.UID, o.ResourceVersion, o.Data)
	}
	if !maps.Equal(want, got) {
		return fmt.Errorf("the server holds %v, the store %v", want, got)
	}
	return nil
}
