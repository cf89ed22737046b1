// Package memsize estimates the memory of objects, for budgets of caches and event queues.
//
//	budget, err := store.AddBudget(pods, 1<<30, memsize.Of[*corev1.Pod])
package memsize
