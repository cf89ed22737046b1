package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/examples/internal/cluster"
	"github.com/kubereflector/kubereflector/store"
)

// demo adds the key of the till three times, and lets the first work on it fail.
func demo(ctx context.Context, out io.Writer, _ cluster.Cluster) error {
	till, stock := store.Key{Namespace: "shop", Name: "till"}, store.Key{Namespace: "shop", Name: "stock"}
	keys := []store.Key{till, till, stock, till}
	for _, queue := range []struct {
		name string
		run  func(context.Context, []store.Key, func(store.Key, int) error)
	}{{"client-go's work queue", withClientGo}, {"A collection of keys", withCollection}} {
		fmt.Fprintf(out, "%s gets shop/till three times and shop/stock once:\n", queue.name)
		ctx, stop := context.WithCancel(ctx)
		queue.run(ctx, keys, func(key store.Key, attempt int) error {
			if key == till && attempt == 1 {
				fmt.Fprintf(out, "  %s fails\n", key)
				return errors.New("busy")
			}
			fmt.Fprintf(out, "  %s is done at attempt %d\n", key, attempt)
			if key == till {
				stop()
			}
			return nil
		})
		stop()
	}
	return events(ctx, out)
}

// counted is an object with a number that changes.
type counted struct {
	key    store.Key
	number int
}

// events puts the same into a collection of events. Its handler knows both states.
func events(ctx context.Context, out io.Writer) error {
	fmt.Fprintln(out, "A collection of events gets a till that changes from 1 to 2 and to 3:")
	tills := eventqueue.New(func(c counted) (store.Key, error) { return c.key, nil })
	defer tills.Close()
	till := store.Key{Namespace: "shop", Name: "till"}
	if err := tills.Add(counted{till, 1}); err != nil {
		return err
	}
	for event := range tills.Consume(ctx) {
		fmt.Fprintf(out, "  %v of %s: from %d to %d\n", event.Type, event.Key, event.Prior.number, event.Object.number)
		if event.Type == eventqueue.Modification {
			break
		}
		if err := errors.Join(tills.Update(counted{till, 2}), tills.Update(counted{till, 3})); err != nil {
			return err
		}
	}
	return nil
}
