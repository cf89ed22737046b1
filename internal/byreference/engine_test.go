package byreference

import (
	"testing"

	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

var key = store.Key{Name: "a"}

func version(uid types.UID, version string) store.Version {
	return store.Version{UID: uid, ResourceVersion: version}
}

// thing is an object with a version.
type thing struct{ store.Version }

func (t *thing) GetUID() types.UID          { return t.UID }
func (t *thing) GetResourceVersion() string { return t.ResourceVersion }

func observe(t *testing.T, e *Engine, w *Watch, n News) Again {
	t.Helper()
	n.Synced = true
	again, err := e.Observe(w, n)
	require.NoError(t, err)
	return again
}

// A rejected object says nothing about deletions: the cache shows what was before.
func TestMetadataPassNoRejectedState(t *testing.T) {
	for name, rejected := range map[string]store.Key{"the object": key, "an object without a key": {}} {
		t.Run(name, func(t *testing.T) {
			e := New()
			w := e.Add(labels.Everything())
			observe(t, e, e.Metadata(), News{List: true, Version: "5"})
			observe(t, e, w, News{List: true, Version: "9"})
			f := Facts{Shown: version("u", "9"), Owned: version("u", "9")}
			assert.Equal(t, ShowOwned, e.Decide(key, f))
			assert.Empty(t, observe(t, e, e.Metadata(), News{Version: "9", Rejected: []store.Key{rejected}}).Keys)
			assert.Equal(t, ShowOwned, e.Decide(key, f), "the metadata did not show version 9")
			f.Owned = store.Version{}
			assert.Equal(t, Keep, e.Decide(key, f))
			assert.False(t, e.Reached(key, "9", Facts{}))
			assert.Equal(t, []store.Key{key}, observe(t, e, e.Metadata(), News{Version: "12"}).Keys)
			assert.Equal(t, Remove, e.Decide(key, f))
			assert.True(t, e.Reached(key, "9", Facts{}))
		})
	}
}

// A cache that rejected an object of its first list is synced, but has no version yet.
func TestMetadataWithoutAVersionHavePassedNothing(t *testing.T) {
	e := New()
	observe(t, e, e.Metadata(), News{})
	e.Raise(key, store.Version{}, version("u", "9"))
	assert.Equal(t, version("u", "9"), e.Shown(key))
	assert.Equal(t, Keep, e.Decide(key, Facts{Shown: version("u", "9")}))
	assert.False(t, e.Reached(key, "9", Facts{}))
	assert.Empty(t, observe(t, e, e.Metadata(), News{Version: "8"}).Keys)
	assert.Equal(t, []store.Key{key}, observe(t, e, e.Metadata(), News{Version: "9"}).Keys)
}

// The cache shows a later state than the one that it rejected.
func TestMetadataWithALaterStateHavePassedTheRejectedOne(t *testing.T) {
	e := New()
	observe(t, e, e.Metadata(), News{List: true, Version: "5"})
	observe(t, e, e.Metadata(), News{Version: "9", Rejected: []store.Key{key}})
	assert.Equal(t, ShowMetadata, e.Decide(key, Facts{Shown: version("old", "9"), Metadata: version("new", "10")}))
	assert.Equal(t, Keep, e.Decide(key, Facts{Shown: version("old", "9"), Metadata: version("new", "8")}))
}

// After a restore, the version received before a rejection is one that the server has lost.
func TestRestoreForgetsWhatWasReceivedBeforeARejection(t *testing.T) {
	e := New()
	observe(t, e, e.Metadata(), News{List: true, Version: "9"})
	observe(t, e, e.Metadata(), News{Version: "10", Rejected: []store.Key{key}})
	assert.True(t, e.Reached(key, "8", Facts{}))
	assert.True(t, observe(t, e, e.Metadata(), News{List: true, Version: "5", Rejected: []store.Key{key}}).Restored)
	assert.False(t, e.Reached(key, "5", Facts{}), "the list may have the object")
}

func TestListWithAnEarlierStateShowsARestore(t *testing.T) {
	e := New()
	observe(t, e, e.Metadata(), News{List: true, Version: "5"})
	assert.False(t, observe(t, e, e.Metadata(), News{List: true, Version: "5"}).Restored)
	assert.True(t, observe(t, e, e.Metadata(), News{List: true, Version: "9", Back: true}).Restored)
	assert.True(t, observe(t, e, e.Metadata(), News{List: true, Version: "8"}).Restored)
	cache := &store.New(func(*thing) (store.Key, error) { return key, nil }).View
	commit := &store.Commit[*thing]{Origin: store.List, ObservedVersion: "9", Changes: []store.Change[*thing]{
		{Type: store.Modification, Prior: &thing{version("u", "8")}, Version: version("u", "7")},
	}}
	assert.True(t, NewsOf(commit, cache).Back)
	commit.Changes[0].Version.ResourceVersion = "8"
	assert.False(t, NewsOf(commit, cache).Back)
	commit.Changes[0].Type, commit.ObservedVersion = store.Deletion, "7"
	assert.True(t, NewsOf(commit, cache).Back, "the cache had rejected what a list had")
}

func TestVersionIsTheLowestOfTheWatchesWithAList(t *testing.T) {
	e := New()
	w, unlisted := e.Add(labels.Everything()), e.Add(labels.Everything())
	observe(t, e, e.Metadata(), News{List: true, Version: "10"})
	assert.Equal(t, "10", e.Version())
	observe(t, e, w, News{List: true, Version: "9"})
	assert.Equal(t, "9", e.Version())
	assert.False(t, unlisted.Synced())
	e.Remove(w)
	assert.Equal(t, "10", e.Version())
	observe(t, e, e.Add(labels.Everything()), News{})
	assert.Empty(t, e.Version(), "the first list of a watch had a rejected object")
}

func TestVersionOfAWatchIsUnknownWithThatOfAScope(t *testing.T) {
	for range 20 { // whatever the order of the scopes
		e := New()
		for _, scope := range []string{"a", "b", "c", "d"} {
			observe(t, e, e.Metadata(), News{Partial: true, Scope: store.Scope{Namespace: scope}, List: true, Version: "9"})
		}
		require.Equal(t, "9", e.Version())
		observe(t, e, e.Metadata(), News{Partial: true, Scope: store.Scope{Namespace: "e"}})
		require.Empty(t, e.Version())
	}
}

func TestScopesOfAWatchSayNothingOfEachOther(t *testing.T) {
	e := New()
	at := func(scope store.Scope, version string, rejected ...store.Key) {
		t.Helper()
		assert.False(t, observe(t, e, e.Metadata(), News{Partial: true, Scope: scope, List: true, Version: version, Rejected: rejected}).Restored)
	}
	one, all := store.Scope{Namespace: "one"}, store.Scope{Cluster: "c"}
	ofOne, ofAll := store.Key{Namespace: "one", Name: "a"}, store.Key{Cluster: "c", Namespace: "one", Name: "a"}
	at(all, "100", ofAll)
	at(one, "9")
	at(all, "101", ofAll)
	assert.Equal(t, "9", e.Version())
	for key, passed := range map[store.Key]map[string]bool{
		ofOne: {"9": true, "10": false}, ofAll: {"100": false}, {Name: "of no scope"}: {"9": false},
	} {
		for version, want := range passed {
			assert.Equal(t, want, e.Reached(key, version, Facts{}), "%v %s", key, version)
		}
	}
	at(all, "102")
	assert.True(t, e.Reached(ofAll, "102", Facts{}))
	assert.True(t, observe(t, e, e.Metadata(), News{Partial: true, Scope: one, List: true, Version: "8"}).Restored)
}

func TestVersionsThatCannotBeComparedAreRefused(t *testing.T) {
	for _, version := range []string{"", "abc", "0x1"} {
		e := New()
		_, err := e.Observe(e.Metadata(), News{List: true, Synced: true, Version: version})
		require.ErrorIs(t, err, ErrVersions, "%q", version)
	}
}
