// Package informer tests informers against a real API server that is killed and started again while they run, and whose kinds come and go. It has no
// code of its own.
//
// The storm is TestEverySubscriberOutlivesAStorm: ten subscribers of mixed pace, and an API server that is killed three times while objects are
// created, changed and deleted: 5,000 of them, 15,000 times, in less than a minute on two cores. In two and a half minutes it does so to 20,000 objects,
// 100,000 times:
//
//	KUBEREFLECTOR_STORM=full go test -C internal/e2e -run Storm -v -timeout 30m ./informer
//
// TestEveryCacheFollowsADefinition changes what the server answers without a write of any object, and compares each kind of cache with a fresh list.
package informer
