// Package browser tests the page of package inspect, the tour, and the diagrams of all pages in
// Chromium without a window. It has no code of its own. It is a module of its own, so that users of
// the library do not get its dependencies.
//
// The tests get axe-core and Mermaid from the npm registry, with pinned versions and checksums.
//
//	go test -C internal/browser ./...
//	go test -C internal/browser ./... -screenshots ../../docs/images # renews the pictures
package browser
