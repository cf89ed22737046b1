// Program tour shows in a browser how pods travel through an informer.
//
// The API server runs in memory, and the informer is the library's own. Each step of a script creates,
// changes or deletes pods, or breaks the watch. The reader asks for each step.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"os/signal"
)

func main() {
	address := flag.String("address", "localhost:8080", "the address of the page")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	listener, err := net.Listen("tcp", *address)
	if err == nil {
		fmt.Printf("The tour is at http://%v/ (Ctrl-C ends it)\n", listener.Addr())
		err = run(ctx, listener)
	}
	if err != nil {
		log.Fatal(err)
	}
}
