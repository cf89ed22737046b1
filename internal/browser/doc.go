// Package browser holds tests of the page of package inspect in a real browser: Chromium,
// without a window. It has no code of its own, and is a module of its own, so that nobody
// who uses the library gets what drives the browser.
//
//	go test -C internal/browser ./...
//	go test -C internal/browser ./... -screenshots ../../docs/images # renews the pictures
package browser
