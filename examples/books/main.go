// Program books keeps books in a store: it finds them by key and, through an index,
// by author. Nothing in it has to do with Kubernetes, and nothing is cast.
package main

import (
	"fmt"
	"io"
	"os"

	"github.com/kubereflector/kubereflector/store"
)

// Book is what the store holds.
type Book struct {
	Author string
	Title  string
}

// bookKey says what makes a book the same book. In client-go it would take an
// interface{} and would have to check that it got a Book.
func bookKey(book Book) (store.Key, error) {
	if book.Title == "" {
		return store.Key{}, store.ErrBadKey
	}
	return store.Key{Namespace: book.Author, Name: book.Title}, nil
}

func main() {
	if err := run(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(out io.Writer) error {
	books := store.New(bookKey)
	byAuthor, err := store.AddIndex(books, "author", func(book Book) []string { return []string{book.Author} })
	if err != nil {
		return err
	}

	for _, book := range []Book{
		{"Herman Melville", "Moby Dick"},
		{"Charles Dickens", "David Copperfield"},
		{"Charles Dickens", "Bleak House"},
	} {
		if err := books.Add(book); err != nil {
			return err
		}
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

	if err := books.Delete(Book{"Charles Dickens", "Bleak House"}); err != nil {
		return err
	}
	fmt.Fprintln(out, "Books after one was deleted:", books.Len())
	fmt.Fprintln(out, "A book without a title:", books.Add(Book{Author: "Anonymous"}))
	return nil
}
