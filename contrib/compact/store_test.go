package compact_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"unsafe"

	"github.com/kubereflector/kubereflector/contrib/compact"
	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/kubereflector/kubereflector/store/decorate"
	"github.com/kubereflector/kubereflector/store/storetest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

func TestConformance(t *testing.T) {
	for name, opts := range map[string][]compact.Option{"": nil, "few": {compact.WithRecent(64)}} {
		t.Run("store "+name, func(t *testing.T) {
			storetest.RunBatches(t, func() (store.Store[*storetest.Object], store.Reader[*storetest.Object]) {
				s := compact.New(storetest.ClusterKey, opts...)
				return s, s
			})
		})
	}
	t.Run("store with an index", func(t *testing.T) {
		storetest.RunBatches(t, func() (store.Store[*storetest.Object], store.Reader[*storetest.Object]) {
			s := compact.New(storetest.ClusterKey)
			_, err := store.AddIndex(s.Cache(), "payload", compact.By(func(o *storetest.Object) []string { return []string{o.Payload} }))
			if err != nil {
				panic(err)
			}
			return s, s
		})
	})
}

// pods returns pods that differ in their names, in what goes with them, and in the node.
func pods(n int) (all []*corev1.Pod) {
	for i := range n {
		p := pod(fmt.Sprintf("pod-%04d", i))
		p.UID, p.ResourceVersion, p.Spec.NodeName = types.UID(fmt.Sprint("uid-", i)), fmt.Sprint(100+i), fmt.Sprint("node-", i%5)
		all = append(all, p)
	}
	return all
}

func onNode(p *corev1.Pod) []string { return []string{p.Spec.NodeName} }

func TestIndexesFindWhatAPlainCacheFinds(t *testing.T) {
	plain, s := store.New(store.ObjectKey[*corev1.Pod]), compact.New(store.ObjectKey[*corev1.Pod], compact.WithRecent(4))
	want, err := store.AddIndex(plain, "node", onNode)
	require.NoError(t, err)
	byNode, err := store.AddIndex(s.Cache(), "node", compact.By(onNode))
	require.NoError(t, err)
	all := pods(200)
	for _, to := range []store.Store[*corev1.Pod]{plain, s} {
		require.NoError(t, to.Replace(all, "300"))
	}
	late, err := store.AddIndex(s.Cache(), "late", compact.By(onNode))
	require.NoError(t, err)
	for _, p := range []*corev1.Pod{all[3].DeepCopy(), all[77].DeepCopy()} {
		p.Spec.NodeName, p.ResourceVersion = "node-9", "301"
		for _, to := range []store.Store[*corev1.Pod]{plain, s} {
			require.NoError(t, to.Update(p))
		}
	}
	for _, node := range []string{"node-0", "node-3", "node-9", "none"} {
		var names, packed, ordered []string
		for _, p := range want.Get(node) {
			names = append(names, p.Name)
		}
		for key, p := range compact.Objects(byNode.Get(node)) {
			assert.Equal(t, key.Name, p.Name)
			assert.Equal(t, node, p.Spec.NodeName)
			packed = append(packed, p.Name)
		}
		for _, p := range compact.Objects(late.Get(node)) {
			ordered = append(ordered, p.Name)
		}
		assert.Equal(t, names, packed, node)
		assert.Equal(t, names, ordered, node)
	}
}

func TestIndexesOfAStoreDecodeNothing(t *testing.T) {
	for _, limit := range []int{0, 8} {
		all := pods(100)
		written := map[string]*corev1.Pod{}
		for _, p := range all {
			written[p.Name] = p
		}
		s := compact.New(store.ObjectKey[*corev1.Pod], compact.WithRecent(limit))
		seen := 0
		_, err := store.AddIndex(s.Cache(), "node", compact.By(func(p *corev1.Pod) []string {
			seen++
			assert.Same(t, written[p.Name], p, "it is the one that was written, not one that was decoded")
			return nil
		}))
		require.NoError(t, err)
		require.NoError(t, s.Replace(all, "300"))
		assert.Equal(t, 100, seen)
		later := all[1].DeepCopy()
		later.ResourceVersion = "301"
		written[later.Name] = later
		require.NoError(t, s.Update(later))
		batch, _ := decorate.BeginWatch(s)
		later = later.DeepCopy()
		later.ResourceVersion = "302"
		written[later.Name] = later
		require.NoError(t, batch.Write(store.Write[*corev1.Pod]{Type: store.Modification, Object: later}))
		require.NoError(t, batch.Commit(""))
		assert.Equal(t, 102, seen)
	}
}

func TestFollowersHearOfPackedObjects(t *testing.T) {
	s := compact.New(store.ObjectKey[*corev1.Pod], compact.WithRecent(0))
	c := eventqueue.Follow(s.Cache(), eventqueue.WithCompaction(eventqueue.KeepAll))
	first := pods(1)[0]
	second := first.DeepCopy()
	second.ResourceVersion, second.Spec.NodeName = "200", "elsewhere"
	require.NoError(t, s.Replace([]*corev1.Pod{first}, "100"))
	require.NoError(t, s.Update(second))
	require.NoError(t, s.Delete(second))
	var nodes []string
	for q := range c.Queues(t.Context()) {
		for event := range q.Events() {
			nodes = append(nodes, fmt.Sprint(event.Type, " ", event.Object.Object().Spec.NodeName))
			if event.Type == store.Modification {
				assert.Equal(t, "node-0", event.Prior.Object().Spec.NodeName)
			}
		}
		break
	}
	assert.Equal(t, []string{"Addition node-0", "Modification elsewhere", "Deletion elsewhere"}, nodes)
}

func TestSnapshotsKeepTheirState(t *testing.T) {
	s := compact.New(store.ObjectKey[*corev1.Pod], compact.WithRecent(1))
	all := pods(40)
	require.NoError(t, s.Replace(all, "300"))
	before := s.Cache().Snapshot()
	for _, p := range all {
		later := p.DeepCopy()
		later.Spec.NodeName, later.ResourceVersion = "later", "301"
		require.NoError(t, s.Update(later))
	}
	for key, p := range compact.Objects(before.All()) {
		assert.NotEqual(t, "later", p.Spec.NodeName, key)
	}
	for key, p := range s.All() {
		assert.Equal(t, "later", p.Spec.NodeName, key)
	}
}

func TestPartitionsArePacked(t *testing.T) {
	s := compact.New(store.ObjectKey[*corev1.Pod])
	part, err := s.Cache().Partition(store.Scope{Cluster: "west"})
	require.NoError(t, err)
	west := decorate.Transform(part, store.ObjectKey[*corev1.Pod], s.Packer().Pack)
	require.NoError(t, west.Replace(pods(3), "300"))
	got, ok := s.Get(store.Key{Cluster: "west", Namespace: "shop", Name: "pod-0001"})
	require.True(t, ok)
	assert.Equal(t, "node-1", got.Spec.NodeName)
	assert.Equal(t, 3, s.Len())
}

// Names of objects would be kept besides their bytes.
func TestKeysAreThoseOfThePackedBytes(t *testing.T) {
	s := compact.New(store.ObjectKey[*corev1.Pod])
	all := pods(4)
	require.NoError(t, s.Replace(all[:2], "300"))
	require.NoError(t, s.Add(all[2]))
	later := all[0].DeepCopy()
	later.ResourceVersion = "301"
	require.NoError(t, s.Update(later))
	for key, packed := range s.Cache().All() {
		assert.Same(t, unsafe.StringData(packed.GetName()), unsafe.StringData(key.Name), key)
	}
}

func TestReadersWhileAWriterWrites(t *testing.T) {
	s := compact.New(store.ObjectKey[*corev1.Pod], compact.WithRecent(16))
	all := pods(100)
	require.NoError(t, s.Replace(all, "300"))
	done := make(chan struct{})
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			for {
				for _, p := range all {
					got, ok := s.Get(store.Key{Namespace: p.Namespace, Name: p.Name})
					if !ok || got.Name != p.Name || got.Labels["app"] != "till" {
						t.Errorf("Get(%s) returned %v, %t", p.Name, got, ok)
						return
					}
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	for round := range 20 {
		for _, p := range all {
			later := p.DeepCopy()
			later.ResourceVersion = fmt.Sprint(1000*(round+1) + slices.Index(all, p))
			require.NoError(t, s.Update(later))
		}
	}
	close(done)
	readers.Wait()
}

func configMap(colour string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "sky"}, Data: map[string]string{"colour": colour}}
}

func TestReflectorFillsAStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clientset, err := kubernetes.NewForConfig(reflectortest.Start(t).Config())
		require.NoError(t, err)
		client := clientset.CoreV1().ConfigMaps("default")
		_, err = client.Create(t.Context(), configMap("blue"), metav1.CreateOptions{})
		require.NoError(t, err)
		s := compact.New(store.ObjectKey[*corev1.ConfigMap])
		r := reflector.New(client, s)
		go func() { _ = r.Run(t.Context()) }()
		<-r.Synced()
		held, ok := s.Get(store.Key{Namespace: "default", Name: "sky"})
		require.True(t, ok)
		assert.Equal(t, "blue", held.Data["colour"])
		_, err = client.Update(t.Context(), configMap("grey"), metav1.UpdateOptions{})
		require.NoError(t, err)
		synctest.Wait()
		held, _ = s.Get(store.Key{Namespace: "default", Name: "sky"})
		assert.Equal(t, "grey", held.Data["colour"])
	})
}

func TestInformerOfPackedObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clientset, err := kubernetes.NewForConfig(reflectortest.Start(t).Config())
		require.NoError(t, err)
		client := clientset.CoreV1().ConfigMaps("default")
		packer := compact.NewPacker(store.ObjectKey[*corev1.ConfigMap])
		inf := informer.NewTransformed(client, packer.Pack, compact.Key)
		colours := make(chan string, 10)
		inf.Handle(informer.HandlerFuncs[*compact.Packed[*corev1.ConfigMap]]{
			OnAdd: func(packed *compact.Packed[*corev1.ConfigMap], _ bool) { colours <- packed.Object().Data["colour"] },
			OnUpdate: func(prior, packed *compact.Packed[*corev1.ConfigMap]) {
				colours <- prior.Object().Data["colour"] + " to " + packed.Object().Data["colour"]
			},
			OnDelete: func(packed *compact.Packed[*corev1.ConfigMap], _ bool) {
				colours <- "no " + packed.Object().Data["colour"]
			},
		})
		go func() { _ = inf.Run(t.Context()) }()
		_, err = client.Create(t.Context(), configMap("blue"), metav1.CreateOptions{})
		require.NoError(t, err)
		assert.Equal(t, "blue", <-colours)
		_, err = client.Update(t.Context(), configMap("grey"), metav1.UpdateOptions{})
		require.NoError(t, err)
		assert.Equal(t, "blue to grey", <-colours)
		require.NoError(t, client.Delete(t.Context(), "sky", metav1.DeleteOptions{}))
		assert.Equal(t, "no grey", <-colours)
	})
}

// These objects have several packed forms, because the dictionary changes.
func TestPackedObjectsFollowTheContentUnderTheirVersions(t *testing.T) {
	for _, limit := range []int{0, 512} {
		s := compact.New(store.ObjectKey[*corev1.Pod], compact.WithRecent(limit))
		require.NoError(t, s.Replace(pods(2000), "3000")) // enough to learn a dictionary
		held := map[string]*compact.Packed[*corev1.Pod]{}
		for key, p := range s.Cache().All() {
			held[key.Name] = p
		}
		again := pods(2000)
		again[7].Spec.NodeName = "another"
		require.NoError(t, s.Replace(again, "3001"))
		require.NoError(t, s.Update(again[8].DeepCopy()))
		changed := []string{}
		for key, p := range s.Cache().All() {
			if held[key.Name] != p {
				changed = append(changed, key.Name)
			}
		}
		assert.Equal(t, []string{"pod-0007"}, changed)
		p, _ := s.Get(store.Key{Namespace: again[7].Namespace, Name: again[7].Name})
		assert.Equal(t, "another", p.Spec.NodeName)
	}
}

// small is what a Transform leaves of an object: it has no version.
type small struct{ Name, Node string }

func TestObjectsWithoutMetadataHaveTheVersionsThatATransformPasses(t *testing.T) {
	key := func(o *small) (store.Key, error) { return store.Key{Namespace: "default", Name: o.Name}, nil }
	s := compact.New(key)
	transformed := 0
	into := decorate.Transform(s, store.ObjectKey[*corev1.Pod], func(p *corev1.Pod) (*small, error) {
		transformed++
		return &small{p.Name, p.Spec.NodeName}, nil
	})
	pod := func(uid types.UID, version string) *corev1.Pod {
		p := pod("a")
		p.Namespace, p.UID, p.ResourceVersion, p.Spec.NodeName = "default", uid, version, "node"
		return p
	}
	var heard []string
	defer s.Cache().Follow(hears(func(c *store.Commit[*compact.Packed[*small]]) {
		for _, change := range c.Changes {
			heard = append(heard, fmt.Sprint(change.Type, change.Version))
		}
	}))()
	require.NoError(t, into.Replace(nil, "1"))
	require.NoError(t, into.Add(pod("u", "7")))
	assert.Equal(t, "7", s.ResourceVersion())
	require.NoError(t, into.Update(pod("v", "8")))
	assert.Equal(t, "8", s.ResourceVersion())
	require.NoError(t, into.Delete(pod("v", "9")))
	assert.Equal(t, "9", s.ResourceVersion())
	assert.Equal(t, []string{"Addition {u 7}", "Deletion {u 7}", "Addition {v 8}", "Deletion {v 9}"}, heard)

	transformed = 0
	for range 2 {
		batch, _ := decorate.BeginList(into)
		require.NoError(t, batch.Write(store.Write[*corev1.Pod]{Type: store.Addition, Object: pod("w", "10"), Hash: 5}))
		require.NoError(t, batch.Commit("10"))
	}
	assert.Equal(t, 1, transformed, "the second list has nothing new")
}

type hears func(*store.Commit[*compact.Packed[*small]])

func (hears) Start(*store.Snapshot[*compact.Packed[*small]])    {}
func (h hears) Commit(c *store.Commit[*compact.Packed[*small]]) { h(c) }

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
