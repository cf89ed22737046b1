package main

import (
	"context"
	"fmt"
	"io"

	"github.com/kubereflector/kubereflector/examples/internal/cluster"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// demo orders a book, and plays the controller of Jobs.
func demo(ctx context.Context, out io.Writer, c cluster.Cluster) error {
	book, job := newOrder("book"), &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "book"}}
	tell := func() error {
		err := c.Memory.Get(book)
		fmt.Fprintf(out, "Order %s: Job %q, paid: %t\n", book.Name, book.Status.Job, book.Status.Paid)
		return err
	}
	return cluster.Steps(ctx, c.Create(book), tell, func() error {
		if err := c.Memory.Get(job); err != nil {
			return err
		}
		job.Status.Succeeded = 1
		return c.Memory.Update(job)
	}, tell)
}

func newOrder(name string) *Order {
	return &Order{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
}
