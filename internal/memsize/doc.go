// Package memsize estimates the memory of objects, for budgets of caches.
package memsize
