// Package masking replaces secret values in an object that was decoded from JSON. Programs use it
// before they show objects to people or write them to files.
package masking
