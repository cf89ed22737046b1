// Package cut bounds texts. A server controls the length of its answers, and errors, logs and events
// would repeat them.
package cut
