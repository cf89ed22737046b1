// Package masking replaces what is secret in an object that was decoded from JSON, for whoever
// shows objects to people or writes them to files.
package masking
