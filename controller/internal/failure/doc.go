// Package failure reports failures of handlers, for controllers and reconcilers.
package failure
