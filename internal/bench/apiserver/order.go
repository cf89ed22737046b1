package apiserver

import (
	"fmt"
	"io"
	"net/http"
	"time"
)

// Patience is for what takes milliseconds, but on a busy machine.
const Patience = time.Minute

// Order tells a [Server] to do something, such as "modify?n=1", as soon as it is being watched.
func Order(client *http.Client, host, what string) error {
	late := time.Now().Add(Patience)
	for {
		response, err := client.Post(host+"/-/"+what, "", nil)
		if err != nil {
			return err
		}
		text, _ := io.ReadAll(response.Body)
		response.Body.Close()
		switch {
		case response.StatusCode == http.StatusOK:
			return nil
		case response.StatusCode != http.StatusConflict || time.Now().After(late):
			return fmt.Errorf("%s: %s: %s", what, response.Status, text)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
