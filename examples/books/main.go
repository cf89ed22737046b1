// Program books keeps books in a store. It finds them by key, and by three indexes, each of which is a
// typed variable. A snapshot keeps one state of the store, and the same indexes read it.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/kubereflector/kubereflector/examples/internal/cluster"
	"github.com/kubereflector/kubereflector/store"
)

// Book is the type of the objects. A store needs neither Kubernetes nor a cast.
type Book struct {
	Author, Title string
	Year          int
	Place         place // zero if the book is lent
}

type place struct{ shelf, slot int }

func (p place) compare(q place) int { return cmp.Or(p.shelf-q.shelf, p.slot-q.slot) }

// bookKey says what makes a book the same book. In client-go it would take an
// interface{} and would have to check that it got a Book.
func bookKey(book Book) (store.Key, error) {
	if book.Title == "" {
		return store.Key{}, store.ErrBadKey
	}
	return store.Key{Namespace: book.Author, Name: book.Title}, nil
}

// placeOf is an index function: it returns the values of an object. A book without one is not in the index.
func placeOf(book Book) []place {
	if book.Place == (place{}) {
		return nil
	}
	return []place{book.Place}
}

func main() { cluster.Main(cluster.InMemoryOnly(run)) }

func run(_ context.Context, out io.Writer, _ cluster.Cluster) error {
	books := store.New(bookKey)
	byAuthor, err := store.AddIndex(books, "author", func(book Book) []string { return []string{book.Author} })
	if err != nil {
		return err
	}
	byYear, err1 := store.AddIndex(books, "year", func(book Book) []int { return []int{book.Year} })
	byPlace, err2 := store.AddIndexFunc(books, "place", placeOf, place.compare)
	bleak := Book{"Charles Dickens", "Bleak House", 1853, place{2, 1}}
	err = errors.Join(err1, err2, books.Add(bleak),
		books.Add(Book{"Herman Melville", "Moby Dick", 1851, place{1, 7}}),
		books.Add(Book{"Charles Dickens", "David Copperfield", 1850, place{}}))
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "All books, in the order of their keys:")
	for key := range books.All() {
		fmt.Fprintln(out, " ", key)
	}
	book, found := books.Get(store.Key{Namespace: "Herman Melville", Name: "Moby Dick"})
	fmt.Fprintf(out, "By key: %q by %s, found: %t\n", book.Title, book.Author, found)
	for author := range byAuthor.Values() {
		fmt.Fprintf(out, "By %s: %q\n", author, titles(byAuthor.Get(author)))
	}
	fmt.Fprintf(out, "The newest first: %q\n", titles(byYear.Backward()))
	fmt.Fprintf(out, "Of 1851 and later: %q\n", titles(byYear.From(1851)))
	fmt.Fprintf(out, "In the order of the shelves: %q\n", titles(byPlace.All()))

	before := books.Snapshot()
	if err := books.Delete(bleak); err != nil {
		return err
	}
	fmt.Fprintf(out, "Then: %d books, by Dickens %q\n", before.Len(), titles(byAuthor.On(before).Get("Charles Dickens")))
	fmt.Fprintf(out, "Now: %d books, by Dickens %q\n", books.Len(), titles(byAuthor.Get("Charles Dickens")))
	fmt.Fprintln(out, "A book without a title:", books.Add(Book{Author: "Anonymous"}))
	return nil
}

func titles(books iter.Seq2[store.Key, Book]) (titles []string) {
	for _, book := range books {
		titles = append(titles, book.Title)
	}
	return titles
}
