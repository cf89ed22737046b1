// Package expiry has a store whose objects live for a time: what is not written again
// until then is gone, whoever looks. It is what client-go's ExpirationCache is for: what
// is learned by polling, or of which nobody reports the end.
//
// # Usage
//
//	tokens := expiry.New(keyOf, func(t *Token) time.Duration { return t.Life })
//	defer tokens.Close()
//	err := tokens.Add(token)
//	token, ok := tokens.Get(key)
//
// # Guarantees
//
//   - X1. No read returns an object whose time is over: neither Get nor a walk that began
//     before it was. Exactly at the end of its time an object still lives.
//   - X2. The time begins at each write of an object, and at each Replace that lists it,
//     changed or not, also if it is a shorter one by then. A write that fails leaves it as
//     it was.
//   - X3. Memory is released without anybody reading or writing: a timer takes out what is
//     over, no more than 256 objects in a commit, and no later than the next one is due.
//     There is a timer only while something is going to be over.
//   - X4. With times that never end, a [Store] fulfils the whole contract of package store,
//     as storetest tests it.
//
// # What of a store's contract does not hold
//
// Objects go without the server having said so. So a resource version does not say any
// more that what is missing here is missing there, and a watch that is resumed from it does
// not bring back what has gone; only a Replace does. The same object read twice may be gone
// the second time without a commit between, and Len counts what lives when it is called. An
// object that was rejected does not hold up the resource version after its older state has
// gone.
//
// # Concurrency
//
// Everything may be called from any goroutine. Writes happen one at a time. The functions
// for keys and times run while the store is written: they must be quick, and must not write
// to it. The clock is that of package time, and so that of a synctest bubble. The timer's
// work runs on a goroutine that lasts for one commit.
//
// # Errors
//
// Those of package store. A time function that panics rejects its object ([store.ErrPanic]).
package expiry
