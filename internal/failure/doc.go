// Package failure reports failures of handlers, for informers, controllers and reconcilers.
package failure
