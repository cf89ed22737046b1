package memsize_test

import (
	"fmt"

	"github.com/kubereflector/kubereflector/store/memsize"
)

func ExampleOf() {
	type site struct{ name string }
	fmt.Println(memsize.Of(&site{"shop"}), "bytes, of which the pointer takes 8")
	// Output: 32 bytes, of which the pointer takes 8
}
