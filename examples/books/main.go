// Program books keeps books in a store. It finds them by key and, by an index, by author.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/kubereflector/kubereflector/examples/internal/cluster"
	"github.com/kubereflector/kubereflector/store"
)

// Book is the type of the objects. A store needs neither Kubernetes nor a cast.
type Book struct{ Author, Title string }

// bookKey says what makes a book the same book. In client-go it would take an
// interface{} and would have to check that it got a Book.
func bookKey(book Book) (store.Key, error) {
	if book.Title == "" {
		return store.Key{}, store.ErrBadKey
	}
	return store.Key{Namespace: book.Author, Name: book.Title}, nil
}

func main() { cluster.Main(cluster.InMemoryOnly(run)) }

func run(_ context.Context, out io.Writer, _ cluster.Cluster) error {
	books := store.New(bookKey)
	byAuthor, err := store.AddIndex(books, "author", func(book Book) []string { return []string{book.Author} })
	if err != nil {
		return err
	}
	bleak := Book{"Charles Dickens", "Bleak House"}
	if err := errors.Join(books.Add(Book{"Herman Melville", "Moby Dick"}), books.Add(Book{"Charles Dickens", "David Copperfield"}), books.Add(bleak)); err != nil {
		return err
	}
	fmt.Fprintln(out, "All books, in the order of their keys:")
	for key := range books.All() {
		fmt.Fprintln(out, " ", key)
	}
	book, found := books.Get(store.Key{Namespace: "Herman Melville", Name: "Moby Dick"})
	fmt.Fprintf(out, "By key: %q by %s, found: %t\n", book.Title, book.Author, found)
	fmt.Fprintln(out, "By Charles Dickens:")
	for _, book := range byAuthor.Get("Charles Dickens") {
		fmt.Fprintln(out, " ", book.Title)
	}
	if err := books.Delete(bleak); err != nil {
		return err
	}
	fmt.Fprintln(out, "Books after one was deleted:", books.Len())
	fmt.Fprintln(out, "A book without a title:", books.Add(Book{Author: "Anonymous"}))
	return nil
}
