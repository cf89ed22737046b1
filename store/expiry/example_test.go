package expiry_test

import (
	"fmt"
	"time"

	"github.com/kubereflector/kubereflector/store"
	"github.com/kubereflector/kubereflector/store/expiry"
)

// Session is not from Kubernetes: nobody reports its end.
type Session struct {
	User string
	Life time.Duration
}

// A session is there until its time is over, whether somebody looks or not.
func Example() {
	sessions := expiry.New(
		func(s Session) (store.Key, error) { return store.Key{Name: s.User}, nil },
		func(s Session) time.Duration { return s.Life })
	defer sessions.Close()
	for _, s := range []Session{{"ada", time.Hour}, {"bob", time.Nanosecond}} {
		if err := sessions.Add(s); err != nil {
			panic(err)
		}
	}
	<-time.After(time.Millisecond)
	for key := range sessions.All() {
		fmt.Println(key)
	}
	// Output: ada
}
