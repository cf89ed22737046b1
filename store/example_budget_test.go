package store_test

import (
	"errors"
	"fmt"

	"github.com/kubereflector/kubereflector/store"
)

// The cache rejects objects over the budget, and reports them. It keeps the objects that it holds.
func ExampleAddBudget() {
	words := store.New(func(word string) (store.Key, error) { return store.Key{Name: word[:1]}, nil })
	budget, err := store.AddBudget(words, 10, func(word string) int64 { return int64(len(word)) })
	if err != nil {
		panic(err)
	}
	for _, word := range []string{"apple", "pear", "banana", "fig", "ant"} {
		if err := words.Update(word); errors.Is(err, store.ErrOverBudget) {
			fmt.Println("refused:", word)
		}
	}
	fmt.Println(words.Len(), "words of", budget.Bytes(), "bytes")
	// Output:
	// refused: banana
	// refused: fig
	// 2 words of 7 bytes
}
