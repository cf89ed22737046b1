// Package persist kills programs whose informers have a file behind them, and counts what
// the next ones ask a real API server for.
package persist
